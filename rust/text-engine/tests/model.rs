//! Models made here: small vocabularies with every rule that cuts depend on.

use serde_json::{json, Map, Value};
use text_engine::cuts::Cuts;
use text_engine::error::Code;
use text_engine::model::Model;

const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// After 256 bytes and 8 merges.
const END: u32 = 264;
const BEGIN: u32 = 266;

/// A letter for each byte, as byte-level vocabularies have them.
fn letter(byte: u8) -> char {
    let plain = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    if plain(byte) {
        return byte as char;
    }
    let rank = (0..byte).filter(|&b| !plain(b)).count();
    char::from_u32(256 + rank as u32).unwrap()
}

fn letters(text: &str) -> String {
    text.bytes().map(letter).collect()
}

fn marker(id: u32, content: &str) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
           "normalized": false, "special": true})
}

/// A tokenizer.json over bytes with a few merges.
fn tokenizer() -> Value {
    let mut vocab = Map::new();
    for byte in 0..=255u8 {
        vocab.insert(letter(byte).to_string(), byte.into());
    }
    let mut merges = Vec::new();
    for (a, b) in [
        ("\n", "\n"),
        ("a", "b"),
        (" ", "a"),
        (" ", "ab"),
        (";", "\n"),
        ("1", "2"),
        ("<", "|"),
        (" ", " "),
    ] {
        let (a, b) = (letters(a), letters(b));
        vocab.insert(format!("{a}{b}"), (vocab.len() as u32).into());
        merges.push(format!("{a} {b}"));
    }
    json!({
        "version": "1.0",
        "added_tokens": [marker(END, "<|end|>"), marker(END + 1, "<|end|>x"), marker(BEGIN, "<s>")],
        "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": LLAMA_3}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [BEGIN], "tokens": ["<s>"]}}},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": vocab, "merges": merges},
    })
}

fn open(tokenizer: &Value, config: Value) -> Model {
    let config = if config.is_null() { Vec::new() } else { config.to_string().into_bytes() };
    Model::open(tokenizer.to_string().as_bytes(), &config, b"").map_err(|e| e.text).unwrap()
}

fn cuts_of(tokenizer: &Value, text: &str) -> Vec<usize> {
    let mut out = [0; 64];
    let count = open(tokenizer, Value::Null).cut(text, 1, &mut out);
    out[..count].to_vec()
}

#[test]
fn cuts_before_markers_and_between_lines() {
    let tokenizer = tokenizer();
    assert_eq!(cuts_of(&tokenizer, "a<|end|>xb<|end|>\n"), [1, 10]);
    assert_eq!(cuts_of(&tokenizer, "a\nb\n\nc\n 1\n2"), [2, 5]);
    assert_eq!(cuts_of(&tokenizer, "a<s>b\nc<s>"), [6, 7], "a line that is near comes first");
    let far = format!("a<s>b{}\nc", " ".repeat(9000));
    assert_eq!(cuts_of(&tokenizer, &far), [1, 9006]);
    assert!(cuts_of(&tokenizer, "<|end|>\n").is_empty());
    assert!(cuts_of(&tokenizer, "").is_empty());
}

#[test]
fn cuts_no_more_often_than_is_asked() {
    let mut out = [0; 2];
    let model = open(&tokenizer(), Value::Null);
    assert_eq!(model.cut("a\nb\nc\nd\ne\nf", 3, &mut out), 2);
    assert_eq!(out, [4, 8]);
    assert_eq!(model.cut("a\nb\nc", 3, &mut []), 0);
}

#[test]
fn does_not_cut_where_the_neighbour_matters() {
    let text = "a\nb<s>c";
    let mut changed = tokenizer();
    changed["added_tokens"][2]["lstrip"] = true.into();
    assert_eq!(cuts_of(&changed, text), [2]);
    changed["added_tokens"][2]["single_word"] = true.into();
    assert!(cuts_of(&changed, text).is_empty());
    changed = tokenizer();
    changed["added_tokens"][2]["normalized"] = true.into();
    assert_eq!(cuts_of(&changed, text), [2, 3], "nothing is normalised");
    changed["normalizer"] = json!({"type": "Lowercase"});
    assert!(cuts_of(&changed, text).is_empty());
    changed = tokenizer();
    changed["added_tokens"][1]["content"] = "\nb".into();
    assert_eq!(cuts_of(&changed, text), [1, 3], "no lines beside such a marker");
}

