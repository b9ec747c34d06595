//! A model's tokenizer and chat template behind a C ABI, which include/text_engine.h describes.

pub mod cuts;
pub mod engine;
pub mod error;
pub mod limits;
pub mod model;
pub mod python_json;
pub mod request;
pub mod template;

use error::{Code, Error, Result};
use model::Model;
use request::Prompts;
use std::ffi::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct TextBytes {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct TextError {
    text: [u8; 512],
}

type TextIds = unsafe extern "C" fn(*mut c_void, *const u32, usize);
type TextPrompt = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

impl TextBytes {
    /// # Safety
    /// They are readable for 'a, which the header asks of callers.
    unsafe fn get<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(self.data, self.size)
        }
    }
}

/// Runs `work` and says how it went, as functions of the ABI do.
unsafe fn report(error: *mut TextError, work: impl FnOnce() -> Result<()>) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error { code: Code::Panic, text: "the text engine has failed".into() })
    });
    let Err(failure) = outcome else { return 0 };
    if let Some(error) = error.as_mut() {
        let room = error.text.len() - 1;
        let size = (0..=room.min(failure.text.len()))
            .rev()
            .find(|&at| failure.text.is_char_boundary(at))
            .unwrap_or(0);
        error.text[..size].copy_from_slice(&failure.text.as_bytes()[..size]);
        error.text[size] = 0;
    }
    failure.code as i32
}

unsafe fn give_prompts(
    prompts: &Prompts,
    prompt: TextPrompt,
    context: *mut c_void,
    framed: *mut i32,
) {
    for text in &prompts.texts {
        prompt(context, text.as_ptr().cast(), text.len());
    }
    *framed = i32::from(prompts.framed);
}

/// # Safety
/// As the header says; so for all that follow.
#[no_mangle]
pub unsafe extern "C" fn text_model_open(
    tokenizer: TextBytes,
    config: TextBytes,
    chat_template: TextBytes,
    out: *mut *mut Model,
    error: *mut TextError,
) -> i32 {
    report(error, || {
        let model = Model::open(tokenizer.get(), config.get(), chat_template.get())?;
        *out = Box::into_raw(Box::new(model));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn text_model_close(model: *mut Model) {
    report(std::ptr::null_mut(), || {
        if !model.is_null() {
            drop(Box::from_raw(model));
        }
        Ok(())
    });
}

#[no_mangle]
pub unsafe extern "C" fn text_model_engine(model: *const Model) -> *const c_char {
    (*model).engine.name().as_ptr()
}

#[no_mangle]
pub unsafe extern "C" fn text_model_has_template(model: *const Model) -> i32 {
    i32::from((*model).has_template())
}

#[no_mangle]
pub unsafe extern "C" fn text_cuts(
    model: *const Model,
    text: TextBytes,
    apart: usize,
    out: *mut usize,
    capacity: usize,
) -> usize {
    let mut count = 0;
    report(std::ptr::null_mut(), || {
        // The text is looked at by text_encode() too, which says what is wrong with it.
        let text = std::str::from_utf8(text.get()).unwrap_or("");
        if capacity > 0 {
            let out = std::slice::from_raw_parts_mut(out, capacity);
            count = (*model).cut(text, apart, out);
        }
        Ok(())
    });
    count
}

#[no_mangle]
pub unsafe extern "C" fn text_encode(
    model: *const Model,
    text: TextBytes,
    ids: TextIds,
    context: *mut c_void,
    error: *mut TextError,
) -> i32 {
    report(error, || {
        let tokens = (*model).encode(text.get())?;
        ids(context, tokens.as_ptr(), tokens.len());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn text_frame(
    model: *const Model,
    before: TextIds,
    after: TextIds,
    context: *mut c_void,
) {
    let frame = &(*model).frame;
    before(context, frame.before.as_ptr(), frame.before.len());
    after(context, frame.after.as_ptr(), frame.after.len());
}

#[no_mangle]
pub unsafe extern "C" fn text_render_chat(
    model: *const Model,
    body: TextBytes,
    prompt: TextPrompt,
    context: *mut c_void,
    framed: *mut i32,
    error: *mut TextError,
) -> i32 {
    report(error, || {
        give_prompts(&(*model).render_chat(body.get())?, prompt, context, framed);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn text_read_prompts(
    body: TextBytes,
    prompt: TextPrompt,
    context: *mut c_void,
    framed: *mut i32,
    error: *mut TextError,
) -> i32 {
    report(error, || {
        give_prompts(&request::read_completion(body.get())?, prompt, context, framed);
        Ok(())
    })
}
