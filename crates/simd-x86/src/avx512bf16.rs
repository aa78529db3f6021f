//! The kernels of the tier `avx512bf16`, which has an instruction for pairs of bf16; all else is of `avx512vnni`.

use std::arch::x86_64::*;
use std::mem::transmute;

use cera_quant::Format;
use cera_quant::args::GemmArgs;
use cera_quant::kernels::{MatrixFn, TierKernels};

use crate::avx512vnni::KERNELS as NARROWER;
use crate::avx512vnni::lanes::Lanes;
use crate::matrix::floats::AHEAD;
use crate::matrix::records::{Word, int};
use crate::matrix::vectors::{Vector, Vectors};
use crate::matrix::{self, Job, Kernel, Tile};

/// The tier.
#[derive(Debug, Clone, Copy)]
struct Bf16;

/// The kernel of `BF16`.
///
/// The instruction adds the product of the odd elements first, then that of the even ones, each with one rounding, and
/// takes subnormal operands and results for zeros. With the flush of small magnitudes at packing and quantizing there
/// are none ([`cera_quant::num::flush_bf16`]).
///
/// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, VDPBF16PS.
struct Pairs;

impl Kernel<Lanes<Bf16>> for Pairs {
    const FORMAT: Format = Format::BF16;
    type Block = Vector;
    type Record = Word;

    #[inline(always)]
    fn block<const C: usize>(
        t: Lanes<Bf16>,
        block: &Vector,
        part: usize,
        x: &[Word; C],
        acc: &mut [__m512; C],
    ) {
        if C == 1 {
            t.prefetch(block, AHEAD);
        }
        let w = t.load(block, part);
        for (acc, &x) in acc.iter_mut().zip(x) {
            *acc = t.add_pairs(*acc, w, t.splat32(int(x)));
        }
    }
}

impl Lanes<Bf16> {
    #[inline(always)]
    fn add_pairs(self, acc: __m512, w: __m512i, x: __m512i) -> __m512 {
        // SAFETY: `self` proves the instruction; the vectors are 512 bits of any content.
        unsafe { _mm512_dpbf16_ps(acc, transmute::<__m512i, __m512bh>(w), transmute::<__m512i, __m512bh>(x)) }
    }
}

matrix_functions! {
    avx512bf16_tier, Lanes<Bf16>;
    gemm: [1 2] x [1 2 3 4 5 6 7 8 9];
    gemv: [1 2 3 4] x [1];
}

fn gemm_of(format: Format) -> Option<MatrixFn> {
    match format {
        Format::BF16 => Some(gemm::<Pairs>),
        _ => None,
    }
}

fn gemv_of(format: Format) -> Option<MatrixFn> {
    match format {
        Format::BF16 => Some(gemv::<Pairs>),
        _ => None,
    }
}

/// The kernels of this tier's own, and the f32 operations of `avx512vnni`.
pub(crate) const KERNELS: TierKernels = TierKernels {
    tile: NARROWER.tile,
    gemm: gemm_of,
    gemv: gemv_of,
    quantize: |_| None,
    ops: NARROWER.ops,
    dots: None,
};
