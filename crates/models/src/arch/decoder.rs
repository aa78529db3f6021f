//! The parts that the layers of a decoder are put together from.

mod delta_net;
mod experts;
mod latent;
mod mamba;

use std::ops::Range;

use cera_core::graph::{AttentionInfo, Columns, GraphBuilder, RopeId, RopeInfo, ValueId, VectorId};
use cera_quant::kv::KvShape;
use cera_quant::ops::{Activation, ConvForm, Pointwise};

pub(super) use self::delta_net::DeltaNet;
pub(super) use self::experts::{Experts, RoutingDefaults};
pub(super) use self::latent::Latent;
pub(super) use self::mamba::Mamba2;
use super::Blueprint;
use super::params::Params;
use super::source::Source;
use crate::ModelError;

/// Whether queries and keys are normalised before they are rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QkNorm {
    /// They are not.
    None,
    /// Every head by itself, with one weight per element of a head.
    Heads,
    /// All heads of a token together.
    Rows,
}

/// The attention of a layer, besides what [`Params`] say of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attention {
    /// How queries and keys are rotated; not at all without one.
    pub(super) rope: Option<RopeId>,
    /// How many positions a token sees; all of them without a number.
    pub(super) window: Option<usize>,
    /// How queries and keys are normalised.
    pub(super) qk_norm: QkNorm,
    /// Whether there is a sink for every head.
    pub(super) sinks: bool,
}

/// A graph as its layers are added one by one.
///
/// Tensors are looked up by the names of the GGUF specification. A weight may have a bias; the matrices of queries, keys and
/// values may be one tensor (`attn_qkv`), and so may those of gate and factor (`ffn_up`). The residual stream before layer 0
/// is called `hidden.0`, that after layer `i` is `hidden.{i + 1}`.
pub(super) struct Decoder<'a, 'f> {
    source: &'a Source<'f>,
    params: &'a Params,
    g: GraphBuilder,
    layer: usize,
}

impl<'a, 'f> Decoder<'a, 'f> {
    /// A graph without layers.
    pub(super) fn new(source: &'a Source<'f>, params: &'a Params) -> Decoder<'a, 'f> {
        Decoder { source, params, g: GraphBuilder::new(), layer: 0 }
    }

    /// Adds a rotary embedding.
    pub(super) fn rope(&mut self, rope: RopeInfo) -> Result<RopeId, ModelError> {
        Ok(self.g.rope_frequencies(rope)?)
    }

    /// The rows of the embedding by token id, times `scale`.
    pub(super) fn embed(&mut self, scale: f32) -> Result<ValueId, ModelError> {
        const EMBEDDING: &str = "token_embd.weight";
        let vocabulary = self.source.rows(EMBEDDING)?;
        let table = self.source.matrix(&mut self.g, EMBEDDING, (vocabulary, self.params.hidden))?;
        let x = self.g.embed(if scale == 1.0 { "hidden.0" } else { "embedding" }, table);
        Ok(self.g.scale("hidden.0", x, scale))
    }

    /// Begins a layer.
    pub(super) fn begin(&mut self, layer: usize) {
        self.layer = layer;
        self.g.scope(&format!("blk.{layer}"));
    }

    /// Ends the layer: `x + y` is the residual stream after it.
    pub(super) fn end(&mut self, x: ValueId, y: ValueId) -> Result<ValueId, ModelError> {
        self.g.scope("");
        Ok(self.g.add(&format!("hidden.{}", self.layer + 1), x, y)?)
    }

    /// RMS normalisation of rows as wide as the residual stream.
    pub(super) fn norm(&mut self, name: &str, x: ValueId) -> Result<ValueId, ModelError> {
        self.norm_of(name, name, x, self.params.hidden)
    }

    /// `x + y`
    pub(super) fn add(&mut self, name: &str, x: ValueId, y: ValueId) -> Result<ValueId, ModelError> {
        Ok(self.g.add(name, x, y)?)
    }

    /// `factor * x`
    pub(super) fn scale(&mut self, name: &str, x: ValueId, factor: f32) -> ValueId {
        self.g.scale(name, x, factor)
    }

