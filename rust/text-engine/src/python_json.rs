//! JSON as Python's `json.dumps` writes it, which is what `tojson` of chat templates means.

use serde_json::{Number, Value};
use std::fmt::Write;

/// The arguments of `json.dumps`.
pub struct Style {
    /// What a level is indented by; nothing: all on one line.
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub ensure_ascii: bool,
    pub sort_keys: bool,
}

impl Style {
    pub fn new(indent: Option<String>) -> Self {
        let item_separator = if indent.is_some() { "," } else { ", " };
        Self {
            indent,
            item_separator: item_separator.into(),
            key_separator: ": ".into(),
            ensure_ascii: false,
            sort_keys: false,
        }
    }

    pub fn dump(&self, value: &Value) -> String {
        let mut out = String::new();
        self.write(&mut out, value, 0);
        out
    }

    fn write(&self, out: &mut String, value: &Value, depth: usize) {
        match value {
            Value::Null => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Number(number) => out.push_str(&python_number(number)),
            Value::String(text) => self.write_string(out, text),
            Value::Array(items) => {
                self.write_items(out, ['[', ']'], items, depth, |style, out, item| {
                    style.write(out, item, depth + 1);
                });
            }
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                if self.sort_keys {
                    fields.sort_by_key(|(key, _)| *key);
                }
                self.write_items(out, ['{', '}'], &fields, depth, |style, out, (key, item)| {
                    style.write_string(out, key);
                    out.push_str(&style.key_separator);
                    style.write(out, item, depth + 1);
                });
            }
        }
    }

    fn write_items<T>(
        &self,
        out: &mut String,
        [open, close]: [char; 2],
        items: &[T],
        depth: usize,
        write: impl Fn(&Self, &mut String, &T),
    ) {
        out.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.item_separator);
            }
            self.new_line(out, depth + 1);
            write(self, out, item);
        }
        if !items.is_empty() {
            self.new_line(out, depth);
        }
        out.push(close);
    }

    fn new_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn write_string(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// A number as Python's `repr` writes it.
fn python_number(number: &Number) -> String {
    if number.is_f64() {
        python_float(number.as_f64().unwrap_or(f64::NAN))
    } else {
        number.to_string()
    }
}

/// The shortest digits, with an exponent below 1e-4 and from 1e16 on.
fn python_float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{value:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dump(value: Value) -> String {
        Style::new(None).dump(&value)
    }

    #[test]
    fn separates_as_python_does() {
        assert_eq!(
            dump(json!({"b": [1, 2.0, "x"], "a": null})),
            r#"{"b": [1, 2.0, "x"], "a": null}"#
        );
        assert_eq!(dump(json!([[], {}])), "[[], {}]");
    }

    #[test]
    fn indents_as_python_does() {
        let style = Style::new(Some("  ".into()));
        assert_eq!(
            style.dump(&json!({"a": [1, {}], "b": []})),
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}"
        );
    }

    #[test]
    fn sorts_and_escapes_when_asked() {
        let mut style = Style::new(None);
        style.sort_keys = true;
        style.ensure_ascii = true;
        assert_eq!(
            style.dump(&json!({"é": "😀\u{7f}", "a": 1})),
            r#"{"a": 1, "\u00e9": "\ud83d\ude00\u007f"}"#
        );
    }

    #[test]
    fn escapes_what_json_needs() {
        assert_eq!(dump(json!("a\"\\\n\r\t\u{8}\u{c}\u{1}</é")), r#""a\"\\\n\r\t\b\f\u0001</é""#);
    }

    #[test]
    fn writes_numbers_as_python_does() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (9999999999999998.0, "9999999999999998.0"),
        ] {
            assert_eq!(python_float(value), text);
        }
        assert_eq!(dump(json!(u64::MAX)), "18446744073709551615");
        assert_eq!(dump(json!(-3)), "-3");
    }
}
