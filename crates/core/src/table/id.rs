//! The names of kernels.

use std::fmt;

use cera_quant::Format;
use cera_quant::acts::ActFormat;

use crate::tier::CpuTier;

/// Kernels of a table: GEMM and GEMV per weight format, a quantizer per activation format, the f32 operations.
pub(crate) const SLOTS: usize = 2 * Format::COUNT + ActFormat::ALL.len() + F32_OPS.len();

macro_rules! f32_ops {
    ($($(#[doc = $doc:literal])+ $op:ident $label:literal;)*) => {
        /// An f32 operation of a layer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum F32Op {
            $($(#[doc = $doc])+ $op,)*
        }

        /// The f32 operations, in slot order.
        pub(crate) const F32_OPS: [F32Op; [$($label),*].len()] = [$(F32Op::$op),*];

        impl F32Op {
            fn label(self) -> &'static str {
                match self {
                    $(F32Op::$op => $label,)*
                }
            }
        }
    };
}

f32_ops! {
    /// RMS normalisation.
    RmsNorm "rms_norm-f32";
    /// Layer normalisation.
    LayerNorm "layer_norm-f32";
    /// Element-wise addition.
    Add "add-f32";
    /// Addition of a multiple.
    AddScaled "add_scaled-f32";
    /// Choosing experts.
    Route "route-f32";
    /// Activation times factor.
    Gated "gated-f32";
    /// A function of single elements.
    Pointwise "pointwise-f32";
    /// The convolution over tokens.
    Conv "conv-f32";
    /// The gated delta rule.
    DeltaRule "delta_rule-f32";
    /// The selective state space scan.
    StateSpace "state_space-f32";
    /// Rotary position embedding.
    Rope "rope-f32";
    /// Attention over an f32 cache.
    AttentionF32 "attention-f32";
    /// Attention over an f16 cache.
    AttentionF16 "attention-f16";
    /// Attention over a q8_0 cache.
    AttentionQ8_0 "attention-q8_0";
    /// Joining parts of attention.
    MergeAttention "merge-f32";
    /// Writing to an f32 cache.
    AppendF32 "append-f32";
    /// Writing to an f16 cache.
    AppendF16 "append-f16";
    /// Writing to a q8_0 cache.
    AppendQ8_0 "append-q8_0";
}

/// What a kernel computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KernelOp {
    /// A matrix times several tokens.
    Gemm(Format),
    /// A matrix times one token.
    Gemv(Format),
    /// Activations to an activation format.
    Quantize(ActFormat),
    /// An f32 operation.
    F32(F32Op),
}

impl KernelOp {
    /// The position of the kernel in counters and lists.
    pub(crate) const fn slot(self) -> usize {
        match self {
            KernelOp::Gemm(format) => format.index(),
            KernelOp::Gemv(format) => Format::COUNT + format.index(),
            KernelOp::Quantize(format) => 2 * Format::COUNT + format.index(),
            KernelOp::F32(op) => 2 * Format::COUNT + ActFormat::ALL.len() + op as usize,
        }
    }
}

/// Names a kernel: `{tier}-{op}-{weights}x{acts}-{mr}x{nr}`, for example `scalar-gemm-q4_0xq8x32-16x4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelId {
    /// The tier whose code it is; not always the table's.
    pub tier: CpuTier,
    /// What it computes.
    pub op: KernelOp,
    /// Weight rows and tokens of the register tile, for matrix kernels.
    pub tile: (usize, usize),
}

impl fmt::Display for KernelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tier = self.tier.label();
        let matrix = |f: &mut fmt::Formatter<'_>, op: &str, weights: Format| {
            let (acts, (mr, nr)) = (ActFormat::of(weights).label(), self.tile);
            write!(f, "{tier}-{op}-{}x{acts}-{mr}x{nr}", weights.label().to_ascii_lowercase())
        };
        match self.op {
            KernelOp::Gemm(weights) => matrix(f, "gemm", weights),
            KernelOp::Gemv(weights) => matrix(f, "gemv", weights),
            KernelOp::Quantize(acts) => write!(f, "{tier}-quantize-f32x{}", acts.label()),
            KernelOp::F32(op) => write!(f, "{tier}-{}", op.label()),
        }
    }
}
