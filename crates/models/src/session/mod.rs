//! Sessions: one sequence of tokens and what a model has computed of it; text generated from it, and conversations.

mod conversation;
mod file;
mod generate;
mod stop;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cera_core::{CancelToken, Error, SeqState, SeqStep, Want};
use cera_quant::kv::KvType;

use crate::{Model, ModelError};

pub use conversation::{Conversation, ConversationError, Reply, encode_chat};
pub use file::{SessionFault, SessionFileError};
pub use generate::{Finish, GenerateError, GenerateOptions, Generation, Piece};
pub use stop::{Passed, StopStrings};

/// How a session keeps its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// The element type of keys and values.
    pub kv: KvType,
    /// The most tokens of the sequence; by default the context length that the model was made for. Memory is taken as
    /// the sequence grows.
    pub context: Option<usize>,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions { kv: KvType::F16, context: None }
    }
}

/// Counts and times of a session since it began or [`Session::reset_stats`] was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionStats {
    /// Tokens of prompts that were computed already.
    pub reused: usize,
    /// Tokens computed in steps of several tokens, or in the first step after a prompt.
    pub prompt: usize,
    /// What they took.
    pub prompt_time: Duration,
    /// Tokens computed one at a time, after the model chose them.
    pub generated: usize,
    /// What they took.
    pub generated_time: Duration,
}

/// A sequence of tokens of which a beginning is computed.
///
/// Tokens can be added ([`Session::append`]) or replaced ([`Session::set_tokens`]) at any time; only what changed is
/// computed, when logits are asked for. The logits are those of a sequence computed at once.
#[derive(Debug)]
pub struct Session {
    model: Arc<Model>,
    /// Holds the first `state.len()` of the tokens.
    state: SeqState,
    tokens: Vec<u32>,
    /// Whether the tokens to compute were chosen from this session's logits.
    chosen: bool,
    stats: SessionStats,
}

impl Session {
    /// An empty sequence.
    pub fn new(model: Arc<Model>, options: SessionOptions) -> Session {
        let context = options.context.unwrap_or(model.context_length());
        let state = model.program().new_state(options.kv, context);
        Session { model, state, tokens: Vec::new(), chosen: false, stats: SessionStats::default() }
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The sequence.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The most tokens of the sequence.
    pub fn context(&self) -> usize {
        self.state.limit()
    }

    /// Bytes of keys and values that a full context takes.
    pub fn context_bytes(&self) -> usize {
        self.state.spec().bytes(self.state.kv_type(), self.context())
    }

    /// Counts and times.
    pub fn stats(&self) -> SessionStats {
        self.stats
    }

    /// Counts from zero.
    pub fn reset_stats(&mut self) {
        self.stats = SessionStats::default();
    }

    /// Adds tokens of a prompt.
    pub fn append(&mut self, tokens: &[u32]) {
        self.chosen = false;
        self.tokens.extend(tokens);
    }

    /// Adds the token that was chosen from the logits.
    pub fn choose(&mut self, token: u32) {
        self.chosen = self.state.len() == self.tokens.len();
        self.tokens.push(token);
    }

    /// Makes `tokens` the sequence. What is computed of a common beginning is kept, but for the last token, whose logits
    /// are to be had. Gives the number of tokens kept.
    pub fn set_tokens(&mut self, tokens: &[u32]) -> usize {
        let held = &self.tokens[..self.state.len()];
        let common = held.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let kept = self.state.truncate(common.min(tokens.len().saturating_sub(1)));
        self.tokens.clear();
        self.tokens.extend(tokens);
        self.chosen = false;
        self.stats.reused += kept;
        kept
    }

    /// Computes what is not computed yet, and gives the logits of the last token.
    ///
    /// # Errors
    /// Those of a step ([`cera_core::Program::step_cancellable`]); an empty sequence has no logits, which is
    /// [`Error::Operand`]. The tokens stay, so that the call can be made again.
    pub fn logits(&mut self, cancel: &CancelToken) -> Result<Vec<f32>, ModelError> {
        if self.tokens.is_empty() {
            let op = "logits".to_owned();
            return Err(Error::Operand { op, what: "number of tokens", expected: 1, got: 0 }.into());
        }
        let known = self.state.truncate(self.tokens.len() - 1);
        let start = Instant::now();
        let (model, tokens) = (&self.model, &self.tokens[known..]);
        let steps = &mut [SeqStep { state: &mut self.state, tokens, want: Want::Last }];
        let logits = model.program().step_cancellable(steps, cancel)?;
        let (count, time) = match self.chosen && tokens.len() == 1 {
            true => (&mut self.stats.generated, &mut self.stats.generated_time),
            false => (&mut self.stats.prompt, &mut self.stats.prompt_time),
        };
        *count += tokens.len();
        *time += start.elapsed();
        Ok(logits.into_data())
    }
}

#[cfg(test)]
mod tests;
