//! The kernels of the tier `avx512vnni`.

mod by32;
mod by256;
pub(crate) mod lanes;
mod matrix;
mod ops;
mod vectors;

use cera_quant::Format;

use crate::{MatrixFn, Ops};

/// The f32 operations.
pub const OPS: Ops = ops::OPS;

/// Tokens of the column tiles that suit the kernels for several tokens best.
pub const TILE: usize = matrix::TILE;

/// The kernel of a weight format for several tokens.
pub const fn gemm(format: Format) -> Option<MatrixFn> {
    matrix::gemm_of(format)
}

/// The kernel of a weight format for one token.
pub const fn gemv(format: Format) -> Option<MatrixFn> {
    matrix::gemv_of(format)
}
