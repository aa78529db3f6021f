//! Methods of Python's types that templates call.

use minijinja::value::{Kwargs, Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};

/// Calls a method that the engine does not have: those of this module, then those of `minijinja-contrib`.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let ours = match value.as_str() {
        Some(text) => string_method(text, method, args)?,
        None if value.kind() == ValueKind::Map && method == "copy" => {
            let () = from_args(args)?;
            Some(value.clone())
        }
        None => None,
    };
    match ours {
        Some(result) => Ok(result),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// The test `iterable`: none, numbers and truth values are not.
pub(super) fn is_iterable(value: &Value) -> bool {
    match value.kind() {
        ValueKind::None | ValueKind::Number | ValueKind::Bool => false,
        ValueKind::String => true,
        _ => value.try_iter().is_ok(),
    }
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let result = match method {
        "split" | "rsplit" => {
            let (separator, limit, kwargs): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
            let separator = match separator {
                Some(separator) => Some(separator),
                None => kwargs.get::<Option<Value>>("sep")?,
            };
            let limit = limit.or(kwargs.get("maxsplit")?).and_then(|limit| usize::try_from(limit).ok());
            kwargs.assert_all_used()?;
            let separator = separator.filter(|separator| !separator.is_none());
            let separator = separator.as_ref().map(string).transpose()?;
            let mut parts = parts(text, separator, limit, method == "rsplit")?;
            if method == "rsplit" {
                parts.reverse();
            }
            parts.into_iter().map(Value::from).collect()
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            not_empty(separator)?;
            let first = method == "partition";
            let cut = if first { text.split_once(separator) } else { text.rsplit_once(separator) };
            let three = match cut {
                Some((before, after)) => [before, separator, after],
                None if first => [text, "", ""],
                None => ["", "", text],
            };
            Value::from(Tuple::from(three.map(Value::from)))
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

/// The parts of a text, from the end if `back`, with at most `limit` cuts.
fn parts<'t>(
    text: &'t str,
    separator: Option<&str>,
    limit: Option<usize>,
    back: bool,
) -> Result<Vec<&'t str>, Error> {
    let count = limit.map_or(usize::MAX, |limit| limit.saturating_add(1));
    Ok(match separator {
        Some(separator) => {
            not_empty(separator)?;
            if back {
                text.rsplitn(count, separator).collect()
            } else {
                text.splitn(count, separator).collect()
            }
        }
        None => words(text, count, back),
    })
}

/// The words between white space; the last of `count` parts is all that is left.
fn words(text: &str, count: usize, back: bool) -> Vec<&str> {
    let trim = |text| if back { str::trim_end(text) } else { str::trim_start(text) };
    let mut words = Vec::new();
    let mut rest = trim(text);
    while !rest.is_empty() {
        let cut = if back { rest.rfind(char::is_whitespace) } else { rest.find(char::is_whitespace) };
        let Some(at) = cut.filter(|_| words.len() + 1 < count) else {
            words.push(rest);
            break;
        };
        let (word, left) = if back {
            let width = rest[at..].chars().next().map_or(0, char::len_utf8);
            (&rest[at + width..], &rest[..at])
        } else {
            rest.split_at(at)
        };
        words.push(word);
        rest = trim(left);
    }
    words
}

fn string(value: &Value) -> Result<&str, Error> {
    value.as_str().ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "the separator must be a string"))
}

fn not_empty(separator: &str) -> Result<(), Error> {
    if separator.is_empty() {
        Err(Error::new(ErrorKind::InvalidOperation, "empty separator"))
    } else {
        Ok(())
    }
}
