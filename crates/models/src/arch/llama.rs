//! Llama 2 and 3, SmolLM2, Mistral, Mixtral.
//!
//! Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023; Grattafiori et al., "The Llama 3
//! Herd of Models", 2024; Jiang et al., "Mistral 7B", 2023, and "Mixtral of Experts", 2024.

use cera_quant::ops::{RopePairs, Scores};

use super::Blueprint;
use super::decoder::RoutingDefaults;
use super::pre_norm::PreNorm;
use super::source::Source;
use crate::ModelError;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    let experts = RoutingDefaults { scores: Scores::Softmax, normalised: true, eps: 0.0 };
    PreNorm { experts: Some(experts), ..PreNorm::new(RopePairs::Interleaved) }.build(source)
}
