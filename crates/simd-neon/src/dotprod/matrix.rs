//! The matrix kernels, by format.

use super::Dotprod;
use crate::neon::lanes::Lanes;

cera_simd::matrix_functions! {
    dotprod_tier, Lanes<Dotprod>;
    gemv: [4] x [1];
    => unpack {
        gemm32: [2] x [1 2 3 4] or 2 x 4;
        gemm256: [2] x [1 2 3] or 2 x 4;
    }
}

cera_simd::matrix_kernels!(blocks);
