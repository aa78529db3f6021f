//! The matrix kernels, by format.

use cera_quant::Format;
use cera_quant::args::GemmArgs;
use cera_quant::kernels::MatrixFn;

use super::lanes::Lanes;
use crate::matrix::by32::{self, By32};
use crate::matrix::by256::{self, By256};
use crate::matrix::floats::{self, ByElement};
use crate::matrix::vectors::Vectors;
use crate::matrix::{self, Job, Kernel, Tile};

/// Tokens of a column tile: whole register tiles of every kernel.
pub(crate) const TILE: usize = 30;

matrix_functions! {
    avx512vnni_tier, Lanes;
    gemv: [1] x [1];
    gemm_of_floats: [1 2] x [1 2 3 4 5 6 7 8 9 10];
    gemm_of_pairs: [1 2] x [1 2 3 4 5 6 7 8 9 10];
    gemv_of_floats: [1 2 3 4] x [1];
    => unpack {
        gemm32: [1] x [1 2 3 4 5 6 7 8 9 10] or 2 x 5;
        gemm256: [1] x [1 2 3 4 5 6 7 8 9 10] or 2 x 6;
    }
}

matrix_kernels!();
