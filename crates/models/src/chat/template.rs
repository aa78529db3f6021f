//! A model's chat template.

use minijinja::{Environment, Value};

use super::engine::{self, InputSize};
use super::message::{map_len, map_texts, to_value};
use super::{ChatError, Message, RenderOptions};
use crate::gguf::Meta;
use crate::tokenizer::{Guard, Tokenizer};

/// The metadata key of the template.
const KEY: &str = "tokenizer.chat_template";

/// The texts of tokens that templates write by name. A text that is `None` is undefined in the template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenTexts {
    /// `bos_token`.
    pub bos: Option<String>,
    /// `eos_token`.
    pub eos: Option<String>,
}

impl TokenTexts {
    /// The texts of the tokens that a model file names.
    ///
    /// # Errors
    /// [`ChatError::Gguf`] if a key has another type, or an id is not in the vocabulary.
    pub fn from_gguf(meta: Meta<'_>) -> Result<TokenTexts, ChatError> {
        Ok(TokenTexts {
            bos: token_text(meta, "tokenizer.ggml.bos_token_id")?,
            eos: token_text(meta, "tokenizer.ggml.eos_token_id")?,
        })
    }
}

/// A chat template, parsed.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    engine: Environment<'static>,
    source: String,
    tokens: TokenTexts,
}

impl ChatTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// [`ChatError::Syntax`] with the line if it is not Jinja, [`ChatError::Limit`] if it is above 1 MiB.
    pub fn new(source: &str, tokens: TokenTexts) -> Result<ChatTemplate, ChatError> {
        Ok(ChatTemplate { engine: engine::parse(source)?, source: source.to_owned(), tokens })
    }

    /// The template of a model file: `tokenizer.chat_template`, with the texts of the tokens that
    /// `tokenizer.ggml.bos_token_id` and `eos_token_id` name. `None` if there is none; an empty one, or one of white space
    /// only, counts as none, because it would drop every message. Templates under other keys are not read.
    ///
    /// # Errors
    /// Those of [`ChatTemplate::new`]; [`ChatError::Gguf`] if one of these keys has another type, or an id is not in the
    /// vocabulary.
    pub fn from_gguf(meta: Meta<'_>) -> Result<Option<ChatTemplate>, ChatError> {
        match meta.str_opt(KEY)? {
            Some(source) if !source.trim().is_empty() => {
                ChatTemplate::new(source, TokenTexts::from_gguf(meta)?).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The source that it was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of the messages.
    ///
    /// # Errors
    /// [`ChatError::Raised`] with the template's message if it refuses the messages, [`ChatError::Render`] if it fails,
    /// [`ChatError::Limit`] if it takes too much work or memory.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<String, ChatError> {
        self.render_texts(messages, options, &str::to_owned)
    }

    /// The text of the messages for `tokenizer`, with the guard in every place where text of messages or variables could be
    /// read as a control token.
    ///
    /// To be encoded with `parse_special` and this guard in the [`EncodeOptions`](crate::tokenizer::EncodeOptions): control
    /// tokens are then those that the template wrote, and the guard is gone. [`Guard::strip`] gives the text of
    /// [`ChatTemplate::render`].
    ///
    /// # Errors
    /// Those of [`ChatTemplate::render`]; [`ChatError::NoGuard`] if the texts contain every noncharacter.
    pub fn render_guarded(
        &self,
        messages: &[Message],
        options: &RenderOptions,
        tokenizer: &Tokenizer,
    ) -> Result<(String, Guard), ChatError> {
        let guard = self.guard(messages, options).ok_or(ChatError::NoGuard)?;
        let text =
            self.render_texts(messages, options, &|text| tokenizer.guarded(text, guard).into_owned())?;
        Ok((text, guard))
    }

    /// A guard that no text has that a render is made from.
    fn guard(&self, messages: &[Message], options: &RenderOptions) -> Option<Guard> {
        let mut texts: Vec<&str> = vec![&self.source];
        texts.extend(self.tokens.bos.as_deref());
        texts.extend(self.tokens.eos.as_deref());
        messages.iter().for_each(|message| message.texts(&mut |text| texts.push(text)));
        map_texts(&options.variables, &mut |text| texts.push(text));
        Guard::absent_from(texts)
    }

    fn render_texts(
        &self,
        messages: &[Message],
        options: &RenderOptions,
        text: &impl Fn(&str) -> String,
    ) -> Result<String, ChatError> {
        let bytes = messages.iter().map(Message::byte_len).sum::<usize>() + map_len(&options.variables);
        let size = InputSize { messages: messages.len(), bytes };
        let render = |null: &Value| {
            let variables = self.variables(messages, options, null, text);
            engine::render(&self.engine, variables, options.date, size)
        };
        let with_none = render(&Value::from(()));
        if !messages.iter().any(Message::is_null) {
            return with_none;
        }
        // Python prints none as "None", which no template means.
        let with_empty = render(&Value::from(""));
        match (&with_none, &with_empty) {
            (Err(_), Ok(_)) => with_empty,
            (Ok(none), Ok(empty)) if none.matches("None").count() > empty.matches("None").count() => {
                with_empty
            }
            _ => with_none,
        }
    }

    /// What the template can name.
    fn variables(
        &self,
        messages: &[Message],
        options: &RenderOptions,
        null: &Value,
        text: &impl Fn(&str) -> String,
    ) -> Value {
        let TokenTexts { bos, eos } = &self.tokens;
        let tokens = [("bos_token", bos), ("eos_token", eos)];
        let tokens =
            tokens.into_iter().filter_map(|(name, token)| Some((name, Value::from(token.as_deref()?))));
        let own = [
            ("tools", Value::from(())),
            ("documents", Value::from(())),
            ("add_generation_prompt", Value::from(options.add_generation_prompt)),
        ];
        let given = options.variables.iter().map(|(name, value)| (name.as_str(), to_value(value, text)));
        let messages: Value = messages.iter().map(|message| message.to_value(null, text)).collect();
        Value::from_pairs(tokens.chain(own).chain(given).chain([("messages", messages)]))
    }
}

/// The text of the token whose id is at `key`, if that is there.
fn token_text(meta: Meta<'_>, key: &str) -> Result<Option<String>, ChatError> {
    let Some(id) = meta.u32_opt(key)? else { return Ok(None) };
    let Some(tokens) = meta.strings_opt("tokenizer.ggml.tokens")? else { return Ok(None) };
    match tokens.get(id as usize) {
        Some(text) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
        None => {
            Err(meta.wrong(key, format!("an id below {}", tokens.len()), &crate::gguf::Value::U32(id)).into())
        }
    }
}
