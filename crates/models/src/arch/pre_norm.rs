//! Decoders of layers like Llama's, with one norm before attention and one before the feed-forward network.

use cera_quant::ops::{Activation, RopePairs};

use super::decoder::{Attention, Decoder, Experts, Mamba2, QkNorm, RoutingDefaults};
use super::params::Params;
use super::source::Source;
use super::{Blueprint, rope};
use crate::ModelError;

/// What such a decoder has of its own.
pub(super) struct PreNorm {
    /// Which elements of a head are rotated together.
    pub(super) pairs: RopePairs,
    /// How queries and keys are normalised.
    pub(super) qk_norm: QkNorm,
    /// Whether attention has a sink for every head.
    pub(super) sinks: bool,
    /// The layers from one without rotation to the next, if there are any.
    pub(super) no_rope_interval: Option<usize>,
    /// How experts are chosen; a model with experts is an error without it.
    pub(super) experts: Option<RoutingDefaults>,
    /// Whether layers without KV heads have a Mamba-2 mixer where the others have attention.
    pub(super) mamba2: bool,
    /// The layers from one that sees all positions to the next, if not all have the window that the file may state.
    pub(super) global_interval: Option<usize>,
    /// The norm before the feed-forward network.
    pub(super) ffn_norm: &'static str,
    /// The activation of the feed-forward network.
    pub(super) activation: Activation,
    /// The factor of the embedding.
    pub(super) embedding_scale: f32,
    /// The factor of what a layer adds to the residual stream.
    pub(super) residual_scale: f32,
    /// The factor of the logits.
    pub(super) logit_scale: f32,
}

impl PreNorm {
    /// A decoder without normalised queries and keys, with rotation in every layer and no factors.
    pub(super) fn new(pairs: RopePairs) -> PreNorm {
        PreNorm {
            pairs,
            qk_norm: QkNorm::None,
            sinks: false,
            no_rope_interval: None,
            experts: None,
            mamba2: false,
            global_interval: None,
            ffn_norm: "ffn_norm",
            activation: Activation::Silu,
            embedding_scale: 1.0,
            residual_scale: 1.0,
            logit_scale: 1.0,
        }
    }

    /// Builds the graph.
    pub(super) fn build(&self, source: &Source<'_>) -> Result<Blueprint, ModelError> {
        let params = Params::read(source)?;
        let mamba2 = match self.mamba2 {
            true => Some(Mamba2::read(source, &params)?),
            false => {
                params.expect_attention(source)?;
                None
            }
        };
        let experts = match self.experts {
            Some(defaults) => Experts::read(source, defaults)?,
            None => {
                source.expect_dense()?;
                None
            }
        };
        let mut d = Decoder::new(source, &params);
        let mut x = d.embed(self.embedding_scale)?;
        let rope = d.rope(rope::embedding(source, &params, self.pairs)?)?;
        let windows = match self.global_interval {
            Some(interval) => params.windows(source, interval)?,
            None => vec![params.window; params.layers],
        };
        for (layer, window) in windows.into_iter().enumerate() {
            let rotated = self.no_rope_interval.is_none_or(|interval| (layer + 1) % interval != 0);
            let rope = rotated.then_some(rope);
            let attention = Attention { rope, window, qk_norm: self.qk_norm, sinks: self.sinks };
            d.begin(layer);
            let h = d.norm("attn_norm", x)?;
            let y = match &mamba2 {
                Some(mamba2) if params.kv_heads[layer] == 0 => d.mamba2(h, mamba2)?,
                _ => d.attention(h, &attention)?,
            };
            let y = d.scale("attn_scaled", y, self.residual_scale);
            let after = d.add("attn_residual", x, y)?;
            let h = d.norm(self.ffn_norm, after)?;
            let y = d.feed_forward_of(h, experts.as_ref(), self.activation)?;
            let y = d.scale("ffn_scaled", y, self.residual_scale);
            x = d.end(after, y)?;
        }
        d.finish(x, "output_norm", self.logit_scale)
    }
}
