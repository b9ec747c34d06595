//! Chat templates as `transformers` renders them.

use crate::error::{bad_input, too_large, unsupported, Code, Error, Result};
use crate::limits::{template_fuel, CONFIG_BYTES_MAX, TEMPLATE_DEPTH_MAX, TEXT_BYTES_MAX};
use crate::python_json::Style;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind};
use std::io;

/// A compiled template.
pub struct Template {
    environment: Environment<'static>,
    /// It goes through the parts of a message's content, rather than take it as a text.
    pub wants_parts: bool,
}

const NAME: &str = "chat template";

impl Template {
    pub fn compile(source: &str) -> Result<Self> {
        if source.len() > CONFIG_BYTES_MAX {
            return Err(too_large("the chat template", CONFIG_BYTES_MAX));
        }
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(bad_input)?);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_recursion_limit(TEMPLATE_DEPTH_MAX);
        environment.add_filter("tojson", tojson);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_template_owned(NAME, source.to_owned()).map_err(unsupported)?;
        Ok(Self { environment, wants_parts: loops_over_content(source) })
    }

    /// The prompt. `bytes`: of the body that `context` was made of, which bound the work.
    pub fn render(&self, context: Value, bytes: usize) -> Result<String> {
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(template_fuel(bytes)));
        let template = environment.get_template(NAME).map_err(unsupported)?;
        let mut prompt = BoundedText(Vec::with_capacity(bytes + bytes / 8));
        template.render_captured_to(context, &mut prompt).map_err(|error| match error.kind() {
            ErrorKind::OutOfFuel => {
                Error { code: Code::TooLarge, text: "the chat template takes too long".into() }
            }
            ErrorKind::WriteFailure => too_large("the prompt", TEXT_BYTES_MAX),
            _ => bad_input(format!("chat template: {error}")),
        })?;
        String::from_utf8(prompt.0).map_err(bad_input)
    }
}

struct BoundedText(Vec<u8>);

impl io::Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > TEXT_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a `for` goes through the content of a variable: `{% for part in message.content %}` or
/// `message['content']`.
fn loops_over_content(source: &str) -> bool {
    source.split("{%").skip(1).any(|tag| {
        let tag = tag.trim_start_matches(['-', '+']).trim_start();
        let Some((_, list)) = tag.strip_prefix("for ").and_then(|rest| rest.split_once(" in "))
        else {
            return false;
        };
        let list = list.trim_start();
        let end =
            list.find(|c: char| c.is_whitespace() || c == '|' || c == '%').unwrap_or(list.len());
        let list = list[..end].trim_end_matches('-');
        [".content", "['content']", "[\"content\"]"].iter().any(|name| list.ends_with(name))
    })
}

fn tojson(value: Value, arguments: Kwargs) -> std::result::Result<Value, minijinja::Error> {
    let indent: Option<Value> = arguments.get("indent")?;
    let indent = match indent {
        Some(indent) if indent.kind() == ValueKind::Number => {
            Some(" ".repeat(usize::try_from(indent).unwrap_or(0).min(64)))
        }
        Some(indent) => indent.as_str().map(String::from),
        None => None,
    };
    let mut style = Style::new(indent);
    style.ensure_ascii = arguments.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    style.sort_keys = arguments.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    if let Some((item, key)) = arguments.get::<Option<Value>>("separators")?.as_ref().and_then(pair)
    {
        style.item_separator = item;
        style.key_separator = key;
    }
    arguments.assert_all_used()?;
    let value = serde_json::to_value(&value)
        .map_err(|e| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    Ok(Value::from_safe_string(style.dump(&value)))
}

fn pair(value: &Value) -> Option<(String, String)> {
    let mut texts = value.try_iter().ok()?.map(|text| text.as_str().map(String::from));
    Some((texts.next()??, texts.next()??))
}

fn raise_exception(message: String) -> std::result::Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
}

/// The time of day as `strftime` writes it, which chrono's format follows.
fn strftime_now(format: String) -> std::result::Result<String, minijinja::Error> {
    use std::fmt::Write;
    let mut text = String::new();
    write!(text, "{}", chrono::Local::now().format(&format)).map_err(|_| {
        minijinja::Error::new(ErrorKind::InvalidOperation, "strftime_now: no such format")
    })?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::context;

    fn render(source: &str, context: Value) -> Result<String> {
        Template::compile(source)?.render(context, 100)
    }

    #[test]
    fn trims_blocks_as_transformers_does() {
        let source = "{% for x in xs %}\n  {%- if x %}\n{{ x }}\n  {% endif %}\n{% endfor %}\nend";
        assert_eq!(render(source, context!(xs => vec![1, 2])).unwrap(), "1\n2\nend");
    }

    #[test]
    fn has_methods_of_python_and_functions_of_transformers() {
        assert_eq!(render("{{ ' a,b '.strip().split(',')[1] }}", ().into()).unwrap(), "b");
        assert_eq!(render("{{ strftime_now('%Y')|length }}", ().into()).unwrap(), "4");
        assert_eq!(
            render("{{ x|tojson(indent=2) }}", context!(x => vec!["</a>"])).unwrap(),
            "[\n  \"</a>\"\n]"
        );
        assert_eq!(
            render("{{ x|tojson(separators=(',', ':')) }}", context!(x => vec![1, 2])).unwrap(),
            "[1,2]"
        );
        assert_eq!(
            render(
                "{% for i in [1,2,3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
                ().into()
            )
            .unwrap(),
            "1"
        );
    }

    #[test]
    fn tells_what_a_template_raises() {
        let error = render("{{ raise_exception('roles must alternate') }}", ().into()).unwrap_err();
        assert_eq!(error.code, Code::BadInput);
        assert!(error.text.contains("roles must alternate"), "{}", error.text);
        assert_eq!(render("{{ strftime_now('%!') }}", ().into()).unwrap_err().code, Code::BadInput);
        assert_eq!(Template::compile("{% if %}").err().unwrap().code, Code::Unsupported);
    }

    #[test]
    fn bounds_work_output_and_depth() {
        let endless =
            "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}";
        assert_eq!(render(endless, ().into()).unwrap_err().code, Code::TooLarge);
        let huge = "{{ 'x' * 100000000000 }}";
        assert_eq!(render(huge, ().into()).unwrap_err().code, Code::TooLarge);
        let long = "{% for i in range(9) %}{{ x }}{% endfor %}";
        let error =
            Template::compile(long).unwrap().render(context!(x => "x".repeat(4 << 20)), 64 << 20);
        assert_eq!(error.unwrap_err(), too_large("the prompt", TEXT_BYTES_MAX));
        let deep = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
        assert_eq!(render(deep, ().into()).unwrap_err().code, Code::BadInput);
    }

    #[test]
    fn knows_templates_that_want_parts() {
        for source in [
            "{% for part in message['content'] %}",
            "{%- for p in m.content %}",
            "{%- for p in m[\"content\"]|list -%}",
            "{% for x in y %}{%for a in b %}{% for c in d.content%}",
        ] {
            assert!(loops_over_content(source), "{source}");
        }
        for source in [
            "{{ message['content'] }}",
            "{% for message in messages %}",
            "for x in y.content",
            "{% for x in y.contents %}",
            "{% for x",
        ] {
            assert!(!loops_over_content(source), "{source}");
        }
    }
}
