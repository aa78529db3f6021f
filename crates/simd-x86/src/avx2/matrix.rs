//! The matrix kernels, by format.

use super::lanes::Lanes;

/// Tokens of a column tile: whole register tiles of every kernel.
pub(crate) const TILE: usize = 12;

cera_simd::matrix_functions! {
    avx2_tier, Lanes;
    gemv: [1 2] x [1];
    gemm_of_floats: [1 2] x [1 2 3 4 5 6];
    gemm_of_pairs: [1] x [1 2 3 4 5 6];
    => unpack {
        gemm32: [1 2] x [1 2 3 4] or 2 x 4;
        gemm256: [1 2] x [1 2 3 4] or 2 x 4;
    }
}

cera_simd::matrix_kernels!();
