//! The matrix kernels, by format.

use super::lanes::Lanes;

/// Tokens of a column tile: whole register tiles of every kernel.
pub(crate) const TILE: usize = 30;

cera_simd::matrix_functions! {
    avx512vnni_tier, Lanes;
    gemv: [1] x [1];
    gemm_of_floats: [1 2] x [1 2 3 4 5 6 7 8 9 10];
    gemm_of_pairs: [1 2] x [1 2 3 4 5 6 7 8 9 10];
    => unpack {
        gemm32: [1] x [1 2 3 4 5 6 7 8 9 10] or 2 x 5;
        gemm256: [1] x [1 2 3 4 5 6 7 8 9 10] or 2 x 6;
    }
}

cera_simd::matrix_kernels!();
