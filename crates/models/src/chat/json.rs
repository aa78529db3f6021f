//! `tojson` as Python's `json.dumps` writes it.

use std::fmt::Write as _;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use crate::tokenizer::is_noncharacter;

/// The deepest nesting that is written.
const MAX_DEPTH: usize = 100;
/// The most bytes of the indentation of a level, and of a separator.
const MAX_SPACE: usize = 16;
/// The bytes that a step of the engine's budget pays for.
const BYTES_PER_STEP: usize = 4;

/// The arguments of `json.dumps` that `transformers` passes on.
struct Style<'s, 'r, 'e> {
    /// Pays for the work: small values can hold one another many times over.
    state: &'s State<'r, 'e>,
    ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort: bool,
}

/// The filter `tojson(value, ensure_ascii=false, indent=none, separators=none, sort_keys=false)`.
pub(super) fn tojson(
    state: &State<'_, '_>,
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let ascii = ensure_ascii.or(kwargs.get("ensure_ascii")?).unwrap_or(false);
    let indent = match indent.or(kwargs.get("indent")?) {
        Some(indent) if !indent.is_none() => Some(indentation(&indent)?),
        _ => None,
    };
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let sort = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let (item, key) = match separators {
        Some(separators) => match <[String; 2]>::try_from(separators) {
            Ok([item, key]) if item.len().max(key.len()) <= MAX_SPACE => (item, key),
            _ => return Err(invalid("tojson: separators must be two short strings")),
        },
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let mut text = String::new();
    Style { state, ascii, indent, item, key, sort }.value(value, 0, &mut text)?;
    Ok(Value::from(text))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// The text of one level: a number of spaces, or the text itself.
fn indentation(indent: &Value) -> Result<String, Error> {
    let text = match indent.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(i64::try_from(indent.clone())?.clamp(0, MAX_SPACE as i64 + 1) as usize),
    };
    if text.len() > MAX_SPACE {
        return Err(invalid(format!("tojson: an indent above {MAX_SPACE}")));
    }
    Ok(text)
}

impl Style<'_, '_, '_> {
    fn value(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(invalid(format!("tojson: values nested deeper than {MAX_DEPTH}")));
        }
        let bytes = value.as_str().map_or(0, str::len) + depth * MAX_SPACE;
        self.state.consume_fuel((1 + bytes / BYTES_PER_STEP) as u64)?;
        match value.kind() {
            ValueKind::None => text.push_str("null"),
            ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => number(value, text),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), text),
            ValueKind::Seq | ValueKind::Iterable => {
                self.state.consume_fuel(value.len().unwrap_or(0) as u64)?;
                let items: Vec<Value> = value.try_iter()?.collect();
                self.list(('[', ']'), &items, depth, text, |item, text| self.value(item, depth + 1, text))?;
            }
            ValueKind::Map => {
                let mut items = Vec::new();
                for key in value.try_iter()? {
                    let value = value.get_item(&key)?;
                    items.push((key_text(&key)?, value));
                }
                if self.sort {
                    items.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.list(('{', '}'), &items, depth, text, |(key, value), text| {
                    self.string(key, text);
                    text.push_str(&self.key);
                    self.value(value, depth + 1, text)
                })?;
            }
            kind => return Err(invalid(format!("tojson: a value of type {kind} is not JSON serializable"))),
        }
        Ok(())
    }

    fn list<T>(
        &self,
        (open, close): (char, char),
        items: &[T],
        depth: usize,
        text: &mut String,
        write: impl Fn(&T, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        text.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                text.push_str(&self.item);
            }
            self.line(depth + 1, text);
            write(item, text)?;
        }
        if !items.is_empty() {
            self.line(depth, text);
        }
        text.push(close);
        Ok(())
    }

    /// Begins a line, if lines are indented.
    fn line(&self, depth: usize, text: &mut String) {
        if let Some(indent) = &self.indent {
            text.push('\n');
            (0..depth).for_each(|_| text.push_str(indent));
        }
    }

    fn string(&self, string: &str, text: &mut String) {
        text.push('"');
        for c in string.chars() {
            match c {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\u{8}' => text.push_str("\\b"),
                '\u{c}' => text.push_str("\\f"),
                // A guard stays what it is.
                _ if c < ' ' || (self.ascii && c > '~' && !is_noncharacter(c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // Writing to a string cannot fail.
                        let _ = write!(text, "\\u{unit:04x}");
                    }
                }
                _ => text.push(c),
            }
        }
        text.push('"');
    }
}

/// A key as `json.dumps` converts it.
fn key_text(key: &Value) -> Result<String, Error> {
    let mut text = String::new();
    match key.kind() {
        ValueKind::String => text.push_str(key.as_str().unwrap_or_default()),
        ValueKind::None => text.push_str("null"),
        ValueKind::Bool => text.push_str(if key.is_true() { "true" } else { "false" }),
        ValueKind::Number => number(key, &mut text),
        kind => return Err(invalid(format!("tojson: a key of type {kind}"))),
    }
    Ok(text)
}

/// A number as Python's `repr` writes it.
fn number(value: &Value, text: &mut String) {
    let float = if value.is_integer() { None } else { f64::try_from(value.clone()).ok() };
    let Some(float) = float else {
        // The integers of the engine print as Python's do.
        let _ = write!(text, "{value}");
        return;
    };
    if !float.is_finite() {
        text.push_str(if float.is_nan() {
            "NaN"
        } else if float > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        });
        return;
    }
    // Both have the fewest digits that give the number back; Python leaves the exponent out from 1e-4 up to 1e16.
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let _ = if (-4..16).contains(&exponent) {
        write!(text, "{float:?}")
    } else {
        write!(text, "{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    };
}
