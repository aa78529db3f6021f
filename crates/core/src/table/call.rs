//! Calling the kernels of a table on a worker, with counting.

use cera_quant::acts::ActFormat;
use cera_quant::args::GemmArgs;
use cera_quant::kv::{AppendArgs, KvUnit, Q8Unit};
use cera_quant::ops::{
    AddArgs, AddScaledArgs, AttentionArgs, ConvArgs, DeltaRuleArgs, GatedArgs, LayerNormArgs, MergeArgs,
    PointwiseArgs, RmsNormArgs, RopeArgs, RouteArgs, StateSpaceArgs,
};

use super::{F32Op, KernelOp, KernelTable};
use crate::counters::Counters;

/// The kernels of a table as one worker of the executor calls them: checked, counted, and on a thread that is in the
/// default floating-point mode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernels<'a> {
    pub(crate) table: &'a KernelTable,
    pub(crate) counters: &'a Counters,
    pub(crate) worker: usize,
}

/// What the pages of a cache consist of, with its kernels.
pub(crate) trait KvKernels: KvUnit {
    /// Runs the attention over such a cache.
    fn attention(kernels: &Kernels<'_>, args: &mut AttentionArgs<'_, Self>);
    /// Runs the append to such a cache.
    ///
    /// # Safety
    /// As [`cera_quant::kv::append`].
    unsafe fn append(kernels: &Kernels<'_>, args: &mut AppendArgs<'_, Self>);
}

macro_rules! op {
    ($(#[$doc:meta])* $name:ident, $op:expr, $args:ident) => {
        $(#[$doc])*
        pub(crate) fn $name(&self, args: &mut $args<'_>) {
            self.hit(KernelOp::F32($op));
            // SAFETY: a table exists only for a tier that the machine runs.
            unsafe { (self.table.ops.$name)(args) };
        }
    };
}

macro_rules! kv_kernels {
    ($elem:ty, $attention:ident, $attention_op:expr, $append:ident, $append_op:expr) => {
        impl KvKernels for $elem {
            fn attention(kernels: &Kernels<'_>, args: &mut AttentionArgs<'_, Self>) {
                kernels.hit(KernelOp::F32($attention_op));
                // SAFETY: a table exists only for a tier that the machine runs.
                unsafe { (kernels.table.ops.$attention)(args) };
            }

            unsafe fn append(kernels: &Kernels<'_>, args: &mut AppendArgs<'_, Self>) {
                kernels.hit(KernelOp::F32($append_op));
                // SAFETY: a table exists only for a tier that the machine runs; the caller promises the rest.
                unsafe { (kernels.table.ops.$append)(args) };
            }
        }
    };
}

kv_kernels!(f32, attention_f32, F32Op::AttentionF32, append_f32, F32Op::AppendF32);
kv_kernels!(u16, attention_f16, F32Op::AttentionF16, append_f16, F32Op::AppendF16);
kv_kernels!(Q8Unit, attention_q8_0, F32Op::AttentionQ8_0, append_q8_0, F32Op::AppendQ8_0);

impl Kernels<'_> {
    fn hit(&self, op: KernelOp) {
        self.counters.hit(self.worker, op.slot());
    }

    /// Runs the matrix kernel for the format and the number of tokens.
    ///
    /// # Panics
    /// If the arguments do not fit: the planner checked every shape.
    pub(crate) fn matmul(&self, args: &GemmArgs<'_>) {
        if let Err(error) = args.check() {
            panic!("matrix kernel: {error}");
        }
        let format = args.w.format();
        self.hit(if args.x.n() == 1 { KernelOp::Gemv(format) } else { KernelOp::Gemm(format) });
        // SAFETY: a table exists only for a tier that the machine runs; `check` accepted the arguments.
        unsafe { (self.table.matrix(format, args.x.n()).run)(args) }
    }

    /// Quantizes the rows of one column tile.
    ///
    /// # Panics
    /// If the lengths do not fit: the planner checked every shape.
    pub(crate) fn quantize(&self, format: ActFormat, x: &[f32], k: usize, out: &mut [u8]) {
        assert_eq!(format.bytes(x.len() / k, k), Ok(out.len()), "quantizer: bytes of activations");
        self.hit(KernelOp::Quantize(format));
        // SAFETY: a table exists only for a tier that the machine runs; the lengths were checked.
        unsafe { (self.table.quantize[format.index()].run)(x, k, out) }
    }

    op!(
        /// Runs the RMS normalisation.
        rms_norm, F32Op::RmsNorm, RmsNormArgs
    );
    op!(
        /// Runs the layer normalisation.
        layer_norm, F32Op::LayerNorm, LayerNormArgs
    );
    op!(
        /// Joins parts of attention.
        merge_attention, F32Op::MergeAttention, MergeArgs
    );
    op!(
        /// Runs the addition.
        add, F32Op::Add, AddArgs
    );
    op!(
        /// Runs the addition of a multiple.
        add_scaled, F32Op::AddScaled, AddScaledArgs
    );
    op!(
        /// Chooses experts.
        route, F32Op::Route, RouteArgs
    );
    op!(
        /// Runs the gated activation.
        gated, F32Op::Gated, GatedArgs
    );
    op!(
        /// Runs a function of single elements.
        pointwise, F32Op::Pointwise, PointwiseArgs
    );
    op!(
        /// Runs the convolution over tokens.
        conv, F32Op::Conv, ConvArgs
    );
    op!(
        /// Runs the gated delta rule.
        delta_rule, F32Op::DeltaRule, DeltaRuleArgs
    );
    op!(
        /// Runs the selective state space scan.
        state_space, F32Op::StateSpace, StateSpaceArgs
    );
    op!(
        /// Runs the rotary embedding.
        rope, F32Op::Rope, RopeArgs
    );
}
