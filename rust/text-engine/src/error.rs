use std::fmt::Display;

/// What went wrong, as the codes of the C ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    BadInput = 1,
    TooLarge = 2,
    Unsupported = 3,
    Panic = 4,
}

/// A code with text for people, which holds no prompt text.
#[derive(Debug, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub text: String,
}

pub type Result<T> = std::result::Result<T, Error>;

pub fn bad_input(text: impl Display) -> Error {
    Error { code: Code::BadInput, text: text.to_string() }
}

pub fn too_large(what: &str, limit: usize) -> Error {
    Error { code: Code::TooLarge, text: format!("{what} is larger than {limit} bytes") }
}

pub fn unsupported(text: impl Display) -> Error {
    Error { code: Code::Unsupported, text: text.to_string() }
}
