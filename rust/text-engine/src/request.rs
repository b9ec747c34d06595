//! What requests ask: the prompts of completions, and of chats what a template is given, as vLLM
//! makes it of a body of `/v1/chat/completions`.

use crate::engine::special_token;
use crate::error::{bad_input, too_large, unsupported, Result};
use crate::limits::{PROMPTS_MAX, TEXT_BYTES_MAX};
use crate::template::Template;
use serde::Deserialize;
use serde_json::{json, Map, Value};

type Object = Map<String, Value>;

/// A prompt, and whether its tokens stand between those that begin and end a sequence.
#[derive(Debug, PartialEq, Eq)]
pub struct Prompts {
    pub texts: Vec<String>,
    pub framed: bool,
}

#[derive(Deserialize)]
struct Completion {
    prompt: Value,
    add_special_tokens: Option<bool>,
}

pub fn read_completion(body: &[u8]) -> Result<Prompts> {
    let completion: Completion = parse(body)?;
    let wrong = || unsupported("prompt is not a text or a list of texts");
    let texts = match completion.prompt {
        Value::String(text) => vec![text],
        Value::Array(items) if items.len() > PROMPTS_MAX => {
            return Err(unsupported(format!("prompt has more than {PROMPTS_MAX} texts")));
        }
        Value::Array(items) => items
            .into_iter()
            .map(|item| if let Value::String(text) = item { Ok(text) } else { Err(wrong()) })
            .collect::<Result<_>>()?,
        _ => return Err(wrong()),
    };
    Ok(Prompts { texts, framed: completion.add_special_tokens.unwrap_or(true) })
}

#[derive(Deserialize)]
struct Chat {
    messages: Vec<Object>,
    tools: Option<Vec<Object>>,
    documents: Option<Vec<Value>>,
    chat_template: Option<Value>,
    chat_template_kwargs: Option<Object>,
    reasoning_effort: Option<Value>,
    add_generation_prompt: Option<bool>,
    continue_final_message: Option<bool>,
    add_special_tokens: Option<bool>,
}

/// The prompt of a chat. `config` is tokenizer_config.json, whose special tokens templates use;
/// `choose` has the template for requests with tools or without.
pub fn render_chat<'a>(
    body: &[u8],
    config: &Value,
    choose: impl FnOnce(bool) -> &'a Template,
) -> Result<Prompts> {
    let mut chat: Chat = parse(body)?;
    let template = choose(chat.tools.is_some());
    if chat.messages.is_empty() {
        return Err(bad_input("messages is empty"));
    }
    let options = chat.chat_template_kwargs.take().unwrap_or_default();
    if chat.chat_template.is_some() || options.contains_key("chat_template") {
        return Err(unsupported("requests may not bring a chat_template of their own"));
    }
    let resume = chat.continue_final_message.unwrap_or(false);
    if resume && chat.add_generation_prompt.unwrap_or(true) {
        return Err(bad_input("continue_final_message needs add_generation_prompt: false"));
    }
    let messages = chat
        .messages
        .into_iter()
        .map(|message| prepare_message(message, template.wants_parts))
        .collect::<Result<Vec<_>>>()?;
    let end = if resume { final_text(&messages) } else { None };

    let mut context = Object::new();
    for name in SPECIAL_TOKENS {
        if let Some(token) = special_token(config, name) {
            context.insert(name.into(), token.into());
        }
    }
    let tools = chat.tools.map(|tools| tools.into_iter().map(prepare_tool).collect::<Vec<_>>());
    context.insert("tools".into(), json!(tools));
    context.insert("documents".into(), json!(chat.documents));
    context
        .insert("add_generation_prompt".into(), chat.add_generation_prompt.unwrap_or(true).into());
    if let Some(effort) = chat.reasoning_effort {
        context.insert("reasoning_effort".into(), effort);
    }
    context.extend(options);
    context.insert("messages".into(), messages.into());

    let context = minijinja::Value::from(minijinja::value::Serde(context));
    let mut prompt = template.render(context, body.len())?;
    if resume {
        cut_after(&mut prompt, end.as_deref())?;
    }
    Ok(Prompts { texts: vec![prompt], framed: chat.add_special_tokens.unwrap_or(false) })
}

