//! Generating text: step, sample, turn into text, look for a stop.

use cera_core::{CancelToken, Error};

use super::{Session, StopStrings};
use crate::ModelError;
use crate::sampling::{Choice, ParamError, SampleError, Sampler, SamplingParams};
use crate::tokenizer::{Detokenizer, Tokenizer, TokenizerError};

/// How text is generated.
#[derive(Debug, Clone, Default)]
pub struct GenerateOptions {
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// The most tokens; without a number the context is the limit.
    pub max_tokens: Option<usize>,
    /// Texts that end the answer and are no part of it.
    pub stops: Vec<String>,
    /// Ends the generation from another thread.
    pub cancel: CancelToken,
}

/// A part of an answer: what one more token brought.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Piece {
    /// Text, never half a character; empty while a character is not whole or a stop may have begun.
    pub text: String,
    /// The token; `None` for text that was withheld when the generation was cancelled.
    pub choice: Option<Choice>,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model chose a token that ends its turn.
    EndOfTurn(u32),
    /// The text contained a stop, by its index in [`GenerateOptions::stops`].
    StopString(usize),
    /// [`GenerateOptions::max_tokens`] were generated.
    MaxTokens,
    /// The context is full, and may not shift.
    ContextFull,
    /// [`GenerateOptions::cancel`] asked for it.
    Cancelled,
}

impl Finish {
    /// The reason as the field's APIs name it: `stop`, `length` or `cancelled`.
    pub fn label(self) -> &'static str {
        match self {
            Finish::EndOfTurn(_) | Finish::StopString(_) => "stop",
            Finish::MaxTokens | Finish::ContextFull => "length",
            Finish::Cancelled => "cancelled",
        }
    }
}

/// Why a generation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A parameter of sampling is wrong.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// The step failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No token can be chosen.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A token has no text.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

impl GenerateError {
    /// As [`ModelError::code`].
    pub fn code(&self) -> Option<&'static str> {
        match self {
            GenerateError::Model(error) => error.code(),
            _ => None,
        }
    }
}

/// An answer as it is generated: an iterator over its pieces, one for each token. The tokens become part of the session.
///
/// It ends after an error; the session can go on.
#[derive(Debug)]
pub struct Generation<'s> {
    session: &'s mut Session,
    tokenizer: &'s Tokenizer,
    sampler: Sampler,
    detokenizer: Option<Detokenizer<'s>>,
    stops: StopStrings,
    left: Option<usize>,
    cancel: CancelToken,
    finish: Option<Finish>,
}

impl Session {
    /// Generates text that continues the sequence.
    ///
    /// # Errors
    /// [`GenerateError::Param`] if the parameters of sampling are wrong.
    pub fn generate<'s>(
        &'s mut self,
        tokenizer: &'s Tokenizer,
        options: GenerateOptions,
    ) -> Result<Generation<'s>, GenerateError> {
        let GenerateOptions { sampling, max_tokens, stops, cancel } = options;
        let mut sampler = Sampler::new(sampling, self.model.vocabulary())?;
        self.tokens.iter().for_each(|&token| sampler.accept(token));
        Ok(Generation {
            session: self,
            tokenizer,
            sampler,
            detokenizer: Some(Detokenizer::continued(tokenizer).without_control()),
            stops: StopStrings::new(stops),
            left: max_tokens,
            cancel,
            finish: (max_tokens == Some(0)).then_some(Finish::MaxTokens),
        })
    }
}

impl Generation<'_> {
    /// Why the generation ended; `None` while it goes on, and if it failed.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// The session.
    pub fn session(&self) -> &Session {
        self.session
    }

    fn step(&mut self) -> Result<Piece, GenerateError> {
        let position = self.session.tokens.len() as u64;
        let logits = match self.session.logits(&self.cancel) {
            Err(ModelError::Core(Error::Cancelled)) => return Ok(self.end(Finish::Cancelled, None)),
            logits => logits?,
        };
        let choice = self.sampler.sample(logits, position)?;
        let token = choice.token;
        self.session.choose(token);
        if self.tokenizer.stop_tokens().binary_search(&token).is_ok() {
            return Ok(self.end(Finish::EndOfTurn(token), Some(choice)));
        }
        let text = match &mut self.detokenizer {
            Some(detokenizer) => detokenizer.push(token)?,
            None => String::new(),
        };
        let passed = self.stops.push(&text);
        self.left = self.left.map(|left| left - 1);
        let mut piece = match (passed.stop, self.left) {
            (Some(stop), _) => {
                self.finish = Some(Finish::StopString(stop));
                Piece { text: String::new(), choice: Some(choice) }
            }
            (None, Some(0)) => self.end(Finish::MaxTokens, Some(choice)),
            (None, _) if self.session.is_full() => self.end(Finish::ContextFull, Some(choice)),
            (None, _) => Piece { text: String::new(), choice: Some(choice) },
        };
        piece.text.insert_str(0, &passed.text);
        Ok(piece)
    }

    /// Ends the generation with what was withheld.
    fn end(&mut self, finish: Finish, choice: Option<Choice>) -> Piece {
        self.finish = Some(finish);
        let rest = self.detokenizer.take().map(Detokenizer::finish).unwrap_or_default();
        let passed = self.stops.push(&rest);
        let text = match passed.stop {
            Some(stop) => {
                self.finish = Some(Finish::StopString(stop));
                passed.text
            }
            None => passed.text + &self.stops.finish(),
        };
        Piece { text, choice }
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Piece, GenerateError>;

    fn next(&mut self) -> Option<Result<Piece, GenerateError>> {
        if self.finish.is_some() || self.detokenizer.is_none() {
            return None;
        }
        let piece = self.step();
        if piece.is_err() {
            self.detokenizer = None;
        }
        Some(piece)
    }
}
