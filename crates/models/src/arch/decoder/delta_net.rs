//! Linear attention by the gated delta rule, in place of softmax attention.

use cera_core::graph::{Columns, ValueId};
use cera_quant::ops::{Activation, ConvForm, DeltaRule, DeltaShape, HeadOrder, HeadScan, QkNorm};

use super::Decoder;
use crate::ModelError;
use crate::arch::source::Source;

/// Added to the sum of the squares of queries and keys.
const EPS: f32 = 1e-6;

/// The linear attention of a model's layers.
#[derive(Debug, Clone, Copy)]
pub(in crate::arch) struct DeltaNet {
    shape: DeltaShape,
    /// Taps of the convolution over queries, keys and values.
    taps: usize,
}

impl DeltaNet {
    /// Reads it.
    pub(in crate::arch) fn read(source: &Source<'_>, order: HeadOrder) -> Result<DeltaNet, ModelError> {
        let size = |key: &str| -> Result<usize, ModelError> {
            Ok(source.meta().nonzero_u32(&format!("{{arch}}.ssm.{key}"))? as usize)
        };
        let (k_heads, v_heads) = (size("group_count")?, size("time_step_rank")?);
        let (k_dim, inner) = (size("state_size")?, size("inner_size")?);
        // Tensors bound the widths, once these are numbers.
        let keys = k_heads.checked_mul(2).and_then(|heads| heads.checked_mul(k_dim));
        let fits = keys.and_then(|keys| inner.checked_mul(2)?.checked_add(keys)).is_some();
        if !fits || !v_heads.is_multiple_of(k_heads) || !inner.is_multiple_of(v_heads) {
            return Err(source.unsupported(format!(
                "{v_heads} heads of {inner} elements on {k_heads} key heads of {k_dim} (ssm.time_step_rank, \
                 ssm.inner_size, ssm.group_count, ssm.state_size)"
            )));
        }
        let shape = DeltaShape { k_heads, v_heads, k_dim, v_dim: inner / v_heads, order };
        Ok(DeltaNet { shape, taps: size("conv_kernel")? })
    }
}

impl Decoder<'_, '_> {
    /// Linear attention, from the projections of `x` to that of the result.
    ///
    /// Tensors: `attn_qkv` gives queries, keys and values, over which `ssm_conv1d` goes, and `attn_gate` the gate of the
    /// normalised result, or `ssm_in` all of these; what decay and correction come from is one tensor, `ssm_ba`, or two, `ssm_alpha` and `ssm_beta`.
    pub(in crate::arch) fn delta_net(&mut self, x: ValueId, net: &DeltaNet) -> Result<ValueId, ModelError> {
        let (shape, hidden) = (net.shape, self.params.hidden);
        let (width, out_width) = (shape.row_len(), shape.out_len());
        let (qkv, z) = match self.has("ssm_in") {
            true => self.packed_inputs(x, &shape)?,
            false => (
                self.linear("attn_qkv", x, (width, hidden))?,
                self.linear("attn_gate", x, (out_width, hidden))?,
            ),
        };
        let (a, b) = match self.has("ssm_ba") {
            true => self.packed_gates(x, &shape)?,
            false => (
                self.linear("ssm_alpha", x, (shape.v_heads, hidden))?,
                self.linear("ssm_beta", x, (shape.v_heads, hidden))?,
            ),
        };
        let weight = self.taps("ssm_conv1d", (width, net.taps))?;
        let bias = self.tensor("ssm_conv1d", "bias");
        let bias = self.source.vector_opt(&mut self.g, &bias, 0..width, width)?;
        let qkv = self.g.conv("ssm_conv", qkv, (weight, bias), ConvForm::Silu)?;
        let decay = self.vector("ssm_a", shape.v_heads)?;
        let step = self.vector("ssm_dt.bias", shape.v_heads)?;
        let q_scale = 1.0 / (shape.k_dim as f32).sqrt();
        let rule = DeltaRule { shape, norm: QkNorm::L2 { eps: EPS }, q_scale, k_scale: 1.0 };
        let y = self.g.delta_rule("delta_rule", (qkv, a, b), rule, (decay, step))?;
        let y = self.norm_of("ssm_norm", "ssm_norm", y, shape.v_dim)?;
        let y = self.g.gated("ssm_gated", (z, y), Activation::Silu)?;
        self.linear("ssm_out", y, (hidden, out_width))
    }

    /// Queries, keys and values, and the gate of the result, which stand by key head: its query and key, then the values and
    /// the gates of its heads of values.
    fn packed_inputs(&mut self, x: ValueId, shape: &DeltaShape) -> Result<(ValueId, ValueId), ModelError> {
        let (count, dim) = (shape.k_heads, shape.k_dim);
        let values = shape.out_len() / count;
        let stride = 2 * (dim + values);
        let all = self.linear("ssm_in", x, (count * stride, self.params.hidden))?;
        let of = |first: usize, len: usize| Columns { first, len, stride, count };
        let qkv = self.g.gather("attn_qkv", all, [of(0, dim), of(dim, dim), of(2 * dim, values)])?;
        Ok((qkv, self.g.columns("attn_gate", all, of(2 * dim + values, values))?))
    }

    /// What decay and correction come from, which stand by key head: first all of its corrections, then its decays.
    fn packed_gates(&mut self, x: ValueId, shape: &DeltaShape) -> Result<(ValueId, ValueId), ModelError> {
        let ba = self.linear("ssm_ba", x, (2 * shape.v_heads, self.params.hidden))?;
        let len = shape.v_heads / shape.k_heads;
        let mut columns = |name: &str, first: usize| {
            self.g.columns(name, ba, Columns { first, len, stride: 2 * len, count: shape.k_heads })
        };
        Ok((columns("ssm_alpha", len)?, columns("ssm_beta", 0)?))
    }
}
