//! DeepSeek-V2 and V3: latent attention, and after the first layers experts with a shared one.
//!
//! Source: DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model", 2024, and
//! "DeepSeek-V3 Technical Report", 2024.

use cera_quant::ops::{Activation, RopePairs, Scores};

use super::decoder::{Decoder, Experts, Latent, RoutingDefaults};
use super::params::Params;
use super::source::Source;
use super::{Blueprint, rope};
use crate::ModelError;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    let params = Params::read(source)?;
    params.expect_attention(source)?;
    const TEMPERATURE: &str = "attention.temperature_scale";
    if source.meta().has(&format!("{{arch}}.{TEMPERATURE}"))? {
        return Err(source.unsupported(TEMPERATURE));
    }
    let latent = Latent::read(source, &params)?;
    let routing = RoutingDefaults { scores: Scores::Softmax, normalised: false, eps: 1e-20 };
    let experts = Experts::read(source, routing)?;
    let mut d = Decoder::new(source, &params);
    let mut x = d.embed(1.0)?;
    let (rope, factor) = rope::of_whole_heads(source, &params, RopePairs::Interleaved)?;
    let rope = d.rope(rope)?;
    let scale = factor / (latent.head_dim() as f32).sqrt();
    for layer in 0..params.layers {
        d.begin(layer);
        let h = d.norm("attn_norm", x)?;
        let y = d.latent_attention(h, &latent, (rope, scale))?;
        let after = d.add("attn_residual", x, y)?;
        let h = d.norm("ffn_norm", after)?;
        let y = d.feed_forward_of(h, experts.as_ref(), Activation::Silu)?;
        x = d.end(after, y)?;
    }
    d.finish(x, "output_norm", 1.0)
}
