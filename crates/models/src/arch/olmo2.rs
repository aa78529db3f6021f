//! OLMo 2, and OLMo 3 in the same form: the norms come after attention and after the feed-forward network, queries and keys
//! are normalised over all heads. In OLMo 3 three of four layers have a sliding window and frequencies that are not
//! stretched.
//!
//! Source: OLMo Team, "2 OLMo 2 Furious", 2024; OLMo Team, "Olmo 3", 2025.

use cera_quant::ops::{Activation, RopePairs};

use super::decoder::{Attention, Decoder, QkNorm};
use super::params::Params;
use super::source::Source;
use super::{Blueprint, rope};
use crate::ModelError;

/// The layers from one that sees all positions to the next.
const GLOBAL_INTERVAL: usize = 4;

/// Builds the graph.
pub(super) fn build(source: &Source<'_>) -> Result<Blueprint, ModelError> {
    let params = Params::read(source)?;
    params.expect_attention(source)?;
    let windows = params.windows(source, GLOBAL_INTERVAL)?;
    let mut d = Decoder::new(source, &params);
    let mut x = d.embed(1.0)?;
    let global = d.rope(rope::embedding(source, &params, RopePairs::Half)?)?;
    let local = match params.window {
        Some(_) => d.rope(rope::of_windows(source, &params, (rope::base(source)?, RopePairs::Half))?)?,
        None => global,
    };
    for (layer, &window) in windows.iter().enumerate() {
        let rope = Some(if window.is_some() { local } else { global });
        let attention = Attention { rope, window, qk_norm: QkNorm::Rows, sinks: false };
        d.begin(layer);
        let y = d.attention(x, &attention)?;
        let y = d.norm("post_attention_norm", y)?;
        let after = d.add("attn_residual", x, y)?;
        let y = d.feed_forward(after, Activation::Silu)?;
        let y = d.norm("post_ffw_norm", y)?;
        x = d.end(after, y)?;
    }
    d.finish(x, "output_norm", 1.0)
}
