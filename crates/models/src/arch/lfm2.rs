//! LFM2: most layers have a gated short convolution where the others have attention; those without KV heads are of the
//! former kind. LFM2-MoE has experts after its first layers.
//!
//! Source: Liquid AI, "LFM2 Technical Report", 2025.

use cera_quant::ops::{Activation, RopePairs, Scores};

use super::decoder::{Attention, Decoder, Experts, QkNorm, RoutingDefaults};
use super::params::Params;
use super::source::Source;
use super::{Blueprint, rope};
use crate::ModelError;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    let params = Params::read(source)?;
    let taps = source.meta().nonzero_u32("{arch}.shortconv.l_cache")? as usize;
    let routing = RoutingDefaults { scores: Scores::Sigmoid, normalised: true, eps: 1e-6 };
    let experts = Experts::read(source, routing)?;
    let mut d = Decoder::new(source, &params);
    let mut x = d.embed(1.0)?;
    let rope = d.rope(rope::embedding(source, &params, RopePairs::Half)?)?;
    let attention =
        Attention { rope: Some(rope), window: params.window, qk_norm: QkNorm::Heads, sinks: false };
    for layer in 0..params.layers {
        d.begin(layer);
        let h = d.norm("attn_norm", x)?;
        let y = match params.kv_heads[layer] {
            0 => d.short_conv(h, taps)?,
            _ => d.attention(h, &attention)?,
        };
        let after = d.add("operator_residual", x, y)?;
        let h = d.norm("ffn_norm", after)?;
        let y = d.feed_forward_of(h, experts.as_ref(), Activation::Silu)?;
        x = d.end(after, y)?;
    }
    d.finish(x, "token_embd_norm", 1.0)
}
