//! What bounds the engine's work.

/// Of a request's body, and of the text of one prompt.
pub const TEXT_BYTES_MAX: usize = 32 << 20;
/// Of tokenizer.json; the largest in use have 34 MB.
pub const TOKENIZER_BYTES_MAX: usize = 256 << 20;
/// Of tokenizer_config.json and of a chat template.
pub const CONFIG_BYTES_MAX: usize = 16 << 20;
/// Prompts of one request.
pub const PROMPTS_MAX: usize = 4096;
/// Nested calls and includes of a template.
pub const TEMPLATE_DEPTH_MAX: usize = 100;

/// Work of a template on a body of `bytes`, in minijinja's fuel: an instruction, or 64 bytes moved.
/// Templates take 100 to 200 instructions for a message, which has 30 bytes and more.
pub fn template_fuel(bytes: usize) -> u64 {
    1_000_000 + 8 * bytes as u64
}
