//! Phi-3, Phi-3.5 and Phi-4-mini: one matrix for queries, keys and values and one for gate and factor, heads that are rotated
//! in part, and other frequencies for long contexts, all of which the file says.
//!
//! Source: Abdin et al., "Phi-3 Technical Report: A Highly Capable Language Model Locally on Your Phone", 2024.

use cera_quant::ops::RopePairs;

use super::Blueprint;
use super::pre_norm::PreNorm;
use super::source::Source;
use crate::ModelError;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    PreNorm::new(RopePairs::Half).build(source)
}
