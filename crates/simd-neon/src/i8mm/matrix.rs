//! The matrix kernels, by format.

use super::I8mm;
use crate::neon::lanes::Lanes;

cera_simd::matrix_functions! {
    i8mm_tier, Lanes<I8mm>;
    => unpack {
        gemm32: [2] x [1 2 3 4] or 2 x 4;
        gemm256: [2] x [1 2 3] or 2 x 4;
    }
}

cera_simd::matrix_kernels!(gemm of blocks);
