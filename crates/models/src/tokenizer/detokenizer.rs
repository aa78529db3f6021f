//! From tokens to text, one at a time.

use super::{Tokenizer, TokenizerError};

/// Turns tokens into text as they come, without ever giving a part of a character.
///
/// The texts of all calls of [`Detokenizer::push`] and the one of [`Detokenizer::finish`], one after another, are what
/// [`Tokenizer::decode`] gives for the same tokens, wherever the tokens end. Bytes that begin a character are held back until
/// the character is whole; bytes that are no part of any character become U+FFFD as soon as that is known.
#[derive(Debug)]
pub struct Detokenizer<'t> {
    tokenizer: &'t Tokenizer,
    /// The bytes of a character that is not whole: three at most.
    held: Vec<u8>,
    /// Whether the space that the tokenizer put before the text is still to come.
    prefix: bool,
    control: bool,
}

impl<'t> Detokenizer<'t> {
    /// For tokens that begin a text: the space that [`Tokenizer::encode`] put before it is left out.
    pub fn new(tokenizer: &'t Tokenizer) -> Detokenizer<'t> {
        let prefix = tokenizer.adds_space_prefix();
        Detokenizer { tokenizer, held: Vec::new(), prefix, control: true }
    }

    /// For tokens that go on after others, as a model's answer does after the prompt: a leading space is kept.
    pub fn continued(tokenizer: &'t Tokenizer) -> Detokenizer<'t> {
        Detokenizer { prefix: false, ..Detokenizer::new(tokenizer) }
    }

    /// Leaves control tokens out of the text, where they otherwise appear with their names.
    #[must_use]
    pub fn without_control(self) -> Detokenizer<'t> {
        Detokenizer { control: false, ..self }
    }

    /// The text that `id` completes, which may be empty.
    ///
    /// # Errors
    /// [`TokenizerError::Token`] if the token is outside of the vocabulary; nothing has changed then.
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        let mut piece = self.tokenizer.piece(id)?;
        if self.tokenizer.is_control(id) {
            if !self.control {
                return Ok(String::new());
            }
        } else if std::mem::take(&mut self.prefix) {
            piece = piece.strip_prefix(b" ").unwrap_or(piece);
        }
        self.held.extend_from_slice(piece);
        let mut text = String::new();
        let mut done = 0;
        for chunk in self.held.utf8_chunks() {
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            let rest = &self.held[done..];
            if chunk.invalid().len() == rest.len() && is_incomplete(rest) {
                break;
            }
            if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                done += chunk.invalid().len();
            }
        }
        self.held.drain(..done);
        Ok(text)
    }

    /// The text of bytes that were held back: U+FFFD if there are any.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.held).into_owned()
    }
}

/// Whether more bytes can make a character of `bytes`, which are not one.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
