//! The mixer of Mamba-2.

use cera_core::graph::ValueId;
use cera_quant::ops::{Activation, ConvForm, HeadScan, StateSpace};

use super::Decoder;
use crate::ModelError;
use crate::arch::params::Params;
use crate::arch::source::Source;

/// The sizes of a Mamba-2 mixer.
#[derive(Debug, Clone, Copy)]
pub(in crate::arch) struct Mamba2 {
    shape: StateSpace,
    /// Taps of the convolution.
    taps: usize,
}

impl Mamba2 {
    /// Reads them.
    pub(in crate::arch) fn read(source: &Source<'_>, params: &Params) -> Result<Mamba2, ModelError> {
        let size = |key: &str| -> Result<usize, ModelError> {
            Ok(source.meta().nonzero_u32(&format!("{{arch}}.ssm.{key}"))? as usize)
        };
        let (inner, heads, groups) = (size("inner_size")?, size("time_step_rank")?, size("group_count")?);
        if !inner.is_multiple_of(heads) || groups != 1 {
            return Err(source.unsupported(format!(
                "{inner} elements on {heads} heads in {groups} groups (ssm.inner_size, ssm.time_step_rank, \
                 ssm.group_count)"
            )));
        }
        let shape = StateSpace { heads, groups, head_dim: inner / heads, state_dim: size("state_size")? };
        let mamba = Mamba2 { shape, taps: size("conv_kernel")? };
        // The sizes that come from metadata alone are those of a tensor.
        if let Some(layer) = params.kv_heads.iter().position(|&kv| kv == 0) {
            let name = format!("blk.{layer}.ssm_in.weight");
            source.check_matrix(&name, (mamba.projected(), params.hidden))?;
        }
        Ok(mamba)
    }

    /// Elements of the projection of a token: the gate, what the convolution runs over, the time steps.
    fn projected(&self) -> usize {
        (self.shape.heads.saturating_add(self.shape.out_len()))
            .saturating_add(self.shape.out_len())
            .saturating_add(self.shape.state_dim.saturating_mul(2 * self.shape.groups))
    }
}

impl Decoder<'_, '_> {
    /// The mixer of Mamba-2, from the projection of `x` to that of the result.
    ///
    /// Source: Dao and Gu, "Transformers are SSMs", 2024, section 7.
    pub(in crate::arch) fn mamba2(&mut self, x: ValueId, mamba: &Mamba2) -> Result<ValueId, ModelError> {
        let (hidden, shape) = (self.params.hidden, mamba.shape);
        let (inner, channels) = (shape.out_len(), shape.row_len());
        let fused = Some(("ssm_in", mamba.projected()));
        let z = self.linear_rows("ssm_gate", fused, 0..inner, x)?;
        let xbc = self.linear_rows("ssm_xbc", fused, inner..inner + channels, x)?;
        let dt = self.linear_rows("ssm_dt", fused, inner + channels..mamba.projected(), x)?;
        let weight = self.taps("ssm_conv1d", (channels, mamba.taps))?;
        let bias = self.vector("ssm_conv1d.bias", channels)?;
        let xbc = self.g.conv("ssm_conv", xbc, (weight, Some(bias)), ConvForm::Silu)?;
        let by_head = |d: &mut Self, name: &str| -> Result<_, ModelError> {
            let values = d.source.table(&format!("blk.{}.{name}", d.layer), (shape.heads, 1))?;
            Ok(d.g.vector(values))
        };
        let a = by_head(self, "ssm_a")?;
        let skip = by_head(self, "ssm_d")?;
        let dt_bias = self.vector("ssm_dt.bias", shape.heads)?;
        let y = self.g.state_space("ssm_scan", (xbc, dt), shape, [a, dt_bias, skip])?;
        let y = self.g.gated("ssm_gated", (z, y), Activation::Silu)?;
        let y = self.norm_of("ssm_norm", "ssm_norm", y, inner)?;
        self.linear("ssm_out", y, (hidden, inner))
    }
}
