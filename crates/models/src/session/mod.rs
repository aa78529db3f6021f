//! Sessions: one sequence of tokens and what a model has computed of it; text generated from it, and conversations.

mod checkpoints;
mod conversation;
mod file;
mod generate;
mod shift;
mod stop;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cera_core::{CancelToken, Error, SeqState, SeqStep, Want};
use cera_quant::kv::KvType;

use self::checkpoints::{Checkpoint, Checkpoints, can_roll_back};
use crate::{Model, ModelError};

pub use checkpoints::CheckpointOptions;
pub use conversation::{Conversation, ConversationError, Reply, encode_chat};
pub use file::{SessionFault, SessionFileError};
pub use generate::{Finish, GenerateError, GenerateOptions, Generation, Piece};
pub use shift::ContextShift;
pub use stop::{Passed, StopStrings};

/// Tokens of a step at most: layers with a window drop their pages between steps.
const STEP_TOKENS: usize = 512;

/// How a session keeps its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// The element type of keys and values.
    pub kv: KvType,
    /// The most tokens of the sequence; by default the context length that the model was made for. Memory is taken as
    /// the sequence grows.
    pub context: Option<usize>,
    /// What gives way when the context is full. By default nothing: a sequence that is too long is an error, and an answer
    /// ends where the context does.
    pub shift: Option<ContextShift>,
    /// Which earlier states are kept, of models that cannot go back by themselves.
    pub checkpoints: CheckpointOptions,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        let checkpoints = CheckpointOptions::default();
        SessionOptions { kv: KvType::F16, context: None, shift: None, checkpoints }
    }
}

/// Counts and times of a session since it began or [`Session::reset_stats`] was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionStats {
    /// Tokens of prompts that were computed already.
    pub reused: usize,
    /// Tokens that were computed before and are computed again: those of a beginning that a prompt has in common with the
    /// sequence but that the state could not go back to, and those that a shift of the context moved.
    pub recomputed: usize,
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
    options: SessionOptions,
    /// Holds the first `state.len()` of the tokens.
    state: SeqState,
    tokens: Vec<u32>,
    /// The logits of the last token that the state holds, if they were wanted.
    logits: Option<Arc<Vec<f32>>>,
    /// Whether the tokens to compute were chosen from this session's logits.
    chosen: bool,
    /// Whether the last token that the state holds was.
    answering: bool,
    /// Whether the state needs them.
    keeps_checkpoints: bool,
    checkpoints: Checkpoints,
    dropped: usize,
    stats: SessionStats,
}

impl Session {
    /// An empty sequence.
    pub fn new(model: Arc<Model>, options: SessionOptions) -> Session {
        let context = options.context.unwrap_or(model.context_length());
        let state = model.program().new_state(options.kv, context);
        let keeps_checkpoints = options.checkpoints.count > 0 && !can_roll_back(state.spec());
        Session {
            model,
            options,
            state,
            tokens: Vec::new(),
            logits: None,
            chosen: false,
            answering: false,
            keeps_checkpoints,
            checkpoints: Checkpoints::default(),
            dropped: 0,
            stats: SessionStats::default(),
        }
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The sequence, without what has given way.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Tokens of the sequence that have given way because the context was full.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// The most tokens of the sequence.
    pub fn context(&self) -> usize {
        self.state.limit()
    }

    /// Whether there are more tokens than the context holds, and none may give way.
    fn is_full(&self) -> bool {
        self.tokens.len() > self.context() && self.options.shift.is_none()
    }

    /// Bytes of the state that a full context takes.
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
        self.end_answer();
        self.chosen = false;
        self.tokens.extend(tokens);
    }

    /// Adds the token that was chosen from the logits.
    pub fn choose(&mut self, token: u32) {
        self.chosen = self.state.len() == self.tokens.len();
        self.tokens.push(token);
    }

    /// Makes `tokens` the sequence. What is computed of a common beginning is kept as far as the state can go back, but for
    /// the last token if its logits are not known. Gives the number of tokens kept.
    ///
    /// Where the context may shift, a sequence that is too long is shifted first.
    pub fn set_tokens(&mut self, tokens: &[u32]) -> usize {
        let fitting = self.fitting(tokens);
        self.dropped = tokens.len() - fitting.len();
        let held = &self.tokens[..self.state.len()];
        let common = held.iter().zip(&*fitting).take_while(|(a, b)| a == b).count();
        if common == self.state.len() {
            self.end_answer();
        }
        self.rewind(common, fitting.len());
        self.tokens = fitting.into_owned();
        self.chosen = false;
        let kept = self.state.len();
        self.stats.reused += kept;
        self.stats.recomputed += common - kept;
        kept
    }

