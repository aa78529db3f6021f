//! Granite 3: four multipliers: of the embedding, of what a layer adds to the residual stream, of attention scores, and, as
//! a divisor, of the logits.
//!
//! Source: Granite Team, "Granite 3.0 Language Models", 2024.

use cera_quant::ops::RopePairs;

use super::Blueprint;
use super::pre_norm::PreNorm;
use super::source::Source;
use crate::ModelError;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    let factor = |key| source.factor(key).map(|factor| factor.unwrap_or(1.0));
    // Granite's files say with this key whether heads are rotated at all.
    let rotated = source.meta().bool_or("{arch}.rope.scaling.finetuned", true)?;
    let layers = PreNorm {
        no_rope_interval: (!rotated).then_some(1),
        embedding_scale: factor("embedding_scale")?,
        residual_scale: factor("residual_scale")?,
        logit_scale: 1.0 / factor("logit_scale")?,
        ..PreNorm::new(RopePairs::Interleaved)
    };
    layers.build(source)
}
