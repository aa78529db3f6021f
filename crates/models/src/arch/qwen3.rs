//! Qwen3: the heads of queries and keys are normalised, and their width is apart from that of the residual stream.
//!
//! Source: Yang et al., "Qwen3 Technical Report", 2025.

use cera_quant::ops::RopePairs;

use super::Blueprint;
use super::decoder::QkNorm;
use super::pre_norm::PreNorm;
use super::source::Source;
use crate::ModelError;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    PreNorm { qk_norm: QkNorm::Heads, ..PreNorm::new(RopePairs::Half) }.build(source)
}
