//! The kernels of the tier `avx512bf16`, which has an instruction for pairs of bf16; all else is of `avx512vnni`.

use std::arch::x86_64::*;
use std::mem::transmute;

use cera_quant::Format;
use cera_quant::kernels::{MatrixFn, TierKernels};
use cera_quant::num::flush_bf16;
use cera_simd::matrix::floats::{Bf16 as Bf16ByElements, ByElement, Elements, halves};
use cera_simd::matrix::records::{Word, int};
use cera_simd::matrix::vectors::{Vector, Vectors};

use crate::avx512vnni::KERNELS as NARROWER;
use crate::avx512vnni::lanes::Lanes;

/// The tier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bf16;

/// The format `BF16`.
///
/// The instruction adds the product of the odd elements first, then that of the even ones, each with one rounding, and
/// takes subnormal operands and results for zeros. With the flush of small magnitudes at packing and quantizing there
/// are none ([`cera_quant::num::flush_bf16`]).
///
/// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, VDPBF16PS.
struct Pairs;

impl Elements<Lanes<Bf16>> for Pairs {
    const FORMAT: Format = Format::BF16;
    type Block = Vector;
    type Operand = __m512i;

    #[inline(always)]
    fn weights(t: Lanes<Bf16>, block: &Vector, part: usize) -> __m512i {
        t.load(block, part)
    }

    #[inline(always)]
    fn activations(t: Lanes<Bf16>, x: Word) -> __m512i {
        t.splat32(int(x))
    }

    #[inline(always)]
    fn link(t: Lanes<Bf16>, w: __m512i, x: __m512i, acc: __m512) -> __m512 {
        t.add_pairs(acc, w, x)
    }
}

impl Lanes<Bf16> {
    /// The next two links of chains over pairs of bf16 that [`cera_quant::num::flush_bf16`] has passed.
    #[inline(always)]
    pub(crate) fn add_pairs(self, acc: __m512, w: __m512i, x: __m512i) -> __m512 {
        // SAFETY: `self` proves the instruction; the vectors are 512 bits of any content.
        unsafe { _mm512_dpbf16_ps(acc, transmute::<__m512i, __m512bh>(w), transmute::<__m512i, __m512bh>(x)) }
    }
}

/// Chains that [`self_test`] follows, sixteen in a vector.
const CHAINS: usize = 256;
/// The links of each, two elements in one.
const LINKS: usize = 16;

avx512bf16_tier! {
    /// Whether the instruction has the bits of two ordered fused operations along fixed pseudo-random chains, from zero
    /// on, over bf16 of all sizes that the flush of small magnitudes leaves: 65,536 cases.
    fn self_test() -> bool {
        // SAFETY: this function is called only where the machine has the features that it is compiled for.
        let t = unsafe { Lanes::<Bf16>::new() };
        let mut state = 1;
        for _ in 0..CHAINS {
            let (mut by_pairs, mut by_elements) = (t.zero(), t.zero());
            for _ in 0..LINKS {
                let mut words = [[0; 64]; 2];
                for word in words.as_flattened_mut().as_chunks_mut::<2>().0 {
                    *word = factor(&mut state).to_le_bytes();
                }
                let [w, x] = words.map(|words| t.load(&words, 0));
                by_pairs = t.add_pairs(by_pairs, w, x);
                by_elements = Bf16ByElements::link(t, halves(t, w), halves(t, x), by_elements);
                if _mm512_cmpneq_epi32_mask(t.bits(by_pairs), t.bits(by_elements)) != 0 {
                    return false;
                }
            }
        }
        true
    }
}

/// The next pseudo-random bf16: a zero, one of any exponent from the least that is not flushed to 2^40, or, as often, one
/// around 1, so that sums cancel.
fn factor(state: &mut u64) -> u16 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let bits = (*state >> 33) as u32;
    let exponent = match bits >> 28 {
        0 => return flush_bf16(bits as u16 & 0x807f),
        1..=3 => 72 + (bits >> 16) % 96,
        _ => 124 + (bits >> 16) % 6,
    };
    (bits as u16 & 0x807f) | (exponent << 7) as u16
}

cera_simd::matrix_functions! {
    avx512bf16_tier, Lanes<Bf16>;
    gemm: [1 2] x [1 2 3 4 5 6 7 8 9 10];
    gemv: [1] x [1];
}

fn gemm_of(format: Format) -> Option<MatrixFn> {
    match format {
        Format::BF16 => Some(gemm::<ByElement<Pairs>>),
        _ => None,
    }
}

fn gemv_of(format: Format) -> Option<MatrixFn> {
    match format {
        Format::BF16 => Some(gemv::<ByElement<Pairs>>),
        _ => None,
    }
}

/// The kernels of this tier's own, and the f32 operations of `avx512vnni`.
pub(crate) const KERNELS: TierKernels = TierKernels {
    tile: NARROWER.tile,
    gemm: gemm_of,
    gemv: gemv_of,
    shapes: |_| [gemm::TILE, gemv::TILE],
    quantize: |_| None,
    ops: NARROWER.ops,
    dots: None,
    self_test: Some(self_test),
};
