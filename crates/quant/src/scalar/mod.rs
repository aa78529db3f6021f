//! The scalar kernels: the definition of every number that the engine produces.

pub mod gemm;
pub mod ops;

use crate::Format;
use crate::acts::{self, ActFormat};
use crate::kernels::{MatrixFn, QuantizeFn, TierKernels};
use crate::pack::STRIP_ROWS;

/// The kernels of the scalar tier: all of them.
pub const KERNELS: TierKernels = TierKernels {
    tile: 8,
    gemm: matrix,
    gemv: matrix,
    shapes: |_| [(STRIP_ROWS, 8), (STRIP_ROWS, 1)],
    quantize,
    ops: ops::OPS,
    dots: None,
    self_test: None,
};

fn matrix(format: Format) -> Option<MatrixFn> {
    Some(gemm::by_format(format))
}

fn quantize(format: ActFormat) -> Option<QuantizeFn> {
    Some(match format {
        ActFormat::F32 => |x, k, out| quantize_tile(ActFormat::F32, x, k, out),
        ActFormat::Bf16 => |x, k, out| quantize_tile(ActFormat::Bf16, x, k, out),
        ActFormat::Q8x32 => |x, k, out| quantize_tile(ActFormat::Q8x32, x, k, out),
        ActFormat::Q8x256 => |x, k, out| quantize_tile(ActFormat::Q8x256, x, k, out),
    })
}

/// # Panics
/// If the lengths do not fit.
fn quantize_tile(format: ActFormat, x: &[f32], k: usize, out: &mut [u8]) {
    if let Err(error) = acts::quantize_tile(format, x, k, out) {
        panic!("quantizer: {error}");
    }
}
