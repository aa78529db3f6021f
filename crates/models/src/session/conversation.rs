//! Conversations: messages in, answers out.

use std::sync::Arc;

use super::{Finish, GenerateError, GenerateOptions, Generation, Piece, Session, SessionOptions};
use crate::Model;
use crate::chat::{ChatError, ChatTemplate, Message, RenderOptions};
use crate::tokenizer::{EncodeOptions, Tokenizer, TokenizerError, TokenizerOptions};

/// Why a conversation cannot begin or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// The model's file has no chat template.
    #[error("{file} has no chat template: give one, or complete plain text")]
    NoTemplate {
        /// The file.
        file: String,
    },
    /// The chat template cannot be used.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The tokenizer cannot be built, or does not take the text.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The answer cannot be generated.
    #[error(transparent)]
    Generate(#[from] GenerateError),
}

impl ConversationError {
    /// As [`ModelError::code`](crate::ModelError::code).
    pub fn code(&self) -> Option<&'static str> {
        match self {
            ConversationError::Generate(error) => error.code(),
            _ => None,
        }
    }
}

/// The tokens of messages. Control tokens are those that the template wrote; text of a message never becomes one.
///
/// # Errors
/// [`ConversationError::Chat`] if the template refuses the messages, [`ConversationError::Tokenizer`].
pub fn encode_chat(
    template: &ChatTemplate,
    messages: &[Message],
    render: &RenderOptions,
    tokenizer: &Tokenizer,
) -> Result<Vec<u32>, ConversationError> {
    let (text, guard) = template.render_guarded(messages, render, tokenizer)?;
    let options = EncodeOptions { bos: true, parse_special: true, guard: Some(guard) };
    Ok(tokenizer.encode(&text, options)?)
}

/// Messages between a user and a model, and the session that they are computed in.
///
/// Every answer renders all messages; what the session has computed of a common beginning is kept.
#[derive(Debug)]
pub struct Conversation {
    session: Session,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    /// The messages so far, to be changed at will.
    pub messages: Vec<Message>,
    /// How messages are rendered, besides the generation prompt.
    pub render: RenderOptions,
}

impl Conversation {
    /// A conversation with the tokenizer and the chat template of the model's file.
    ///
    /// # Errors
    /// [`ConversationError::NoTemplate`], [`ConversationError::Chat`] or [`ConversationError::Tokenizer`].
    pub fn new(model: Arc<Model>, options: SessionOptions) -> Result<Conversation, ConversationError> {
        let meta = model.file().meta();
        let tokenizer = Tokenizer::from_gguf(meta, &TokenizerOptions::default())?;
        let no_template = || ConversationError::NoTemplate { file: model.file().name().to_owned() };
        let template = ChatTemplate::from_gguf(meta)?.ok_or_else(no_template)?;
        Ok(Conversation::with(Session::new(model, options), tokenizer, template))
    }

    /// A conversation with these parts.
    pub fn with(session: Session, tokenizer: Tokenizer, template: ChatTemplate) -> Conversation {
        Conversation { session, tokenizer, template, messages: Vec::new(), render: RenderOptions::default() }
    }

    /// Adds what the user says.
    pub fn say(&mut self, text: impl Into<String>) {
        self.messages.push(Message::new("user", text));
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The session, to reset its statistics, save or restore it.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Answers the messages. The answer becomes a message itself, as far as it has come, when the reply is dropped; one that
    /// was cancelled or failed before it had a text does not.
    ///
    /// # Errors
    /// [`ConversationError::Chat`] if the template refuses the messages, [`ConversationError::Tokenizer`],
    /// [`ConversationError::Generate`] if the options are wrong.
    pub fn reply(&mut self, options: GenerateOptions) -> Result<Reply<'_>, ConversationError> {
        let render = RenderOptions { add_generation_prompt: true, ..self.render.clone() };
        let tokens = encode_chat(&self.template, &self.messages, &render, &self.tokenizer)?;
        self.session.set_tokens(&tokens);
        let generation = self.session.generate(&self.tokenizer, options)?;
        Ok(Reply { generation, messages: &mut self.messages, text: String::new() })
    }
}

/// An answer as it is generated: an iterator over its pieces.
#[derive(Debug)]
pub struct Reply<'c> {
    generation: Generation<'c>,
    messages: &'c mut Vec<Message>,
    text: String,
}

impl Reply<'_> {
    /// Why the answer ended; `None` while it goes on, and if it failed.
    pub fn finish(&self) -> Option<Finish> {
        self.generation.finish()
    }
}

impl Iterator for Reply<'_> {
    type Item = Result<Piece, GenerateError>;

    fn next(&mut self) -> Option<Result<Piece, GenerateError>> {
        let piece = self.generation.next()?;
        if let Ok(piece) = &piece {
            self.text.push_str(&piece.text);
        }
        Some(piece)
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        let answered = self.finish().is_some_and(|finish| finish != Finish::Cancelled);
        if answered || !self.text.is_empty() {
            self.messages.push(Message::new("assistant", std::mem::take(&mut self.text)));
        }
    }
}
