//! The errors of chat templates.

use minijinja::{Error, ErrorKind};

use crate::gguf::GgufError;

/// The most characters of a message that a template raises.
const MAX_RAISED: usize = 2000;

/// Why a chat template cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The model file is at fault.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The template is not Jinja.
    #[error("the chat template has an error in line {line}: {message}")]
    Syntax {
        /// The line, from 1; 0 if unknown.
        line: usize,
        /// What the template engine says.
        message: String,
    },
    /// The template itself refuses these messages, by `raise_exception`.
    #[error("the chat template refuses the messages: {message}")]
    Raised {
        /// The template's own message.
        message: String,
    },
    /// The template fails on these messages.
    #[error("the chat template failed in line {line}: {message}")]
    Render {
        /// The line, from 1; 0 if unknown.
        line: usize,
        /// What the template engine says.
        message: String,
    },
    /// The template, or what it does, is larger than any real one.
    #[error("the chat template exceeds the limit on {what}")]
    Limit {
        /// What is limited.
        what: &'static str,
    },
    /// The messages contain every character that could mark text as theirs.
    #[error("the messages contain every Unicode noncharacter: none is left to mark their text with")]
    NoGuard,
}

/// The source of an error that `raise_exception` made.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(String);

/// The error of `raise_exception(message)`.
pub(super) fn raised(message: &str) -> Error {
    let message: String = message.chars().take(MAX_RAISED).collect();
    Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message))
}

impl ChatError {
    /// The error of parsing.
    pub(super) fn from_parsing(error: &Error) -> ChatError {
        ChatError::Syntax { line: error.line().unwrap_or(0), message: described(error) }
    }

    /// The error of rendering.
    pub(super) fn from_rendering(error: &Error) -> ChatError {
        let mut innermost = error;
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            if let Some(Raised(message)) = inner.downcast_ref() {
                return ChatError::Raised { message: message.clone() };
            }
            if let Some(inner) = inner.downcast_ref() {
                innermost = inner;
            }
            source = inner.source();
        }
        if innermost.kind() == ErrorKind::OutOfFuel {
            return ChatError::Limit { what: "work" };
        }
        ChatError::Render { line: innermost.line().unwrap_or(0), message: described(innermost) }
    }
}

/// Kind and detail, without the name and line that are shown elsewhere.
fn described(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}
