//! Perplexity: how well a model predicts a text.
//!
//! The tokens of the text are cut into consecutive chunks of the length of the context; what is left over at the end is not
//! used. Each chunk is a sequence of its own. In each the first token gives way to BOS where the model asks for it, the
//! first half is context only, and every later token is scored by its negative log-probability after all tokens before it in
//! the chunk. In a chunk of `n` tokens the scored ones are those at `n / 2 + 1` to `n - 1`. The perplexity is `exp` of the mean
//! score, its standard error that of the mean times the perplexity. llama.cpp states the same numbers.
//!
//! Logarithms of softmax are those of [sampling](crate::sampling), in f64: equal on every platform and for every number of
//! threads.

mod score;

use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::Range;

use cera_core::{Error, SeqState, SeqStep, Want};
use cera_quant::kv::KvType;

use self::score::{Scores, scores};
use crate::tokenizer::{EncodeOptions, Tokenizer, TokenizerError};
use crate::{Model, ModelError};

/// The shortest chunk in which a token is scored.
const SHORTEST: usize = 3;

/// Chunks of a text at least, as llama.cpp asks for.
const FEWEST_CHUNKS: usize = 2;

/// Tokens of a step at which chunks are no longer put together: those of a pass.
const STEP_TOKENS: usize = 512;

/// Logits of a step at most, unless a single token of each chunk has more: 128 MiB.
const STEP_LOGITS: usize = 32 << 20;

/// How a perplexity is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerplexityOptions {
    /// Tokens of a chunk. Default 512.
    pub context: usize,
    /// The element type of keys and values. Default f16.
    pub kv: KvType,
    /// The most chunks, from the beginning of the text; by default all.
    pub chunks: Option<NonZero<usize>>,
}

impl Default for PerplexityOptions {
    fn default() -> PerplexityOptions {
        PerplexityOptions { context: 512, kv: KvType::F16, chunks: None }
    }
}

/// What is known after some chunks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PerplexityEstimate {
    /// The chunks.
    pub chunks: usize,
    /// The tokens scored in them.
    pub tokens: usize,
    /// The perplexity.
    pub perplexity: f64,
    /// Its standard error; a single token has none.
    pub standard_error: Option<f64>,
}

/// Why there is no perplexity.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerplexityError {
    /// The text cannot be encoded.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// A step failed, or the vocabulary of the model lacks a token of the text.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Chunks have too few tokens to score any, or more than the model was made for.
    #[error("a context of {context} tokens, expected {SHORTEST} to {longest}")]
    Context {
        /// Tokens of a chunk.
        context: usize,
        /// The model's context length.
        longest: usize,
    },
    /// The text has too few tokens.
    #[error("the text has {tokens} tokens; with a context of {context}, at least {needed} are needed")]
    TextTooShort {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens of a chunk.
        context: usize,
        /// Tokens that are enough.
        needed: usize,
    },
}

/// Computes the perplexity of a text: an iterator that gives an estimate after each chunk, of which the last one is the result.
/// After an error it ends.
#[derive(Debug)]
pub struct Perplexity<'m> {
    model: &'m Model,
    /// Those of whole chunks to compute.
    tokens: Vec<u32>,
    bos: Option<u32>,
    options: PerplexityOptions,
    /// Chunks that are computed.
    done: usize,
    scores: Scores,
    /// Estimates that are not given yet.
    ready: VecDeque<PerplexityEstimate>,
}

