//! gpt-oss: experts with biases and a clamped activation in every layer, attention sinks, a window in every other layer.
//!
//! Source: OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025.

use cera_quant::ops::{Activation, RopePairs, Scores};

use super::Blueprint;
use super::decoder::RoutingDefaults;
use super::pre_norm::PreNorm;
use super::source::Source;
use crate::ModelError;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    const WINDOWED_BASE: &str = "rope.freq_base_swa";
    if source.factor(WINDOWED_BASE)?.is_some() {
        return Err(source.unsupported(WINDOWED_BASE));
    }
    let layers = PreNorm {
        sinks: true,
        experts: Some(RoutingDefaults { scores: Scores::ChosenSoftmax, normalised: false, eps: 0.0 }),
        global_interval: Some(2),
        ffn_norm: "post_attention_norm",
        activation: Activation::ClampedSilu,
        ..PreNorm::new(RopePairs::Half)
    };
    layers.build(source)
}
