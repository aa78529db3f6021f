//! The errors of sampling.

/// A parameter that is not a number or out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}, expected {expected}")]
pub struct ParamError {
    /// The field of [`SamplingParams`](super::SamplingParams), or `vocabulary`.
    pub field: &'static str,
    /// Its value.
    pub found: String,
    /// What is accepted.
    pub expected: String,
}

/// Why a step has no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// Another number of logits than the sampler was made for.
    #[error("step {step}: {found} logits, expected {expected}")]
    LogitCount {
        /// The step.
        step: u64,
        /// The size of the vocabulary.
        expected: usize,
        /// The logits given.
        found: usize,
    },
    /// A logit is NaN or positive infinity.
    #[error("step {step}: the logit of token {token} is {found}")]
    NonFinite {
        /// The step.
        step: u64,
        /// The first such token.
        token: u32,
        /// `NaN` or `inf`.
        found: &'static str,
    },
    /// Every logit is negative infinity.
    #[error("step {step}: no token is left: all logits are -inf")]
    AllMasked {
        /// The step.
        step: u64,
    },
    /// Logit bias bans every token that the logits leave.
    #[error("step {step}: no token is left: the logit bias bans all")]
    AllBanned {
        /// The step.
        step: u64,
    },
}
