//! Llama 2 and 3, SmolLM2, Mistral.
//!
//! Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023; Grattafiori et al., "The Llama 3
//! Herd of Models", 2024; Jiang et al., "Mistral 7B", 2023.

use cera_quant::ops::RopePairs;

use super::Blueprint;
use super::pre_norm::PreNorm;
use super::source::Source;
use crate::ModelError;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    PreNorm::new(RopePairs::Interleaved).build(source)
}
