//! The kernels of the tier `neon`.

mod acts;
mod by256;
mod by32;
pub(crate) mod dot;
pub(crate) mod lanes;
mod matrix;
mod ops;
mod sums;
pub(crate) mod vectors;

use cera_quant::kernels::TierKernels;

dots!(neon_tier, 8, "smlal" ".8h, v16.8b, v17.8b", "smlal2" ".8h, v16.16b, v17.16b");

/// The kernels of this tier's own.
pub(crate) const KERNELS: TierKernels = TierKernels {
    tile: matrix::TILE,
    gemm: matrix::gemm_of,
    gemv: matrix::gemv_of,
    shapes: matrix::shapes_of,
    quantize: acts::quantizer_of,
    ops: ops::OPS,
    dots: Some(DOTS),
    self_test: None,
};