    /// Softmax attention, from the projections of `x` to that of the result.
    pub(super) fn attention(&mut self, x: ValueId, attention: &Attention) -> Result<ValueId, ModelError> {
        let p = self.params;
        let (heads, kv_heads) = (p.heads[self.layer] as usize, p.kv_heads[self.layer] as usize);
        let [q_width, k_width, v_width] = p.qkv_widths(self.layer);
        let (q, k, v) =
            (0..q_width, q_width..q_width + k_width, q_width + k_width..q_width + k_width + v_width);
        let fused = self.fused("attn_qkv", v.end);
        let q = self.linear_rows("attn_q", fused, q, x)?;
        let k = self.linear_rows("attn_k", fused, k, x)?;
        let v = self.linear_rows("attn_v", fused, v, x)?;
        let (q, gate) = if p.query_gates { self.split_gates(q, heads)? } else { (q, None) };
        let (q, k) = match attention.qk_norm {
            QkNorm::None => (q, k),
            QkNorm::Heads => (
                self.norm_of("q_norm", "attn_q_norm", q, p.k_dim)?,
                self.norm_of("k_norm", "attn_k_norm", k, p.k_dim)?,
            ),
            QkNorm::Rows => (
                self.norm_of("q_norm", "attn_q_norm", q, heads * p.k_dim)?,
                self.norm_of("k_norm", "attn_k_norm", k, k_width)?,
            ),
        };
        let (q, k) = match attention.rope {
            Some(rope) => (self.g.rope("q_rope", q, rope)?, self.g.rope("k_rope", k, rope)?),
            None => (q, k),
        };
        let shape = KvShape { heads: kv_heads, k_dim: p.k_dim, v_dim: p.v_dim };
        let state = self.g.kv_state(shape, attention.window);
        let sinks = match attention.sinks {
            true => Some(self.vector("attn_sinks.weight", heads)?),
            false => None,
        };
        let info = AttentionInfo { state, scale: p.scale, soft_cap: p.score_cap, sinks };
        let context = self.g.attention("attention", (q, k, v), info)?;
        let context = match gate {
            Some(gate) => self.g.gated("attn_gated", (gate, context), Activation::Sigmoid)?,
            None => context,
        };
        self.linear("attn_output", context, (p.hidden, heads * p.v_dim))
    }

    /// The queries of all heads and the gates of their results, which stand head by head.
    fn split_gates(&mut self, q: ValueId, heads: usize) -> Result<(ValueId, Option<ValueId>), ModelError> {
        let len = self.params.k_dim;
        let mut columns = |name: &str, first: usize| {
            self.g.columns(name, q, Columns { first, len, stride: 2 * len, count: heads })
        };
        Ok((columns("q", 0)?, Some(columns("q_gate", len)?)))
    }

    /// The gated short convolution, from the projection of `x` to that of the result.
    pub(super) fn short_conv(&mut self, x: ValueId, taps: usize) -> Result<ValueId, ModelError> {
        let hidden = self.params.hidden;
        let x = self.linear("shortconv.in_proj", x, (3 * hidden, hidden))?;
        let weight = self.taps("shortconv.conv", (hidden, taps))?;
        let y = self.g.conv("shortconv", x, (weight, None), ConvForm::Gated)?;
        self.linear("shortconv.out_proj", y, (hidden, hidden))
    }

    /// The gated feed-forward network.
    pub(super) fn feed_forward(&mut self, x: ValueId, activation: Activation) -> Result<ValueId, ModelError> {
        let (hidden, width) = (self.params.hidden, self.params.feed_forward[self.layer] as usize);
        let fused = match self.has("ffn_gate") {
            true => None,
            false => self.fused("ffn_up", 2 * width),
        };
        let gate = self.linear_rows("ffn_gate", fused, 0..width, x)?;
        let up = self.linear_rows("ffn_up", fused, width..2 * width, x)?;
        let act = self.g.gated("ffn_act", (gate, up), activation)?;
        self.linear("ffn_down", act, (hidden, width))
    }

