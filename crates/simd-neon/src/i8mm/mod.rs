//! The kernels of the tier `neon-i8mm` for many tokens; all else is of `neon-dotprod`.
//!
//! `smmla` multiplies two rows with two tokens. So unpacked codes lie by pairs of rows, the records of a tile are arranged
//! by pairs of tokens, and the chains of a pair of each stay together in a register until they are stored: for tokens `c`
//! and `c + 1` those of the first two rows of a group take the place of token `c`, those of the last two that of `c + 1`.

mod by256;
mod by32;
mod matrix;

use std::arch::aarch64::*;

use cera_quant::kernels::TierKernels;
use cera_simd::matrix::Sums;
use cera_simd::matrix::by32::Codes32;
use cera_simd::matrix::by256::Codes256;
use cera_simd::matrix::records::Word;
use cera_simd::matrix::vectors::{Vector, Vectors};
use cera_simd::{by_intrinsics, unrolled};

use crate::asm;
use crate::dotprod::KERNELS as NARROWER;
use crate::dotprod::sums::HasDot;
use crate::neon::lanes::Lanes;
use crate::neon::vectors::{F, I};

/// What [`Lanes`] prove: the tier `neon-i8mm`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct I8mm;

// SAFETY: the list of the tier has the feature.
unsafe impl HasDot for I8mm {
    type Wide32<B: Codes32> = by32::Pairs32<B>;
    type Wide256<B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize> =
        by256::Pairs256<B, SCALES, MINIMA>;
}

dots!(i8mm_tier, 32, "smmla" ".4s, v16.16b, v17.16b", "smmla" ".4s, v16.16b, v17.16b");

/// The kernels of this tier's own.
pub(crate) const KERNELS: TierKernels = TierKernels {
    tile: NARROWER.tile,
    gemm: matrix::gemm_of,
    gemv: |_| None,
    shapes: |format| [matrix::shape_of(format), (0, 0)],
    quantize: |_| None,
    ops: NARROWER.ops,
    dots: Some(DOTS),
    self_test: None,
};

impl Lanes<I8mm> {
    by_intrinsics! {
        fn as_words(a: I) -> uint32x4_t = vreinterpretq_u32_u8;
        fn from_words(a: uint32x4_t) -> I = vreinterpretq_u8_u32;
        fn as_doubles(a: I) -> uint64x2_t = vreinterpretq_u64_u8;
        fn from_doubles(a: uint64x2_t) -> I = vreinterpretq_u8_u64;
        fn zip_low(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = vzip1q_u32;
        fn zip_high(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = vzip2q_u32;
        fn zip_low_doubles(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t = vzip1q_u64;
        fn zip_high_doubles(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t = vzip2q_u64;
        fn evens(a: F, b: F) -> F = vuzp1q_f32;
        fn odds(a: F, b: F) -> F = vuzp2q_f32;
    }

    /// `acc` plus the products of eight codes of two rows with those of two tokens.
    #[inline(always)]
    fn multiply(self, acc: I, rows: I, tokens: I) -> I {
        // SAFETY: `self` proves the instruction.
        self.bytes(unsafe { asm::smmla(self.ints(acc), rows, tokens) })
    }

    /// Parts of a vector that follow each other: `R` from the first on, which is a multiple of `R`.
    #[inline(always)]
    fn load_parts<const R: usize>(self, vector: &Vector, first: usize) -> [I; R] {
        const { assert!(R == 2, "tiles are two groups of rows") };
        let both = vector.as_chunks::<32>().0[first / 2].as_chunks::<16>().0;
        let mut parts = [self.splat32(0); R];
        unrolled!(r < R { parts[r] = self.load16(&both[r]); });
        parts
    }

    /// As [`Lanes::load_parts`], of the first two rows of each group and of the last two.
    #[inline(always)]
    fn load_pairs<const R: usize>(self, vectors: &[Vector; 2], first: usize) -> [[I; R]; 2] {
        [self.load_parts(&vectors[0], first), self.load_parts(&vectors[1], first)]
    }

    /// The words of two vectors in turns: those of the first two rows, and of the last two.
    #[inline(always)]
    fn zip_words(self, a: I, b: I) -> [I; 2] {
        let (a, b) = (self.as_words(a), self.as_words(b));
        [self.from_words(self.zip_low(a, b)), self.from_words(self.zip_high(a, b))]
    }

    /// The first halves of two vectors, and the last.
    #[inline(always)]
    fn zip_halves(self, a: I, b: I) -> [I; 2] {
        let (a, b) = (self.as_doubles(a), self.as_doubles(b));
        [self.from_doubles(self.zip_low_doubles(a, b)), self.from_doubles(self.zip_high_doubles(a, b))]
    }

    /// Puts vectors of the first two rows and of the last two.
    #[inline(always)]
    fn put_pairs(self, pairs: [I; 2], out: &mut [Vector; 2], part: usize) {
        self.put(pairs[0], &mut out[0], part);
        self.put(pairs[1], &mut out[1], part);
    }

    /// Puts a number of each row twice.
    #[inline(always)]
    fn put_twice(self, number: I, out: &mut [Vector; 2], part: usize) {
        self.put_pairs(self.zip_words(number, number), out, part);
    }

    #[inline(always)]
    fn put16(self, v: I, out: &mut [u8; 16]) {
        // SAFETY: sixteen bytes are writable, and `self` proves the instruction.
        unsafe { vst1q_u8(out.as_mut_ptr(), v) }
    }

    /// Puts the numbers of two tokens twice.
    #[inline(always)]
    fn put_numbers(self, a: Word, b: Word, out: &mut [u8; 16]) {
        out[..4].copy_from_slice(&a);
        out[4..8].copy_from_slice(&b);
        out.copy_within(..8, 8);
    }

    /// Puts the codes of two tokens, sixteen of each, eight by eight in turns.
    #[inline(always)]
    fn put_codes(self, a: &[Word; 4], b: &[Word; 4], out: &mut [[u8; 16]; 2]) {
        let [low, high] =
            self.zip_halves(self.load16(bytemuck::cast_ref(a)), self.load16(bytemuck::cast_ref(b)));
        self.put16(low, &mut out[0]);
        self.put16(high, &mut out[1]);
    }

    /// The chains by tokens.
    #[inline(always)]
    fn separate<const R: usize, const C: usize>(self, acc: &mut Sums<F, R, C>) {
        unrolled!(c < C {
            if c % 2 == 1 {
                unrolled!(r < R {
                    let (a, b) = (acc[r][c - 1], acc[r][c]);
                    acc[r][c - 1] = self.evens(a, b);
                    acc[r][c] = self.odds(a, b);
                });
            }
        });
    }
}

/// The records of tokens `c` and `c + 1`, which are arranged as a `Pair`.
#[inline(always)]
fn pair<Pair: bytemuck::Pod, const N: usize, const C: usize>(x: &[[u8; N]; C], c: usize) -> &Pair {
    let Some(two) = x[c..].first_chunk::<2>() else { unreachable!("tiles have an even number of tokens") };
    bytemuck::from_bytes(two.as_flattened())
}
