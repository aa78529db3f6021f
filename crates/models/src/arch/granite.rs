//! Granite 3: four multipliers: of the embedding, of what a layer adds to the residual stream, of attention scores, and, as
//! a divisor, of the logits. Granite 4 has them too.
//!
//! Source: Granite Team, "Granite 3.0 Language Models", 2024.

use cera_quant::ops::{RopePairs, Scores};

use super::Blueprint;
use super::decoder::RoutingDefaults;
use super::pre_norm::PreNorm;
use super::source::Source;
use crate::ModelError;

/// Builds the graph of Granite 3.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    layers(source)?.build(source)
}

/// Builds the graph of a hybrid of Granite 4: layers without KV heads have a Mamba-2 mixer, and there may be experts.
pub(super) fn build_hybrid(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    let experts = RoutingDefaults { scores: Scores::Softmax, normalised: true, eps: 0.0 };
    PreNorm { mamba2: true, experts: Some(experts), ..layers(source)? }.build(source)
}

fn layers(source: &Source<'_>) -> Result<PreNorm, ModelError> {
    let factor = |key| source.factor(key).map(|factor| factor.unwrap_or(1.0));
    // Granite's files say with this key whether heads are rotated at all.
    let rotated = source.meta().bool_or("{arch}.rope.scaling.finetuned", true)?;
    Ok(PreNorm {
        no_rope_interval: (!rotated).then_some(1),
        embedding_scale: factor("embedding_scale")?,
        residual_scale: factor("residual_scale")?,
        logit_scale: 1.0 / factor("logit_scale")?,
        ..PreNorm::new(RopePairs::Interleaved)
    })
}
