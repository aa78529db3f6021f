//! The matrix kernels, by format.

use cera_quant::Format;
use cera_quant::args::GemmArgs;
use cera_quant::kernels::MatrixFn;

use super::lanes::Lanes;
use crate::matrix::by32::{self, By32};
use crate::matrix::by256::{self, By256};
use crate::matrix::{self, Job, Kernel, Tile, floats};

/// Tokens of the widest register tile.
pub(crate) const TILE: usize = 4;

matrix_functions! {
    avx2_tier, Lanes;
    gemm: [1] x [1 2 3 4];
    gemv: [1 2] x [1];
    gemm_of_floats: [1 2] x [1 2 3 4];
    gemv_of_floats: [1 2 3 4] x [1];
}

matrix_kernels!();
