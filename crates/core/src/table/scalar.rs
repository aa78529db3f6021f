//! The scalar row.

use cera_quant::Format;
use cera_quant::acts::{self, ActFormat};
use cera_quant::scalar::{gemm, ops};

use super::{Entry, KernelTable, MatrixFn, Ops, QuantizeFn};
use crate::tier::CpuTier;

/// Tokens of a column tile: the codes of a strip block are unpacked once for this many.
const TILE: usize = 8;

fn entry<F>(run: F) -> Entry<F> {
    Entry { tier: CpuTier::Scalar, run }
}

/// # Panics
/// If the lengths do not fit: the table's callers checked them.
fn quantize(format: ActFormat, x: &[f32], k: usize, out: &mut [u8]) {
    if let Err(error) = acts::quantize_tile(format, x, k, out) {
        panic!("quantizer: {error}");
    }
}

fn quantizer(format: ActFormat) -> QuantizeFn {
    match format {
        ActFormat::F32 => |x, k, out| quantize(ActFormat::F32, x, k, out),
        ActFormat::Bf16 => |x, k, out| quantize(ActFormat::Bf16, x, k, out),
        ActFormat::Q8x32 => |x, k, out| quantize(ActFormat::Q8x32, x, k, out),
        ActFormat::Q8x256 => |x, k, out| quantize(ActFormat::Q8x256, x, k, out),
    }
}

pub(super) fn table() -> KernelTable {
    let matrix = Format::ALL.map(|format| entry(gemm::by_format(format) as MatrixFn));
    KernelTable {
        tier: CpuTier::Scalar,
        gemm: matrix,
        gemv: matrix,
        quantize: ActFormat::ALL.map(|format| entry(quantizer(format))),
        ops: Ops {
            rms_norm: entry(ops::rms_norm),
            add: entry(ops::add),
            gated: entry(ops::gated),
            rope: entry(ops::rope),
            attention_f32: entry(ops::attention_f32),
            attention_f16: entry(ops::attention_f16),
            append_f32: entry(ops::append_f32),
            append_f16: entry(ops::append_f16),
        },
        tile: TILE,
    }
}
