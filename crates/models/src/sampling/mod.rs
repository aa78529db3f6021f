//! From logits to the next token.
//!
//! A step goes through these stages, in llama.cpp's order. Each is off at its neutral value, and none is ever skipped
//! because another one is set.
//!
//! 1. **Logit bias**: `bias` is added; negative infinity bans the token.
//! 2. **Penalties**, for a token that occurs `c > 0` times among the last [`penalty_window`] tokens: a positive logit is
//!    divided by [`repeat_penalty`] and any other multiplied by it; then `c * frequency_penalty + presence_penalty` is
//!    subtracted. The window holds the tokens given to [`Sampler::accept`] (the prompt) and those that were sampled.
//! 3. **Greedy**: with [`temperature`] 0 the highest logit is the choice, the lowest id among equals. Bias and penalties
//!    have been applied, because who sets them asks for it; all are neutral by default, so that temperature 0 alone is the
//!    plain argmax. No random number is drawn, and the stages below have no effect.
//! 4. **Top-k**: the [`top_k`] highest logits stay, lower ids first among equals.
//! 5. **Top-p**: of these, at temperature 1, the fewest that reach the probability [`top_p`] stay, in the same order; at
//!    least one.
//! 6. **Min-p**: those stay that are at least [`min_p`] times as probable, at temperature 1, as the best.
//! 7. **Temperature**: the logits of those left are divided by it.
//! 8. **Draw**: one number per step, whatever is left, from ChaCha8 keyed with the seed (eight little-endian bytes, then
//!    zeros).
//!
//! Log-probabilities are those of the *model*: the logarithm of the softmax of the logits as they came in, before any
//! stage.
//!
//! Logits that are NaN or positive infinity are an error; negative infinity masks a token.
//!
//! The same logits, parameters and seed give the same tokens and the same bits of log-probabilities on every platform:
//! scores are f64 and only added, multiplied and divided, `exp` is [`cera_quant::num::math::exp`] of the difference to the
//! highest score, sums are f64 in the order of ids, and the logarithm is the one of the `libm` crate.
//!
//! [`penalty_window`]: SamplingParams::penalty_window
//! [`repeat_penalty`]: SamplingParams::repeat_penalty
//! [`temperature`]: SamplingParams::temperature
//! [`top_k`]: SamplingParams::top_k
//! [`top_p`]: SamplingParams::top_p
//! [`min_p`]: SamplingParams::min_p

mod candidates;
mod error;
mod params;
mod penalties;
mod sampler;

pub(crate) use candidates::{distance, mass};
pub use error::{ParamError, SampleError};
pub use params::SamplingParams;
pub use sampler::{Choice, Sampler};

#[cfg(test)]
mod tests;
