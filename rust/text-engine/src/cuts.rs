//! Where a text may be cut so that the tokens of its parts, in order, are the tokens of the whole.
//!
//! Two kinds of places:
//!
//! 1. *Before a marker* (an added token such as `<|im_start|>`). Tokenizers find markers first,
//!    leftmost and longest, and treat the texts between them apart. What precedes a marker does not
//!    decide whether it is found, nor does what follows, so both parts find the markers they found
//!    in the whole. Excepted are markers that take white space before them (`lstrip`), those found
//!    only in normalised text, and tokenizers with a marker that must stand alone (`single_word`),
//!    for which the neighbour matters.
//! 2. *Between a newline and an ASCII letter* (a line). No match of the known patterns that split
//!    text into words has both, and none that ends there looks further than the letter or would end
//!    elsewhere at the end of a text. Where no pattern separates them, no token of the vocabulary
//!    may have both side by side: then no merge joins them. Normalisers that are allowed leave a
//!    newline and an ASCII letter alone and join nothing across them.

use crate::engine::added_tokens;
use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;
use std::collections::HashMap;

/// Patterns of which every match ends between a newline and a letter: of cl100k and Llama 3, Qwen,
/// o200k, and the three of DeepSeek.
const WORD_PATTERNS: [&str; 4] = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
];
/// Patterns that match neither a newline nor an ASCII letter.
const OTHER_PATTERNS: [&str; 2] = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+"];

/// How far a line is looked for, which takes less than looking for markers.
const LINE_WINDOW: usize = 8192;

pub struct Cuts {
    markers: Option<AhoCorasick>,
    /// By pattern: the text may be cut before it.
    before: Vec<bool>,
    lines: bool,
}

impl Cuts {
    /// Of a tokenizer.json.
    pub fn of(tokenizer: &Value) -> Self {
        let none = Self { markers: None, before: Vec::new(), lines: false };
        if added_tokens(tokenizer).any(|token| token["single_word"] == true) {
            return none;
        }
        let markers = raw_markers(tokenizer);
        let before = markers.iter().map(|token| token["lstrip"] != true).collect();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(markers.iter().map(|token| content(token)));
        match automaton {
            Ok(automaton) => Self {
                markers: (!markers.is_empty()).then_some(automaton),
                before,
                lines: lines_are_apart(tokenizer),
            },
            Err(_) => none,
        }
    }

    /// A place in `text` after `from` and not before `least`: the first line where one is near, else
    /// the first of all. Requires: `from` is 0 or such a place, since only from there markers are
    /// found as in the whole.
    pub fn next(&self, text: &str, from: usize, least: usize) -> Option<usize> {
        let line = self.line(text, least);
        if line.is_some_and(|at| at - least < LINE_WINDOW) {
            return line;
        }
        let marker = self.marker(text, from, least);
        match (line, marker) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn line(&self, text: &str, least: usize) -> Option<usize> {
        if !self.lines || least == 0 || least >= text.len() {
            return None;
        }
        let bytes = text.as_bytes();
        memchr::memchr_iter(b'\n', &bytes[least - 1..])
            .map(|newline| least + newline)
            .find(|&at| bytes.get(at).is_some_and(u8::is_ascii_alphabetic))
    }

    fn marker(&self, text: &str, from: usize, least: usize) -> Option<usize> {
        self.markers
            .as_ref()?
            .find_iter(&text[from..])
            .filter(|found| self.before[found.pattern().as_usize()])
            .map(|found| from + found.start())
            .find(|&at| at >= least && at > 0)
    }
}

fn content(token: &Value) -> &str {
    token["content"].as_str().unwrap_or("")
}

/// Markers that are found in the text as it stands. Those for normalised text are among them where
/// nothing is normalised, unless they could overlap others: the two kinds are found one after the
/// other.
fn raw_markers(tokenizer: &Value) -> Vec<&Value> {
    let all: Vec<_> = added_tokens(tokenizer).filter(|token| !content(token).is_empty()).collect();
    if is_identity(&tokenizer["normalizer"]) && !may_overlap(&all) {
        return all;
    }
    all.into_iter().filter(|token| token["normalized"] != true).collect()
}

/// Whether a text could hold two of them that share bytes. Coarse: one has the first byte of
/// another within, or begins with one of the other kind.
fn may_overlap(tokens: &[&Value]) -> bool {
    let mut first = [false; 256];
    for token in tokens {
        first[content(token).as_bytes()[0] as usize] = true;
    }
    let normalized = |token: &Value| token["normalized"] == true;
    let kinds: HashMap<_, _> = tokens.iter().map(|t| (content(t), normalized(t))).collect();
    let begins_with_other = |token: &&Value| {
        let text = content(token);
        let beginnings = text.char_indices().skip(1).map(|(at, _)| &text[..at]);
        let mut others = beginnings.filter_map(|beginning| kinds.get(beginning));
        others.any(|&kind| kind != normalized(token))
    };
    tokens.iter().any(|t| content(t).bytes().skip(1).any(|byte| first[byte as usize]))
        || tokens.iter().any(begins_with_other)
}

fn is_identity(normalizer: &Value) -> bool {
    normalizer.is_null()
        || parts(normalizer, "normalizers").is_some_and(|all| all.iter().all(is_identity))
}

/// The members of a Sequence; nothing for another type.
fn parts<'a>(step: &'a Value, field: &str) -> Option<&'a Vec<Value>> {
    if step["type"] == "Sequence" {
        step[field].as_array()
    } else {
        None
    }
}

