//! The matrix kernels, by format.

use super::lanes::Lanes;

/// Tokens of a column tile: whole register tiles of every kernel, of this tier and of those that extend it.
pub(crate) const TILE: usize = 12;

cera_simd::matrix_functions! {
    neon_tier, Lanes;
    gemv: [4] x [1];
    gemm_of_floats: [4] x [1 2 3 4];
    gemm_of_pairs: [4] x [1 2 3 4];
    => unpack {
        gemm32: [2] x [1 2 3 4] or 2 x 4;
        gemm256: [2] x [1 2 3] or 2 x 4;
    }
}

cera_simd::matrix_kernels!();