impl<'m> Perplexity<'m> {
    /// Of a text, in which names of control tokens are plain text.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`] and [`Perplexity::of_tokens`].
    pub fn new(
        model: &'m Model,
        tokenizer: &Tokenizer,
        text: &str,
        options: PerplexityOptions,
    ) -> Result<Perplexity<'m>, PerplexityError> {
        let tokens = tokenizer.encode(text, EncodeOptions::default())?;
        let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
        Perplexity::of_tokens(model, tokens, bos, options)
    }

    /// Of the tokens of a text, with what takes the place of the first one of each chunk.
    ///
    /// # Errors
    /// [`PerplexityError::Context`], [`PerplexityError::TextTooShort`], or [`Error::Token`] for one outside of the model's
    /// vocabulary.
    pub fn of_tokens(
        model: &'m Model,
        mut tokens: Vec<u32>,
        bos: Option<u32>,
        options: PerplexityOptions,
    ) -> Result<Perplexity<'m>, PerplexityError> {
        let (context, longest) = (options.context, model.context_length());
        if !(SHORTEST..=longest).contains(&context) {
            return Err(PerplexityError::Context { context, longest });
        }
        let needed = context.saturating_mul(FEWEST_CHUNKS);
        if tokens.len() < needed {
            return Err(PerplexityError::TextTooShort { tokens: tokens.len(), context, needed });
        }
        let vocabulary = model.vocabulary();
        if let Some(&token) = tokens.iter().chain(&bos).find(|&&token| token as usize >= vocabulary) {
            return Err(ModelError::from(Error::Token { token, vocabulary }).into());
        }
        let whole = tokens.len() / context;
        tokens.truncate(options.chunks.map_or(whole, |chunks| whole.min(chunks.get())) * context);
        let (scores, ready) = (Scores::default(), VecDeque::new());
        Ok(Perplexity { model, tokens, bos, options, done: 0, scores, ready })
    }

    /// The number of chunks, and of estimates in all.
    pub fn chunks(&self) -> usize {
        self.tokens.len() / self.options.context
    }

    /// Computes the next chunks in one go: as many as fill a pass with one half of each.
    fn compute(&mut self) -> Result<(), PerplexityError> {
        let PerplexityOptions { context, kv, .. } = self.options;
        let half = context / 2;
        let count = (STEP_TOKENS / half).max(1).min(self.chunks() - self.done);
        let begin = self.done * context;
        let mut chunks = self.tokens[begin..begin + count * context].to_vec();
        for chunk in chunks.chunks_exact_mut(context) {
            chunk[0] = self.bos.unwrap_or(chunk[0]);
        }
        let chunks: Vec<&[u32]> = chunks.chunks_exact(context).collect();
        let (model, program) = (self.model, self.model.program());
        let mut states: Vec<SeqState> = (0..count).map(|_| program.new_state(kv, context)).collect();
        model.step(&mut steps(&mut states, &chunks, 0..half, Want::None))?;
        let rows = (STEP_LOGITS / model.vocabulary() / count).max(1);
        let mut computed = vec![Vec::with_capacity(context - half - 1); count];
        let mut at = half;
        while at < context - 1 {
            let end = (at + rows).min(context - 1);
            let logits = model.step(&mut steps(&mut states, &chunks, at..end, Want::All))?;
            for (i, computed) in computed.iter_mut().enumerate() {
                let targets = &chunks[i][at + 1..=end];
                computed.extend(scores(logits.sequence(i), targets, program.runtime().width()));
            }
            at = end;
        }
        for chunk in computed {
            self.done += 1;
            chunk.into_iter().for_each(|score| self.scores.add(score));
            self.ready.push_back(self.scores.estimate(self.done));
        }
        Ok(())
    }
}

/// A step that adds a part of each chunk to its sequence.
fn steps<'a>(
    states: &'a mut [SeqState],
    chunks: &[&'a [u32]],
    part: Range<usize>,
    want: Want,
) -> Vec<SeqStep<'a>> {
    let step = |(state, chunk): (_, &&'a [u32])| SeqStep { state, tokens: &chunk[part.clone()], want };
    states.iter_mut().zip(chunks).map(step).collect()
}

impl Iterator for Perplexity<'_> {
    type Item = Result<PerplexityEstimate, PerplexityError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty()
            && self.done < self.chunks()
            && let Err(error) = self.compute()
        {
            self.done = self.chunks();
            return Some(Err(error));
        }
        self.ready.pop_front().map(Ok)
    }
}

impl std::iter::FusedIterator for Perplexity<'_> {}

#[cfg(test)]
mod tests;
