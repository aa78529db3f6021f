//! Gemma 3: norms before and after attention and the feed-forward network, five layers with a sliding window for each that
//! sees all positions, with frequencies of their own, and an embedding times the root of its width.
//!
//! Source: Gemma Team, "Gemma 3 Technical Report", 2025. The files add the 1 of Gemma's norms to the weights.

use cera_quant::ops::{Activation, RopePairs};

use super::decoder::{Attention, Decoder, QkNorm};
use super::params::Params;
use super::source::Source;
use super::{Blueprint, rope};
use crate::ModelError;

/// The layers from one that sees all positions to the next.
const GLOBAL_INTERVAL: usize = 6;

/// The base of the rotary embedding of layers with a window, where the file does not state it.
const LOCAL_BASE: f32 = 10_000.0;

/// The number of layers of the 27B model, whose scores are scaled by the width of the residual stream per head; its files do
/// not say so.
const LAYERS_27B: usize = 62;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    let mut params = Params::read(source)?;
    params.expect_attention(source)?;
    if params.layers == LAYERS_27B && !source.meta().has("{arch}.attention.scale")? {
        params.scale = 1.0 / ((params.hidden / params.heads[0] as usize) as f32).sqrt();
    }
    let windows = params.windows(source, GLOBAL_INTERVAL)?;
    let mut d = Decoder::new(source, &params);
    let mut x = d.embed((params.hidden as f32).sqrt())?;
    let global = d.rope(rope::embedding(source, &params, RopePairs::Half)?)?;
    let local = match params.window {
        Some(_) => d.rope(rope::of_windows(source, &params, (LOCAL_BASE, RopePairs::Half))?)?,
        None => global,
    };
    for (layer, &window) in windows.iter().enumerate() {
        let rope = Some(if window.is_some() { local } else { global });
        let attention = Attention { rope, window, qk_norm: QkNorm::Heads, sinks: false };
        d.begin(layer);
        let h = d.norm("attn_norm", x)?;
        let y = d.attention(h, &attention)?;
        let y = d.norm("post_attention_norm", y)?;
        let after = d.add("attn_residual", x, y)?;
        let h = d.norm("ffn_norm", after)?;
        let y = d.feed_forward(h, Activation::GeluTanh)?;
        let y = d.norm("post_ffw_norm", y)?;
        x = d.end(after, y)?;
    }
    d.finish(x, "output_norm", 1.0)
}
