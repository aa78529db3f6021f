//! Messages and what else a template is given.

use minijinja::Value;
use serde_json::{Map, Value as Json};

use super::DateTime;

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, or what else the template knows. Templates build control tokens from
    /// roles (`<|user|>`), so that a role must come from a known set, not from free text.
    pub role: String,
    /// The text. `None` is passed as none, as for an assistant's message that only calls tools; where the template fails
    /// on that, or writes the word `None`, it gets the empty text instead.
    pub content: Option<String>,
    /// Other keys, such as `tool_calls`. `role` and `content` have no effect here.
    pub extra: Map<String, Json>,
}

impl Message {
    /// A message with text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: Some(content.into()), extra: Map::new() }
    }

    /// Whether it has no text.
    pub(super) fn is_null(&self) -> bool {
        self.content.is_none()
    }

    /// An upper bound, but for constants, of the bytes of its texts.
    pub(super) fn byte_len(&self) -> usize {
        self.role.len() + self.content.as_ref().map_or(0, String::len) + map_len(&self.extra)
    }

    /// Calls `f` with every text of the message.
    pub(super) fn texts<'t>(&'t self, f: &mut impl FnMut(&'t str)) {
        f(&self.role);
        self.content.as_deref().map(&mut *f);
        map_texts(&self.extra, f);
    }

    /// The message as the template sees it, every text passed through `text`, and `null` in place of missing content.
    pub(super) fn to_value(&self, null: &Value, text: &impl Fn(&str) -> String) -> Value {
        let content =
            self.content.as_ref().map_or_else(|| null.clone(), |content| Value::from(text(content)));
        let own = [("role".to_owned(), Value::from(text(&self.role))), ("content".to_owned(), content)];
        let extra = self.extra.iter().filter(|(key, _)| !matches!(key.as_str(), "role" | "content"));
        Value::from_pairs(own.into_iter().chain(extra.map(|(key, value)| (text(key), to_value(value, text)))))
    }
}

/// How messages are rendered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RenderOptions {
    /// Whether the beginning of the assistant's answer follows the messages.
    pub add_generation_prompt: bool,
    /// More variables, such as `tools` or `enable_thinking`. They take precedence over those that every render has, but
    /// for `messages`.
    pub variables: Map<String, Json>,
    /// What `strftime_now` tells; `None` is the time of the system in UTC.
    pub date: Option<DateTime>,
}

/// A JSON value as the template sees it, every text and key passed through `text`.
pub(super) fn to_value(json: &Json, text: &impl Fn(&str) -> String) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(b) => Value::from(*b),
        Json::Number(n) => match (n.as_u64(), n.as_i64()) {
            (Some(n), _) => Value::from(n),
            (_, Some(n)) => Value::from(n),
            _ => Value::from(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(s) => Value::from(text(s)),
        Json::Array(items) => items.iter().map(|item| to_value(item, text)).collect(),
        Json::Object(map) => {
            Value::from_pairs(map.iter().map(|(key, value)| (text(key), to_value(value, text))))
        }
    }
}

/// The bytes of the texts of a map, and one for each value.
pub(super) fn map_len(map: &Map<String, Json>) -> usize {
    let mut len = 0;
    map_texts(map, &mut |text| len += text.len() + 1);
    len
}

/// Calls `f` with every text and key of a map.
pub(super) fn map_texts<'t>(map: &'t Map<String, Json>, f: &mut impl FnMut(&'t str)) {
    for (key, value) in map {
        f(key);
        json_texts(value, f);
    }
}

fn json_texts<'t>(json: &'t Json, f: &mut impl FnMut(&'t str)) {
    match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
        Json::String(text) => f(text),
        Json::Array(items) => items.iter().for_each(|item| json_texts(item, f)),
        Json::Object(map) => map_texts(map, f),
    }
}