#[test]
fn does_not_cut_lines_of_unknown_words() {
    let mut changed = tokenizer();
    changed["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = r"\w+|\W+".into();
    assert_eq!(cuts_of(&changed, "a\nb<s>c\nd"), [3]);
    changed["pre_tokenizer"] = Value::Null;
    assert!(Cuts::of(&changed).next("a\nb", 0, 1).is_none());
    changed["model"]["byte_fallback"] = true.into();
    assert_eq!(Cuts::of(&changed).next("a\nb", 0, 1), Some(2));
    changed["model"]["vocab"]["\nb"] = 5000.into();
    assert!(Cuts::of(&changed).next("a\nb", 0, 1).is_none());
}

/// Texts of few pieces, among which are all that rules speak of.
fn texts(count: usize) -> impl Iterator<Item = String> {
    const PIECES: [&str; 20] = [
        "\n", "a", "ab", " ", "<|end|>", "<|end|>x", "<s>", "1", "12", ";", "é", "e\u{301}", "漢",
        "\r", "\n\n", "'s", "<|", "  ", "\t", "😀",
    ];
    let mut state = 0x9e3779b97f4a7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    (0..count).map(move |_| (0..random() % 24).map(|_| PIECES[random() % PIECES.len()]).collect())
}

fn check_parts(tokenizer: &Value) {
    let model = open(tokenizer, Value::Null);
    for text in texts(4000) {
        let mut places = [0; 64];
        let count = model.cut(&text, 1, &mut places);
        let mut parts = Vec::new();
        let mut from = 0;
        for &at in places[..count].iter().chain([&text.len()]) {
            parts.extend(model.encode(text[from..at].as_bytes()).unwrap());
            from = at;
        }
        assert_eq!(
            parts,
            model.encode(text.as_bytes()).unwrap(),
            "{text:?} cut at {:?}",
            &places[..count]
        );
    }
}

#[test]
fn parts_have_the_tokens_of_the_whole() {
    let mut changed = tokenizer();
    check_parts(&changed);
    changed["normalizer"] = json!({"type": "NFC"});
    check_parts(&changed);
    changed["added_tokens"][0]["rstrip"] = true.into();
    check_parts(&changed);
    changed["added_tokens"][2]["lstrip"] = true.into();
    check_parts(&changed);
}

#[test]
fn parts_have_the_tokens_of_the_whole_with_the_other_engine() {
    let mut changed = tokenizer();
    changed["normalizer"] = json!({"type": "NFKC"});
    assert_eq!(open(&changed, Value::Null).engine.name(), c"tokenizers");
    check_parts(&changed);
}

#[test]
fn engines_make_the_same_tokens() {
    let tokenizer = tokenizer();
    let model = open(&tokenizer, Value::Null);
    assert_eq!(model.engine.name(), c"fastokens");
    let other = tokenizers::Tokenizer::from_bytes(tokenizer.to_string()).unwrap();
    for text in texts(4000) {
        let ids = other.encode_fast(text.as_str(), false).unwrap();
        assert_eq!(model.encode(text.as_bytes()).unwrap(), ids.get_ids(), "{text:?}");
    }
}

#[test]
fn frames_by_the_processor_or_the_class() {
    let tokenizer = tokenizer();
    let framed = |config: Value| {
        let frame = open(&tokenizer, config).frame;
        (frame.before, frame.after)
    };
    assert_eq!(framed(Value::Null), (vec![BEGIN], vec![]));
    let class = "LlamaTokenizerFast";
    let config =
        json!({"tokenizer_class": class, "bos_token": "<|end|>", "eos_token": {"content": "<s>"}});
    assert_eq!(framed(config.clone()), (vec![END], vec![]));
    let mut config = config;
    config["add_bos_token"] = false.into();
    config["add_eos_token"] = true.into();
    assert_eq!(framed(config), (vec![], vec![BEGIN]));
}

#[test]
fn has_tokens_that_only_the_configuration_has() {
    let config = json!({"added_tokens_decoder": {"267": {"content": "<more>", "special": true}}});
    let model = open(&tokenizer(), config);
    assert_eq!(model.encode(b"<more>").unwrap(), [267]);
}

#[test]
fn ignores_truncation_and_padding() {
    let mut changed = tokenizer();
    changed["truncation"] =
        json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    assert_eq!(open(&changed, Value::Null).encode(b"a b c d").unwrap().len(), 7);
}

#[test]
fn says_what_is_wrong_with_files() {
    let error = |tokenizer: &[u8], config: &[u8], template: &[u8]| {
        Model::open(tokenizer, config, template).err().expect("an error")
    };
    let good = tokenizer().to_string().into_bytes();
    assert!(error(b"{", b"", b"").text.starts_with("tokenizer.json: EOF"));
    assert_eq!(error(b"[]", b"", b"").text, "tokenizer.json is not an object");
    assert_eq!(error(b"{}", b"", b"").code, Code::Unsupported);
    assert!(error(&good, b"x", b"").text.starts_with("tokenizer_config.json: "));
    assert_eq!(error(&good, b"", b"{% if %}").code, Code::Unsupported);
    assert_eq!(error(&good, b"", b"\xff").text, "the chat template is not UTF-8");
    let config = br#"{"added_tokens_decoder": {"x": {}}}"#;
    assert_eq!(
        error(&good, config, b"").text,
        "tokenizer_config.json: added_tokens_decoder has no token 'x'"
    );
}

#[test]
fn chooses_the_template() {
    let body = |tools: Value| {
        json!({"messages": [{"role": "user", "content": "x"}], "tools": tools}).to_string()
    };
    let render = |config: Value, file: &[u8], tools: Value| {
        let model =
            Model::open(tokenizer().to_string().as_bytes(), config.to_string().as_bytes(), file)
                .unwrap();
        model
            .render_chat(body(tools).as_bytes())
            .map(|mut prompts| prompts.texts.remove(0))
            .map_err(|e| e.text)
    };
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    assert_eq!(render(json!({"chat_template": "one"}), b"", Value::Null).unwrap(), "one");
    assert_eq!(render(json!({"chat_template": "one"}), b"file", Value::Null).unwrap(), "file");
    let list = json!({"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]});
    assert_eq!(render(list.clone(), b"", Value::Null).unwrap(), "plain");
    assert_eq!(render(list, b"", tools).unwrap(), "tools");
    assert_eq!(render(json!({}), b"", Value::Null).unwrap_err(), "the model has no chat template");
}
