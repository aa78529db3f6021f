//! The types of kernels, and what a tier exports.

use crate::Format;
use crate::acts::ActFormat;
use crate::args::GemmArgs;
use crate::kv::{AppendArgs, Q8Unit};
use crate::ops::{
    AddArgs, AddScaledArgs, AttentionArgs, ConvArgs, DeltaRuleArgs, GatedArgs, LayerNormArgs, MergeArgs,
    PointwiseArgs, RmsNormArgs, RopeArgs, RouteArgs, StateSpaceArgs,
};

/// A matrix kernel.
///
/// # Safety
/// - The machine has every feature of the kernel's tier.
///
/// # Panics
/// If [`GemmArgs::check`] fails or the weights have another format than the kernel's.
pub type MatrixFn = for<'a> unsafe fn(&GemmArgs<'a>);

/// A quantizer of one column tile, as [`quantize_tile`](crate::acts::quantize_tile): rows, elements per row, records.
///
/// # Safety
/// - The machine has every feature of the kernel's tier.
///
/// # Panics
/// If the lengths do not fit.
pub type QuantizeFn = unsafe fn(&[f32], usize, &mut [u8]);

/// The f32 operations of a tier, which have the bits of [`scalar::ops`](crate::scalar::ops).
///
/// # Safety
/// Each function asks that the machine has every feature of its tier.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "each field is the function of `scalar::ops` with its name")]
pub struct Ops {
    pub rms_norm: for<'a> unsafe fn(&mut RmsNormArgs<'a>),
    pub layer_norm: for<'a> unsafe fn(&mut LayerNormArgs<'a>),
    pub add: for<'a> unsafe fn(&mut AddArgs<'a>),
    pub add_scaled: for<'a> unsafe fn(&mut AddScaledArgs<'a>),
    pub route: for<'a> unsafe fn(&mut RouteArgs<'a>),
    pub gated: for<'a> unsafe fn(&mut GatedArgs<'a>),
    pub pointwise: for<'a> unsafe fn(&mut PointwiseArgs<'a>),
    pub conv: for<'a> unsafe fn(&mut ConvArgs<'a>),
    pub state_space: for<'a> unsafe fn(&mut StateSpaceArgs<'a>),
    pub delta_rule: for<'a> unsafe fn(&mut DeltaRuleArgs<'a>),
    pub rope: for<'a> unsafe fn(&mut RopeArgs<'a>),
    pub attention_f32: for<'a> unsafe fn(&mut AttentionArgs<'a, f32>),
    pub attention_f16: for<'a> unsafe fn(&mut AttentionArgs<'a, u16>),
    pub attention_q8_0: for<'a> unsafe fn(&mut AttentionArgs<'a, Q8Unit>),
    pub merge_attention: for<'a> unsafe fn(&mut MergeArgs<'a>),
    pub append_f32: for<'a> unsafe fn(&mut AppendArgs<'a, f32>),
    pub append_f16: for<'a> unsafe fn(&mut AppendArgs<'a, u16>),
    pub append_q8_0: for<'a> unsafe fn(&mut AppendArgs<'a, Q8Unit>),
}

/// The integer dot product of a tier at its fastest: on registers alone, in more chains than its latency asks for. It
/// computes nothing; its rate is the peak that matrix products are judged by.
#[derive(Debug, Clone, Copy)]
pub struct Dots {
    /// Runs so many rounds.
    ///
    /// # Safety
    /// The machine has every feature of the tier.
    pub run: unsafe fn(rounds: usize),
    /// Products of bytes that are added up in a round.
    pub macs: usize,
}

/// The kernels that a tier has of its own.
#[derive(Debug, Clone, Copy)]
pub struct TierKernels {
    /// Tokens of the column tiles that suit the kernels for several tokens best.
    pub tile: usize,
    /// The kernel of a weight format for several tokens, if the tier has one.
    pub gemm: fn(Format) -> Option<MatrixFn>,
    /// The kernel of a weight format for one token, if the tier has one.
    pub gemv: fn(Format) -> Option<MatrixFn>,
    /// Weight rows and tokens of the register tiles of these two kernels of a format that most of the work goes to, if the
    /// tier has them.
    pub shapes: fn(Format) -> [(usize, usize); 2],
    /// The quantizer to an activation format, if the tier has one.
    pub quantize: fn(ActFormat) -> Option<QuantizeFn>,
    /// The f32 operations.
    pub ops: Ops,
    /// The integer dot product alone, if the tier has an instruction for it.
    pub dots: Option<Dots>,
    /// Whether the instructions compute the bits that the kernels rely on, if that is not what they are defined to do.
    ///
    /// # Safety
    /// The function asks that the machine has every feature of the tier.
    pub self_test: Option<unsafe fn() -> bool>,
}