    /// The finished graph: the norm with this tensor, then the head, which is the embedding where the file has none, then a factor of
    /// the logits, which are capped last.
    pub(super) fn finish(mut self, x: ValueId, norm: &str, scale: f32) -> Result<Blueprint, ModelError> {
        let p = self.params;
        let x = self.g.select_outputs("output_rows", x)?;
        let weight = self.source.vector(&mut self.g, &format!("{norm}.weight"), p.hidden)?;
        let x = self.g.rms_norm("output_norm", x, weight, p.eps)?;
        let head = if self.source.has("output.weight") { "output.weight" } else { "token_embd.weight" };
        let vocabulary = self.source.rows("token_embd.weight")?;
        let weight = self.source.matrix(&mut self.g, head, (vocabulary, p.hidden))?;
        let bias = self.source.vector_opt(&mut self.g, "output.bias", 0..vocabulary, vocabulary)?;
        // The last of the three is called `logits`.
        let capped = p.logit_cap.is_some();
        let name = if capped || scale != 1.0 { "head" } else { "logits" };
        let logits = self.g.linear(name, x, weight, bias)?;
        let logits = self.g.scale(if capped { "scaled_logits" } else { "logits" }, logits, scale);
        let logits = match p.logit_cap {
            Some(cap) => self.g.pointwise("logits", logits, Pointwise::SoftCap(cap)),
            None => logits,
        };
        Ok(Blueprint { graph: self.g.finish(logits)?, context_length: p.context_length })
    }

    /// `x` times the matrix `name` of the layer, of `m` rows of `k` elements.
    pub(super) fn linear(
        &mut self,
        name: &str,
        x: ValueId,
        (m, k): (usize, usize),
    ) -> Result<ValueId, ModelError> {
        self.linear_of((name, name), 0..m, (m, k), x)
    }

    /// Whether the layer has this matrix.
    fn has(&self, name: &str) -> bool {
        self.source.has(&self.tensor(name, "weight"))
    }

    /// The tensor that holds several matrices and its rows, if the layer has it.
    fn fused<'n>(&self, name: &'n str, rows: usize) -> Option<(&'n str, usize)> {
        self.has(name).then_some((name, rows))
    }

    /// `x` times the matrix `name`, or times its rows of the tensor that holds several.
    fn linear_rows(
        &mut self,
        name: &str,
        fused: Option<(&str, usize)>,
        rows: Range<usize>,
        x: ValueId,
    ) -> Result<ValueId, ModelError> {
        let k = self.params.hidden;
        match fused {
            Some((tensor, all)) => self.linear_of((name, tensor), rows, (all, k), x),
            None => self.linear(name, x, (rows.len(), k)),
        }
    }

    /// `x` times rows of a tensor of `m` rows of `k` elements.
    fn linear_of(
        &mut self,
        (name, tensor): (&str, &str),
        rows: Range<usize>,
        (m, k): (usize, usize),
        x: ValueId,
    ) -> Result<ValueId, ModelError> {
        let (weight, bias) = (self.tensor(tensor, "weight"), self.tensor(tensor, "bias"));
        let weight = self.source.matrix_rows(&mut self.g, &weight, rows.clone(), (m, k))?;
        let bias = self.source.vector_opt(&mut self.g, &bias, rows, m)?;
        Ok(self.g.linear(name, x, weight, bias)?)
    }

    fn norm_of(&mut self, name: &str, tensor: &str, x: ValueId, len: usize) -> Result<ValueId, ModelError> {
        let weight = self.vector(&format!("{tensor}.weight"), len)?;
        Ok(self.g.rms_norm(name, x, weight, self.params.eps)?)
    }

    /// The weights of a convolution, which files have channel by channel.
    fn taps(&mut self, name: &str, (channels, taps): (usize, usize)) -> Result<VectorId, ModelError> {
        let by_channel = self.source.table(&self.tensor(name, "weight"), (channels, taps))?;
        let by_tap = (0..taps).flat_map(|tap| by_channel.iter().skip(tap).step_by(taps).copied());
        Ok(self.g.vector(by_tap.collect()))
    }

    /// The vector `name` of the layer.
    fn vector(&mut self, name: &str, len: usize) -> Result<VectorId, ModelError> {
        self.source.vector(&mut self.g, &format!("blk.{}.{name}", self.layer), len)
    }

    /// The full name of a tensor of the layer.
    fn tensor(&self, name: &str, suffix: &str) -> String {
        format!("blk.{}.{name}.{suffix}", self.layer)
    }
}
