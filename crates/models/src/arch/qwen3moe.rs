//! Qwen3 with a mixture of experts in every layer.
//!
//! Source: Yang et al., "Qwen3 Technical Report", 2025.

use cera_quant::ops::{RopePairs, Scores};

use super::Blueprint;
use super::decoder::{QkNorm, RoutingDefaults};
use super::pre_norm::PreNorm;
use super::source::Source;
use crate::ModelError;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    let experts = RoutingDefaults { scores: Scores::Softmax, normalised: true, eps: 0.0 };
    let layers = PreNorm { qk_norm: QkNorm::Heads, experts: Some(experts), ..PreNorm::new(RopePairs::Half) };
    layers.build(source)
}
