//! The kernels of the tier `neon-dotprod`; those of floats and most f32 operations are of `neon`.

mod by256;
mod by32;
mod dot;
mod matrix;
pub(crate) mod sums;

use cera_quant::kernels::{Ops, TierKernels};
use cera_quant::kv::Q8Unit;
use cera_quant::ops::{self, AttentionArgs};

use crate::neon::KERNELS as NARROWER;
use crate::neon::lanes::Lanes;

/// What [`Lanes`] prove: the tier `neon-dotprod`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dotprod;

dotprod_tier! {
    fn attention_q8_0(args: &mut AttentionArgs<'_, Q8Unit>) {
        // SAFETY: this function is called only where the machine has the features that it is compiled for.
        ops::attention_q8_0(unsafe { Lanes::<Dotprod>::new() }, args);
    }
}

dots!(dotprod_tier, 16, "sdot" ".4s, v16.16b, v17.16b", "sdot" ".4s, v16.16b, v17.16b");

/// The kernels of this tier's own.
pub(crate) const KERNELS: TierKernels = TierKernels {
    tile: NARROWER.tile,
    gemm: matrix::gemm_of,
    gemv: matrix::gemv_of,
    shapes: matrix::shapes_of,
    quantize: |_| None,
    ops: Ops { attention_q8_0, ..NARROWER.ops },
    dots: Some(DOTS),
    self_test: None,
};
