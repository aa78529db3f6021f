//! The sampler: the stages in order, with memory that is reused from step to step.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::candidates::{self, Candidate};
use super::penalties::Penalties;
use super::{ParamError, SampleError, SamplingParams};

/// 2^-53: the spacing of the random numbers in 0..1.
const SPACING: f64 = 1.0 / (1_u64 << 53) as f64;

/// The token of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Its id.
    pub token: u32,
    /// Its natural log-probability by the model, if [`SamplingParams::logprobs`] asks for it.
    pub logprob: Option<f32>,
    /// The most probable tokens by the model with their log-probabilities, best first: as many as asked for, fewer if
    /// logits are masked or the vocabulary is smaller.
    pub top: Vec<(u32, f32)>,
}

/// Chooses the tokens of one sequence.
///
/// A clone continues as the original does: the same random numbers, the same window of penalties.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: SamplingParams,
    vocabulary: usize,
    rng: ChaCha8Rng,
    penalties: Option<Penalties>,
    scores: Vec<f64>,
    pool: Vec<Candidate>,
}

impl Sampler {
    /// A sampler for logits of a vocabulary of this many tokens.
    ///
    /// # Errors
    /// Those of [`SamplingParams::check`]; also if there are no tokens, more than ids of 32 bits, or a bias for a token
    /// that does not exist.
    pub fn new(params: SamplingParams, vocabulary: usize) -> Result<Sampler, ParamError> {
        params.check()?;
        if vocabulary == 0 || u32::try_from(vocabulary).is_err() {
            return Err(ParamError {
                field: "vocabulary",
                found: vocabulary.to_string(),
                expected: format!("1 to {} tokens", u32::MAX),
            });
        }
        if let Some((token, _)) = params.logit_bias.iter().find(|(token, _)| *token as usize >= vocabulary) {
            return Err(ParamError {
                field: "logit_bias",
                found: format!("for token {token}"),
                expected: format!("tokens below {vocabulary}"),
            });
        }
        let mut key = [0; 32];
        key[..8].copy_from_slice(&params.seed.to_le_bytes());
        Ok(Sampler {
            rng: ChaCha8Rng::from_seed(key),
            penalties: Penalties::new(&params, vocabulary),
            scores: Vec::new(),
            pool: Vec::new(),
            params,
            vocabulary,
        })
    }

    /// The parameters.
    pub fn params(&self) -> &SamplingParams {
        &self.params
    }

    /// Puts a token that was not sampled, such as one of the prompt, into the window of the penalties.
    pub fn accept(&mut self, token: u32) {
        if let Some(penalties) = &mut self.penalties {
            penalties.accept(token);
        }
    }

    /// Chooses the next token and puts it into the window of the penalties. `step` is the number that errors name.
    ///
    /// Memory is allocated in the first steps only, and for [`Choice::top`].
    ///
    /// # Errors
    /// A [`SampleError`] if there is another number of logits than tokens, a logit is NaN or positive infinity, or no
    /// token is left. No random number has been drawn then, and the window is as it was.
    pub fn sample(&mut self, logits: &[f32], step: u64) -> Result<Choice, SampleError> {
        let best = self.check(logits, step)?;
        let greedy = self.params.temperature == 0.0;
        let token = if greedy && self.params.logit_bias.is_empty() && self.penalties.is_none() {
            candidates::first(logits, best).map(|id| id as u32)
        } else {
            self.score(logits);
            if greedy { self.highest() } else { self.draw() }
        };
        let token = token.ok_or(SampleError::AllBanned { step })?;
        self.accept(token);
        let mut choice = Choice { token, logprob: None, top: Vec::new() };
        if let Some(n) = self.params.logprobs {
            self.report(logits, best, n, &mut choice);
        }
        Ok(choice)
    }

    /// The highest logit.
    fn check(&self, logits: &[f32], step: u64) -> Result<f32, SampleError> {
        if logits.len() != self.vocabulary {
            let (expected, found) = (self.vocabulary, logits.len());
            return Err(SampleError::LogitCount { step, expected, found });
        }
        let (best, any_nan) = candidates::highest(logits);
        if any_nan || best == f32::INFINITY {
            let bad = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
            let at = logits.iter().position(bad).unwrap_or_default();
            let found = if logits[at].is_nan() { "NaN" } else { "inf" };
            return Err(SampleError::NonFinite { step, token: at as u32, found });
        }
        if best == f32::NEG_INFINITY { Err(SampleError::AllMasked { step }) } else { Ok(best) }
    }

    /// Sets the scores: the logits with bias and penalties.
    fn score(&mut self, logits: &[f32]) {
        self.scores.clear();
        self.scores.extend(logits.iter().map(|&logit| f64::from(logit)));
        for &(token, bias) in &self.params.logit_bias {
            self.scores[token as usize] += f64::from(bias);
        }
        if let Some(penalties) = &self.penalties {
            penalties.apply(&mut self.scores);
        }
    }

    /// The token of the highest score, the lowest id among equals.
    fn highest(&self) -> Option<u32> {
        let (mut best, mut token) = (f64::NEG_INFINITY, None);
        for (id, &score) in self.scores.iter().enumerate() {
            if score > best {
                (best, token) = (score, Some(id as u32));
            }
        }
        token
    }

    /// A token by chance, or `None` if all are banned.
    fn draw(&mut self) -> Option<u32> {
        let SamplingParams { top_k, top_p, min_p, temperature, .. } = self.params;
        let k = if top_k == 0 { usize::MAX } else { top_k as usize };
        candidates::best(self.scores.iter().copied(), k, &mut self.pool);
        if self.pool.is_empty() {
            return None;
        }
        if k < self.vocabulary {
            candidates::sort_by_id(&mut self.pool);
        }
        if top_p < 1.0 || min_p > 0.0 {
            candidates::weigh(&mut self.pool, 1.0);
        }
        if top_p < 1.0 {
            candidates::top_p(&mut self.pool, top_p);
        }
        if min_p > 0.0 {
            candidates::min_p(&mut self.pool, min_p);
        }
        candidates::weigh(&mut self.pool, f64::from(temperature));
        let point = (self.rng.next_u64() >> 11) as f64 * SPACING;
        candidates::at(&self.pool, point)
    }

    /// Fills in the log-probabilities of the model.
    fn report(&mut self, logits: &[f32], best: f32, n: u32, choice: &mut Choice) {
        let log_mass = libm::log(candidates::mass(logits, best));
        let logprob = |logit: f32| (candidates::distance(logit, best) - log_mass) as f32;
        choice.logprob = Some(logprob(logits[choice.token as usize]));
        let scores = logits.iter().map(|&logit| f64::from(logit));
        candidates::best(scores, n as usize, &mut self.pool);
        candidates::sort_by_rank(&mut self.pool);
        choice.top.extend(self.pool.iter().map(|c| (c.id, logprob(logits[c.id as usize]))));
    }
}
