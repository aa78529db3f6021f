//! The errors of tokenizers.

use crate::gguf::GgufError;

/// Why a tokenizer cannot be built, or a text or token cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The vocabulary in the file is at fault, or is of a kind that is not supported. The message names the file, the
    /// key, what was expected and what was found.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// [`TokenizerOptions::pre`](super::TokenizerOptions::pre) names no pre-tokenizer.
    #[error("pre-tokenizer {name} is not known; known: {known}")]
    UnknownPre {
        /// The name that was asked for.
        name: String,
        /// The names that are known.
        known: String,
    },
    /// A token id is not in the vocabulary.
    #[error("token {id} is outside of the vocabulary of {vocabulary}")]
    Token {
        /// The token.
        id: u32,
        /// The number of tokens of the vocabulary.
        vocabulary: usize,
    },
    /// The vocabulary has no token for a character of the text.
    #[error("the vocabulary has no token for the character {character:?}")]
    Unencodable {
        /// The character.
        character: char,
    },
    /// A library that this one builds on refused the vocabulary or the text.
    #[error("{what}: {error}")]
    Library {
        /// What was being done.
        what: &'static str,
        /// What the library said.
        error: String,
    },
}

impl TokenizerError {
    /// A failure of a library while `what` was being done.
    pub(super) fn library(what: &'static str, error: impl std::fmt::Display) -> TokenizerError {
        TokenizerError::Library { what, error: error.to_string() }
    }
}
