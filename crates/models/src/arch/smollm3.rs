//! SmolLM3: every fourth layer is without rotation.
//!
//! Source: Bakouch et al., "SmolLM3: smol, multilingual, long-context reasoner", 2025; Yang et al., "Rope to Nope and Back
//! Again: A New Hybrid Attention Strategy", 2025.

use cera_quant::ops::RopePairs;

use super::Blueprint;
use super::pre_norm::PreNorm;
use super::source::Source;
use crate::ModelError;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    PreNorm { no_rope_interval: Some(4), ..PreNorm::new(RopePairs::Interleaved) }.build(source)
}
