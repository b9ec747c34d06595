//! A model's tokenizer and chat template, opened from its files.

use crate::cuts::Cuts;
use crate::engine::{prepare, Engine, Frame};
use crate::error::{bad_input, too_large, unsupported, Result};
use crate::limits::{CONFIG_BYTES_MAX, TEXT_BYTES_MAX, TOKENIZER_BYTES_MAX};
use crate::request::{render_chat, Prompts};
use crate::template::Template;
use serde_json::Value;

pub struct Model {
    pub engine: Engine,
    pub frame: Frame,
    pub cuts: Cuts,
    /// Of tokenizer_config.json: those that are not tables of tokens.
    config: Value,
    templates: Option<Templates>,
}

/// A model may have a template of its own for requests with tools.
struct Templates {
    plain: Template,
    with_tools: Option<Template>,
}

impl Model {
    pub fn open(tokenizer: &[u8], config: &[u8], chat_template: &[u8]) -> Result<Self> {
        let mut config = match config {
            b"" => Value::Null,
            _ => read_json("tokenizer_config.json", config, CONFIG_BYTES_MAX)?,
        };
        let read = |config: &Value| {
            let mut json = read_json("tokenizer.json", tokenizer, TOKENIZER_BYTES_MAX)?;
            prepare(&mut json, config)?;
            Ok(json)
        };
        let json = read(&config)?;
        let cuts = Cuts::of(&json);
        let engine = Engine::open(json, || read(&config))?;
        if let Some(fields) = config.as_object_mut() {
            fields.remove("added_tokens_decoder");
        }
        let templates = Templates::of(chat_template, &config)?;
        let frame = Frame::of(&engine, &config)?;
        Ok(Self { engine, frame, cuts, config, templates })
    }

    pub fn has_template(&self) -> bool {
        self.templates.is_some()
    }

    pub fn render_chat(&self, body: &[u8]) -> Result<Prompts> {
        let templates =
            self.templates.as_ref().ok_or_else(|| unsupported("the model has no chat template"))?;
        render_chat(body, &self.config, |tools| match &templates.with_tools {
            Some(template) if tools => template,
            _ => &templates.plain,
        })
    }

    /// Without the frame.
    pub fn encode(&self, text: &[u8]) -> Result<Vec<u32>> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(too_large("the text", TEXT_BYTES_MAX));
        }
        let text = std::str::from_utf8(text).map_err(|_| bad_input("the text is not UTF-8"))?;
        self.engine.encode(text, false)
    }

    /// Writes to `out` where the text may be cut; see text_engine.h.
    pub fn cut(&self, text: &str, apart: usize, out: &mut [usize]) -> usize {
        let (mut count, mut from) = (0, 0);
        while count < out.len() {
            let Some(at) = self.cuts.next(text, from, from + apart.max(1)) else { break };
            out[count] = at;
            count += 1;
            from = at;
        }
        count
    }
}

impl Templates {
    /// Of chat_template.jinja, or of tokenizer_config.json: a text, or a list of named ones.
    fn of(file: &[u8], config: &Value) -> Result<Option<Self>> {
        let one =
            |source: &str| Ok(Some(Self { plain: Template::compile(source)?, with_tools: None }));
        if !file.is_empty() {
            let source = std::str::from_utf8(file)
                .map_err(|_| bad_input("the chat template is not UTF-8"))?;
            return one(source);
        }
        match &config["chat_template"] {
            Value::String(source) => one(source),
            Value::Array(list) => {
                let named = |name: &str| {
                    let entry = list.iter().find(|entry| entry["name"] == name)?;
                    entry["template"].as_str()
                };
                let Some(plain) = named("default") else { return Ok(None) };
                Ok(Some(Self {
                    plain: Template::compile(plain)?,
                    with_tools: named("tool_use").map(Template::compile).transpose()?,
                }))
            }
            _ => Ok(None),
        }
    }
}

fn read_json(file: &str, bytes: &[u8], limit: usize) -> Result<Value> {
    if bytes.len() > limit {
        return Err(too_large(file, limit));
    }
    serde_json::from_slice(bytes).map_err(|e| bad_input(format!("{file}: {e}")))
}