fn lines_are_apart(tokenizer: &Value) -> bool {
    let markers_allow = added_tokens(tokenizer).all(|token| {
        let begins_with_letter = content(token).starts_with(|c: char| c.is_ascii_alphabetic());
        !joins_lines(content(token)) && !(token["lstrip"] == true && begins_with_letter)
    });
    markers_allow
        && tokenizer["model"]["dropout"].is_null()
        && normalizer_allows(&tokenizer["normalizer"])
        && (words_end_at_lines(&tokenizer["pre_tokenizer"]) || no_token_joins_lines(tokenizer))
}

fn joins_lines(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| pair[0] == b'\n' && pair[1].is_ascii_alphabetic())
}

/// Whether a normaliser keeps the two sides of a line apart.
fn normalizer_allows(normalizer: &Value) -> bool {
    if let Some(all) = parts(normalizer, "normalizers") {
        return all.iter().all(normalizer_allows);
    }
    match normalizer["type"].as_str() {
        None => normalizer.is_null(),
        Some("NFC") => true,
        Some("Replace") => normalizer["pattern"]["String"] == " " && normalizer["content"] == "▁",
        Some(_) => false,
    }
}

fn words_end_at_lines(pre_tokenizer: &Value) -> bool {
    let one = std::slice::from_ref(pre_tokenizer);
    let steps = parts(pre_tokenizer, "pretokenizers").map_or(one, Vec::as_slice);
    let pattern = |step: &Value| {
        let isolated = step["behavior"] == "Isolated" && step["invert"] == false;
        let matched = step["behavior"] == "Removed" && step["invert"] == true;
        let of_type = step["type"] == "Split" && (isolated || matched);
        step["pattern"]["Regex"].as_str().filter(|_| of_type).map(String::from)
    };
    let is_word = |step: &Value| pattern(step).is_some_and(|p| WORD_PATTERNS.contains(&p.as_str()));
    let is_other = |step: &Value| {
        pattern(step).is_some_and(|p| OTHER_PATTERNS.contains(&p.as_str()))
            || (step["type"] == "ByteLevel"
                && step["use_regex"] == false
                && step["add_prefix_space"] == false)
    };
    steps.iter().any(is_word) && steps.iter().all(|step| is_word(step) || is_other(step))
}

/// Whether a vocabulary over the text itself has no token with a newline before a letter, where
/// words are not split, or only at spaces of which none are left.
fn no_token_joins_lines(tokenizer: &Value) -> bool {
    let (model, words) = (&tokenizer["model"], &tokenizer["pre_tokenizer"]);
    let spaces_only = words["type"] == "Split"
        && words["pattern"]["String"] == " "
        && tokenizer["normalizer"]["type"] == "Replace";
    (words.is_null() || spaces_only)
        && model["type"] == "BPE"
        && model["byte_fallback"] == true
        && model["vocab"].as_object().is_some_and(|vocab| !vocab.keys().any(|t| joins_lines(t)))
}