const SPECIAL_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T> {
    if body.len() > TEXT_BYTES_MAX {
        return Err(too_large("the body", TEXT_BYTES_MAX));
    }
    // Its text may quote the body.
    serde_json::from_slice(body).map_err(|e| {
        bad_input(format!(
            "the body is not such a request (line {}, column {})",
            e.line(),
            e.column()
        ))
    })
}

/// A message as templates see it: its role, its content as a text or as parts, and what belongs to
/// the role.
fn prepare_message(mut message: Object, wants_parts: bool) -> Result<Value> {
    let role = message.remove("role").unwrap_or(Value::Null);
    let Some(role) = role.as_str() else {
        return Err(bad_input("a message has no role"));
    };
    let content = message.remove("content").unwrap_or(Value::Null);
    let mut out = Object::new();
    out.insert("role".into(), role.into());
    out.insert("content".into(), prepare_content(content, wants_parts)?);
    if role == "assistant" {
        if let Some(Value::Array(calls)) = message.remove("tool_calls") {
            if !calls.is_empty() {
                let calls = calls.into_iter().map(prepare_call).collect::<Result<Vec<_>>>()?;
                out.insert("tool_calls".into(), calls.into());
            }
        }
        let mut reasoning = |name: &str| message.remove(name).filter(|value| !value.is_null());
        if let Some(reasoning) = reasoning("reasoning").or_else(|| reasoning("reasoning_content")) {
            out.insert("reasoning".into(), reasoning.clone());
            out.insert("reasoning_content".into(), reasoning);
        }
    }
    if role == "tool" {
        if let Some(id) = message.remove("tool_call_id") {
            out.insert("tool_call_id".into(), id);
        }
    }
    if let Some(name @ Value::String(_)) = message.remove("name") {
        out.insert("name".into(), name);
    }
    if role == "developer" {
        let tools = message.remove("tools").unwrap_or(Value::Null);
        out.insert("tools".into(), tools);
    }
    Ok(out.into())
}

/// Text parts joined by newlines, or a list of text parts.
fn prepare_content(content: Value, wants_parts: bool) -> Result<Value> {
    let mut texts = match content {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text],
        Value::Array(parts) => parts.into_iter().map(part_text).collect::<Result<Vec<_>>>()?,
        _ => return Err(bad_input("content is not a text or a list of parts")),
    };
    if wants_parts {
        return Ok(texts.into_iter().map(|text| json!({"type": "text", "text": text})).collect());
    }
    Ok(if texts.len() == 1 { texts.remove(0) } else { texts.join("\n") }.into())
}

fn part_text(part: Value) -> Result<String> {
    let mut part = match part {
        Value::String(text) => return Ok(text),
        Value::Object(part) => part,
        _ => return Err(bad_input("a part of content is not a text or an object")),
    };
    let kind = part.get("type").and_then(Value::as_str).unwrap_or("text").to_owned();
    let field = match kind.as_str() {
        "text" | "input_text" | "output_text" => "text",
        "refusal" => "refusal",
        "thinking" => "thinking",
        _ => return Err(unsupported(format!("content of type '{:.32}' has no text", kind))),
    };
    match part.remove(field) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(bad_input(format!("a part of content has no {field}"))),
    }
}

/// A call whose arguments are an object rather than its JSON.
fn prepare_call(mut call: Value) -> Result<Value> {
    let Some(function) = call.get_mut("function").and_then(Value::as_object_mut) else {
        return Err(bad_input("a tool call has no function"));
    };
    let arguments = match function.remove("arguments") {
        Some(Value::String(text)) if !text.is_empty() => serde_json::from_str(&text)
            .map_err(|_| bad_input("arguments of a tool call are not JSON"))?,
        Some(arguments @ (Value::Object(_) | Value::Array(_))) if arguments != json!([]) => {
            arguments
        }
        _ => json!({}),
    };
    function.insert("arguments".into(), arguments);
    Ok(call)
}

