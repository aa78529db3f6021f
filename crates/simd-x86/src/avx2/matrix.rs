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
pub(crate) const TILE: usize = 12;

matrix_functions! {
    avx2_tier, Lanes;
    gemv: [1 2] x [1];
    gemm_of_floats: [1 2] x [1 2 3 4 5 6];
    gemm_of_pairs: [1] x [1 2 3 4 5 6];
    gemv_of_floats: [1 2 3 4] x [1];
    => unpack {
        gemm32: [1 2] x [1 2 3 4] or 2 x 4;
        gemm256: [1 2] x [1 2 3 4] or 2 x 4;
    }
}

matrix_kernels!();
