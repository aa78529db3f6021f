//! Qwen2 and Qwen2.5: biases of queries, keys and values, which the tensors of the file say.
//!
//! Source: Yang et al., "Qwen2 Technical Report", 2024.

use cera_quant::ops::RopePairs;

use super::Blueprint;
use super::pre_norm::PreNorm;
use super::source::Source;
use crate::ModelError;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    PreNorm::new(RopePairs::Half).build(source)
}
