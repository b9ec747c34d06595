//! The tokenizer of a model, by one of two engines that make the same tokens.

use crate::error::{bad_input, unsupported, Result};
use serde_json::{json, Value};
use std::collections::HashSet;

/// `fastokens` for what it knows, which is BPE; Hugging Face's `tokenizers` for the rest.
pub enum Engine {
    Fast(Box<fastokens::Tokenizer>),
    HuggingFace(Box<tokenizers::Tokenizer>),
}

impl Engine {
    /// Of a tokenizer.json that [`prepare`] has seen; `again` has the same once more, since a copy
    /// would cost each model a third of the time that it takes.
    pub fn open(tokenizer: Value, again: impl FnOnce() -> Result<Value>) -> Result<Self> {
        // fastokens does not look at what stands beside a token.
        let words = added_tokens(&tokenizer).any(|token| token["single_word"] == true);
        let tokenizer = if words {
            tokenizer
        } else if let Ok(fast) = fastokens::Tokenizer::from_json(tokenizer) {
            return Ok(Self::Fast(Box::new(fast)));
        } else {
            again()?
        };
        let bytes = serde_json::to_vec(&tokenizer).map_err(bad_input)?;
        let slow = tokenizers::Tokenizer::from_bytes(bytes)
            .map_err(|e| unsupported(format!("tokenizer.json: {e}")))?;
        Ok(Self::HuggingFace(Box::new(slow)))
    }

    pub fn name(&self) -> &'static std::ffi::CStr {
        match self {
            Self::Fast(_) => c"fastokens",
            Self::HuggingFace(_) => c"tokenizers",
        }
    }

    /// `framed`: with the tokens that begin and end a sequence.
    pub fn encode(&self, text: &str, framed: bool) -> Result<Vec<u32>> {
        match self {
            Self::Fast(t) => t.encode_with_special_tokens(text, framed).map_err(unsupported),
            Self::HuggingFace(t) => t
                .encode_fast(text, framed)
                .map(|encoding| encoding.get_ids().to_vec())
                .map_err(unsupported),
        }
    }

    pub fn id_of(&self, token: &str) -> Option<u32> {
        match self {
            Self::Fast(t) => t.token_to_id(token),
            Self::HuggingFace(t) => t.token_to_id(token),
        }
    }
}

pub fn added_tokens(tokenizer: &Value) -> impl Iterator<Item = &Value> {
    tokenizer["added_tokens"].as_array().into_iter().flatten()
}

/// Makes a tokenizer.json say what model servers do with it: nothing is cut or padded, and tokens
/// that only tokenizer_config.json has are tokens.
pub fn prepare(tokenizer: &mut Value, config: &Value) -> Result<()> {
    let object =
        tokenizer.as_object_mut().ok_or_else(|| bad_input("tokenizer.json is not an object"))?;
    object.remove("truncation");
    object.remove("padding");
    let known = object.entry("added_tokens").or_insert_with(|| json!([]));
    let known = known
        .as_array_mut()
        .ok_or_else(|| bad_input("tokenizer.json: added_tokens is not a list"))?;
    let more = config["added_tokens_decoder"].as_object().into_iter().flatten();
    let texts: HashSet<_> = known.iter().map(|token| token["content"].to_owned()).collect();
    for (id, token) in more {
        let (Ok(id), Some(content)) = (id.parse::<u32>(), token["content"].as_str()) else {
            return Err(bad_input(format!(
                "tokenizer_config.json: added_tokens_decoder has no token '{id}'"
            )));
        };
        if texts.contains(&token["content"]) {
            continue;
        }
        let flag = |name: &str| token[name] == true;
        known.push(json!({
            "id": id, "content": content, "single_word": flag("single_word"),
            "lstrip": flag("lstrip"), "rstrip": flag("rstrip"),
            "normalized": flag("normalized"), "special": flag("special"),
        }));
    }
    known.sort_by_key(|token| token["id"].as_u64());
    Ok(())
}

/// The tokens before and after the text of a sequence.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub before: Vec<u32>,
    pub after: Vec<u32>,
}

impl Frame {
    pub fn of(engine: &Engine, config: &Value) -> Result<Self> {
        if let Some(frame) = Self::by_class(engine, config) {
            return Ok(frame);
        }
        let (text, whole) = (engine.encode("a", false)?, engine.encode("a", true)?);
        let at = whole
            .windows(text.len().max(1))
            .position(|window| window == text)
            .ok_or_else(|| unsupported("tokenizer.json: its post_processor changes texts"))?;
        Ok(Self { before: whole[..at].to_vec(), after: whole[at + text.len()..].to_vec() })
    }

    /// Some classes of `transformers` go by tokenizer_config.json instead of the post_processor.
    fn by_class(engine: &Engine, config: &Value) -> Option<Self> {
        const CLASSES: [&str; 4] =
            ["LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer"];
        let class = config["tokenizer_class"].as_str()?;
        if !CLASSES.contains(&class.strip_suffix("Fast").unwrap_or(class)) {
            return None;
        }
        let wants = |flag: &str, default: bool| config[flag].as_bool().unwrap_or(default);
        let id = |name: &str| special_token(config, name).and_then(|token| engine.id_of(token));
        let one = |wanted: bool, name: &str| {
            if wanted {
                id(name).into_iter().collect()
            } else {
                Vec::new()
            }
        };
        Some(Self {
            before: one(wants("add_bos_token", true), "bos_token"),
            after: one(wants("add_eos_token", false), "eos_token"),
        })
    }
}

/// A token that tokenizer_config.json names: a string, or an object with its content.
pub fn special_token<'a>(config: &'a Value, name: &str) -> Option<&'a str> {
    let token = &config[name];
    token.as_str().or_else(|| token["content"].as_str())
}