    /// Computes what is not computed yet, and gives the logits of the last token.
    ///
    /// # Errors
    /// [`Error::ContextFull`] if there are more tokens than the context holds, before anything is computed, and other errors of
    /// a step ([`cera_core::Program::step_cancellable`]); [`ModelError::ContextShift`]; an empty sequence has no logits, which
    /// is [`Error::Operand`]. The tokens stay, so that the call can be made again: it goes on after the last step that was
    /// done.
    pub fn logits(&mut self, cancel: &CancelToken) -> Result<&[f32], ModelError> {
        self.make_room()?;
        if self.state.len() == self.tokens.len() && self.logits.is_none() {
            self.rewind(self.tokens.len(), self.tokens.len());
        }
        while self.state.len() < self.tokens.len() {
            self.step(cancel)?;
        }
        Ok(self.logits.as_ref().map_or(&[], |logits| logits))
    }

    /// Computes the next tokens: all of them, unless they are too many for one step.
    fn step(&mut self, cancel: &CancelToken) -> Result<(), ModelError> {
        let start = Instant::now();
        let from = self.state.len();
        let mut end = self.tokens.len().min(from.saturating_add(STEP_TOKENS));
        let every = self.options.checkpoints.every.get();
        let due = self.checkpoints.last_len().saturating_add(every);
        if self.keeps_checkpoints && from < due {
            end = end.min(due);
        }
        let last = end == self.tokens.len();
        let tokens = &self.tokens[from..end];
        let want = if last { Want::Last } else { Want::None };
        let steps = &mut [SeqStep { state: &mut self.state, tokens, want }];
        let logits = self.model.program().step_cancellable(steps, cancel)?;
        let answering = self.chosen && tokens.len() == 1;
        let (count, time) = match answering {
            true => (&mut self.stats.generated, &mut self.stats.generated_time),
            false => (&mut self.stats.prompt, &mut self.stats.prompt_time),
        };
        *count += tokens.len();
        *time += start.elapsed();
        self.logits = last.then(|| Arc::new(logits.into_data()));
        self.answering = answering;
        if last && !answering {
            self.keep_checkpoint(true);
        } else if end >= due {
            self.keep_checkpoint(false);
        }
        Ok(())
    }

    /// Marks the end of an answer, if one ends where the state is.
    fn end_answer(&mut self) {
        if std::mem::take(&mut self.answering) {
            self.keep_checkpoint(true);
        }
    }

    fn keep_checkpoint(&mut self, turn: bool) {
        if self.keeps_checkpoints {
            let checkpoint = Checkpoint::new(&self.state, turn, self.logits.clone());
            self.checkpoints.add(checkpoint, &self.options.checkpoints);
        }
    }

    /// Goes back to the longest beginning of at most `common` tokens from which the logits of a sequence of `len` tokens can
    /// be had. The state holds at least `common` tokens.
    fn rewind(&mut self, common: usize, len: usize) {
        if common == self.state.len() && (common < len || (common == len && self.logits.is_some())) {
            return;
        }
        let kept = self.state.truncate(common.min(len.saturating_sub(1)));
        (self.logits, self.answering) = (None, false);
        if let Some(checkpoint) = self.checkpoints.find(common, len).filter(|found| found.len > kept)
            && checkpoint.restore(&mut self.state).is_ok()
        {
            self.logits.clone_from(&checkpoint.logits);
        }
        self.checkpoints.forget_after(self.state.len());
    }

    /// The tokens, without those that give way if they are more than the context holds and it may shift.
    fn fitting<'t>(&self, tokens: &'t [u32]) -> Cow<'t, [u32]> {
        let Some(shift) = self.options.shift else { return Cow::Borrowed(tokens) };
        match shift.dropped(tokens.len(), self.context()) {
            0 => Cow::Borrowed(tokens),
            dropped => Cow::Owned([&tokens[..shift.keep], &tokens[shift.keep + dropped..]].concat()),
        }
    }

    /// Sees to it that the tokens are at least one and fit.
    fn make_room(&mut self) -> Result<(), ModelError> {
        let (held, context) = (self.state.len(), self.context());
        if self.tokens.is_empty() {
            let op = "logits".to_owned();
            return Err(Error::Operand { op, what: "number of tokens", expected: 1, got: 0 }.into());
        }
        if let Some(shift) = self.options.shift {
            if !shift.fits(context) {
                return Err(ModelError::ContextShift { keep: shift.keep, context });
            }
            self.shift(shift);
        }
        match self.tokens.len() > context {
            true => Err(Error::ContextFull { held, added: self.tokens.len() - held, limit: context }.into()),
            false => Ok(()),
        }
    }

    /// Drops tokens if there are too many; what is left of those computed is computed again.
    fn shift(&mut self, shift: ContextShift) {
        let dropped = shift.dropped(self.tokens.len(), self.context());
        if dropped == 0 {
            return;
        }
        let after = self.state.len().saturating_sub(shift.keep + dropped);
        let before = self.state.len().min(shift.keep);
        self.tokens.drain(shift.keep..shift.keep + dropped);
        self.rewind(before, self.tokens.len());
        self.chosen = false;
        self.dropped += dropped;
        self.stats.recomputed += before + after - self.state.len();
    }
}

#[cfg(test)]
mod tests;
