//! The parameters of sampling.

use super::ParamError;

/// The largest temperature.
const MAX_TEMPERATURE: f32 = 100.0;
/// The largest repeat penalty.
const MAX_REPEAT: f32 = 100.0;
/// The largest magnitude of a frequency or presence penalty.
const MAX_PENALTY: f32 = 100.0;
/// The largest magnitude of a finite logit bias.
const MAX_BIAS: f32 = 1e6;

/// How tokens are chosen: see [the order of the stages](super).
///
/// The defaults are llama.cpp's, so that a user who changes engines sees the same kind of text.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// From 0 to 100. 0 takes the highest logit; 1 leaves the probabilities as they are. Default 0.8.
    pub temperature: f32,
    /// How many tokens stay; 0, or more than there are, is off. Default 40.
    pub top_k: u32,
    /// From 0 to 1: the probability that the tokens left must reach; 1 is off. Default 0.95.
    pub top_p: f32,
    /// From 0 to 1: the smallest probability of a token left, as a fraction of the highest; 0 is off. Default 0.05.
    pub min_p: f32,
    /// Above 0, to 100: what weakens a token of the window; 1 is off, less than 1 encourages. Default 1.
    pub repeat_penalty: f32,
    /// From -100 to 100, per occurrence in the window; 0 is off, negative encourages. Default 0.
    pub frequency_penalty: f32,
    /// From -100 to 100, once for a token of the window; 0 is off, negative encourages. Default 0.
    pub presence_penalty: f32,
    /// How many of the last tokens the penalties see: 0 turns them off, `u32::MAX` means all. Default 64.
    pub penalty_window: u32,
    /// What is added to the logits of tokens: from -1e6 to 1e6, or negative infinity, which bans. Several entries of a
    /// token are added.
    pub logit_bias: Vec<(u32, f32)>,
    /// The seed of the random numbers. Default 0.
    pub seed: u64,
    /// `Some(n)` computes the log-probabilities of the chosen token and of the `n` most probable ones. Default `None`.
    pub logprobs: Option<u32>,
}

impl Default for SamplingParams {
    fn default() -> SamplingParams {
        SamplingParams {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalty_window: 64,
            logit_bias: Vec::new(),
            seed: 0,
            logprobs: None,
        }
    }
}

impl SamplingParams {
    /// Takes the highest logit of the model in each step: temperature 0, all else neutral.
    pub fn greedy() -> SamplingParams {
        SamplingParams { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplingParams::default() }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// A [`ParamError`] that names the first field that is NaN or out of its documented range.
    pub fn check(&self) -> Result<(), ParamError> {
        within("temperature", self.temperature, 0.0, MAX_TEMPERATURE)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        if !(self.repeat_penalty > 0.0 && self.repeat_penalty <= MAX_REPEAT) {
            let expected = format!("a number above 0 and at most {MAX_REPEAT}");
            return Err(wrong("repeat_penalty", self.repeat_penalty, expected));
        }
        within("frequency_penalty", self.frequency_penalty, -MAX_PENALTY, MAX_PENALTY)?;
        within("presence_penalty", self.presence_penalty, -MAX_PENALTY, MAX_PENALTY)?;
        for &(token, bias) in &self.logit_bias {
            if !(bias == f32::NEG_INFINITY || bias.abs() <= MAX_BIAS) {
                return Err(ParamError {
                    field: "logit_bias",
                    found: format!("{bias} for token {token}"),
                    expected: format!("-inf, or a number from -{MAX_BIAS} to {MAX_BIAS}"),
                });
            }
        }
        Ok(())
    }
}

fn wrong(field: &'static str, found: f32, expected: String) -> ParamError {
    ParamError { field, found: found.to_string(), expected }
}

/// Checks that `value` is a number from `low` to `high`.
fn within(field: &'static str, value: f32, low: f32, high: f32) -> Result<(), ParamError> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(wrong(field, value, format!("a number from {low} to {high}")))
    }
}