/// A tool with its fields in vLLM's order, absent ones null.
fn prepare_tool(mut tool: Object) -> Value {
    let mut out = Object::new();
    out.insert("type".into(), tool.shift_remove("type").unwrap_or("function".into()));
    if let Some(Value::Object(mut function)) = tool.shift_remove("function") {
        let mut fields = Object::new();
        for name in ["name", "description", "parameters"] {
            fields.insert(name.into(), function.shift_remove(name).unwrap_or(Value::Null));
        }
        fields.extend(function);
        out.insert("function".into(), fields.into());
    }
    out.extend(tool);
    out.into()
}

/// The text that a continued chat ends in.
fn final_text(messages: &[Value]) -> Option<String> {
    let content = &messages.last()?["content"];
    let text = content.as_str().or_else(|| content.as_array()?.last()?["text"].as_str());
    text.map(String::from)
}

/// Ends the prompt where its last message does; the template may have trimmed that.
fn cut_after(prompt: &mut String, end: Option<&str>) -> Result<()> {
    let end = end.unwrap_or("");
    let Some(at) = prompt.rfind(end.trim()) else {
        return Err(bad_input("the final message is not in the prompt"));
    };
    let kept = if prompt[at..].starts_with(end) { end } else { end.trim() };
    prompt.truncate(at + kept.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    const ALL: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}\
        {% if add_generation_prompt %}<assistant>{% endif %}";

    fn chat_of(source: &str, body: Value) -> Result<Prompts> {
        let template = Template::compile(source).unwrap();
        render_chat(body.to_string().as_bytes(), &json!({"bos_token": {"content": "<s>"}}), |_| {
            &template
        })
    }

    fn text_of(source: &str, body: Value) -> String {
        chat_of(source, body).unwrap().texts.remove(0)
    }

    fn error_of(source: &str, body: Value) -> String {
        chat_of(source, body).unwrap_err().text
    }

    #[test]
    fn joins_text_parts_for_templates_that_want_a_text() {
        let parts =
            json!([{"type": "text", "text": "a"}, "b", {"type": "refusal", "refusal": "c"}]);
        let body = json!({"messages": [{"role": "user", "content": parts}, {"role": "assistant"}]});
        assert_eq!(text_of(ALL, body), "<user>a\nb\nc<assistant><assistant>");
    }

    #[test]
    fn gives_parts_to_templates_that_want_them() {
        let source = "{% for m in messages %}{% for p in m['content'] %}{{ p|tojson }}{% endfor %}{% endfor %}";
        let body = json!({"messages": [{"role": "user", "content": "a"}]});
        assert_eq!(text_of(source, body), r#"{"type": "text", "text": "a"}"#);
    }

    #[test]
    fn gives_special_tokens_options_and_documents() {
        let source = "{{ bos_token }}{{ eos_token }}{{ thinking }}{{ documents[0].t }}{{ tools is none }}{{ reasoning_effort }}";
        let body = json!({"messages": [{"role": "user", "content": ""}], "documents": [{"t": "d"}],
                          "chat_template_kwargs": {"thinking": 7, "messages": 1}, "reasoning_effort": "low"});
        assert_eq!(text_of(source, body), "<s>7dTruelow");
    }

    #[test]
    fn opens_arguments_of_calls() {
        let source = "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments.x }}{{ c.function|tojson }}{% endfor %}{% endfor %}";
        let call = |arguments: Value| json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}});
        let body = |calls: Value| json!({"messages": [{"role": "assistant", "content": null, "tool_calls": calls}]});
        assert_eq!(
            text_of(source, body(json!([call("{\"x\": 1}".into())]))),
            r#"1{"name": "f", "arguments": {"x": 1}}"#
        );
        assert_eq!(
            text_of(source, body(json!([call("".into())]))),
            r#"{"name": "f", "arguments": {}}"#
        );
        assert_eq!(text_of("{{ messages[0].tool_calls is defined }}", body(json!([]))), "False");
        assert_eq!(
            error_of(source, body(json!([call("{".into())]))),
            "arguments of a tool call are not JSON"
        );
        assert_eq!(error_of(source, body(json!([{}]))), "a tool call has no function");
    }

    #[test]
    fn orders_fields_of_tools_as_vllm_does() {
        let tool = json!({"function": {"strict": true, "parameters": {"b": 1, "a": 2}, "name": "f"}, "type": "function", "x": 1});
        let body = json!({"messages": [{"role": "user", "content": ""}], "tools": [tool]});
        assert_eq!(
            text_of("{{ tools[0]|tojson }}", body),
            r#"{"type": "function", "function": {"name": "f", "description": null, "parameters": {"b": 1, "a": 2}, "strict": true}, "x": 1}"#
        );
    }

    #[test]
    fn keeps_what_belongs_to_a_role() {
        let body = json!({"messages": [
            {"role": "tool", "content": "r", "tool_call_id": "7", "name": "n", "other": 1},
            {"role": "assistant", "content": "a", "reasoning": "why"},
            {"role": "user", "content": "u", "tool_call_id": "8", "reasoning": "no"}]});
        assert_eq!(
            text_of("{% for m in messages %}{{ m|tojson }}{% endfor %}", body),
            concat!(
                r#"{"role": "tool", "content": "r", "tool_call_id": "7", "name": "n"}"#,
                r#"{"role": "assistant", "content": "a", "reasoning": "why", "reasoning_content": "why"}"#,
                r#"{"role": "user", "content": "u"}"#
            )
        );
    }

    #[test]
    fn continues_the_final_message() {
        let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>\n{% endfor %}";
        let body = |content: &str| {
            json!({"messages": [{"role": "assistant", "content": content}],
                                          "add_generation_prompt": false, "continue_final_message": true})
        };
        assert_eq!(text_of(source, body("so far ")), "<assistant>so far ");
        assert_eq!(
            text_of(&source.replace("content", "content|trim"), body(" so far ")),
            "<assistant>so far"
        );
        assert_eq!(error_of("none", body("so far")), "the final message is not in the prompt");
        let both =
            json!({"messages": [{"role": "user", "content": ""}], "continue_final_message": true});
        assert!(error_of(source, both).starts_with("continue_final_message needs"));
    }

    #[test]
    fn refuses_what_it_cannot_render() {
        let user = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
        assert_eq!(
            error_of(ALL, user(json!([{"type": "image_url", "image_url": {"url": "x"}}]))),
            "content of type 'image_url' has no text"
        );
        assert_eq!(error_of(ALL, user(json!(3))), "content is not a text or a list of parts");
        assert_eq!(error_of(ALL, json!({"messages": []})), "messages is empty");
        assert_eq!(error_of(ALL, json!({"messages": [{"content": "x"}]})), "a message has no role");
        let own = json!({"messages": [{"role": "user"}], "chat_template": "x"});
        assert!(error_of(ALL, own).contains("chat_template"));
        assert!(error_of(ALL, json!({"messages": 1})).starts_with("the body is not such a request"));
    }

    #[test]
    fn reads_prompts_of_completions() {
        let read = |body: Value| read_completion(body.to_string().as_bytes());
        assert_eq!(
            read(json!({"prompt": "a"})).unwrap(),
            Prompts { texts: vec!["a".into()], framed: true }
        );
        let two = read(json!({"prompt": ["a", "b"], "add_special_tokens": false})).unwrap();
        assert_eq!(two, Prompts { texts: vec!["a".into(), "b".into()], framed: false });
        for wrong in
            [json!([1, 2]), json!(["a", 1]), json!(null), json!(vec!["a"; PROMPTS_MAX + 1])]
        {
            assert_eq!(read(json!({"prompt": wrong})).unwrap_err().code, Code::Unsupported);
        }
        assert_eq!(read_completion(b"{").unwrap_err().code, Code::BadInput);
    }
}
