//! The exact sums of products by `sdot`, for tiers that have it.
//!
//! Four words of the activations of a token are in a register, and each is an operand without being broadcast.

use cera_simd::matrix::by32::Codes32;
use cera_simd::matrix::by256::{Codes256, ScalesOf};
use cera_simd::matrix::records::{Record32, Record256, Word, int};
use cera_simd::matrix::vectors::Vectors;
use cera_simd::matrix::{Blocks, Sums};
use cera_simd::unrolled;

use super::Dotprod;
use crate::asm;
use crate::neon::lanes::Lanes;
use crate::neon::vectors::I;

/// A tier with `sdot`.
///
/// # Safety
/// - The tier has the feature `dotprod`.
pub(crate) unsafe trait HasDot: Copy {}

// SAFETY: the list of the tier has the feature.
unsafe impl HasDot for Dotprod {}

impl<T: HasDot> Lanes<T> {
    /// `sum` plus the products of the codes of each row with those of word `lane` of `x`.
    #[inline(always)]
    pub(crate) fn dot4(self, sum: I, codes: I, x: I, lane: usize) -> I {
        // SAFETY: `self` proves the tier, which has the instruction.
        self.bytes(unsafe { asm::sdot_lane(self.ints(sum), codes, x, lane) })
    }

    /// The codes of 32 elements of a token.
    #[inline(always)]
    fn load_codes(self, codes: &[Word; 8]) -> [I; 2] {
        let halves: &[[u8; 16]; 2] = bytemuck::cast_ref(codes);
        [self.load16(&halves[0]), self.load16(&halves[1])]
    }

    /// [`Products32::products`](cera_simd::matrix::by32::Products32::products).
    ///
    /// An outer product for each vector of codes. Codes that are not signed are taken as they are where they fit, and the
    /// sums start at `-offset * sum of the activation codes`.
    #[inline(always)]
    pub(crate) fn products32<B: Codes32, const R: usize, const C: usize>(
        self,
        blocks: &Blocks<'_, B::Block, R>,
        x: &[Record32; C],
    ) -> Sums<I, R, C> {
        let signed = const { B::CACHED || B::MAX > 127 };
        let mut sums = [[self.splat32(0); C]; R];
        if !signed && B::OFFSET != 0 {
            unrolled!(c < C {
                let start = self.splat32(-B::OFFSET * int(x[c].sum));
                unrolled!(r < R { sums[r][c] = start; });
            });
        }
        let mut words = [[self.splat32(0); 2]; C];
        unrolled!(c < C { words[c] = self.load_codes(&x[c].codes); });
        unrolled!(i in [0 1 2 3 4 5 6 7] {
            // Nibbles of the same bytes follow each other.
            let v = if B::CACHED { i } else { i / 2 + 4 * (i % 2) };
            let mut codes = [self.splat32(0); R];
            unrolled!(r < R {
                let (block, part) = blocks[r];
                codes[r] = if signed { B::signed(self, block, part, v) } else { B::code(self, block, part, v) };
            });
            unrolled!(c < C {
                unrolled!(r < R { sums[r][c] = self.dot4(sums[r][c], codes[r], words[c][v / 4], v % 4); });
            });
        });
        sums
    }

    /// [`Products256::add_group`](cera_simd::matrix::by256::Products256::add_group), in the manner of
    /// [`Lanes::products32`].
    #[inline(always)]
    pub(crate) fn add_group256<
        B: Codes256<SCALES, MINIMA>,
        const SCALES: usize,
        const MINIMA: usize,
        const R: usize,
        const C: usize,
    >(
        self,
        blocks: &Blocks<'_, B::Block, R>,
        (scales, group): (&ScalesOf<I, SCALES, R>, usize),
        x: &[Record256; C],
        sums: &mut Sums<I, R, C>,
    ) {
        // Words of a piece with a scale of its own.
        let piece = const { if SCALES == 8 { 8 } else { 4 } };
        let mut words = [[self.splat32(0); 2]; C];
        unrolled!(c < C { words[c] = self.load_codes(&x[c].codes[group]); });
        let mut products = [[self.splat32(0); C]; R];
        unrolled!(v in [0 1 2 3 4 5 6 7] {
            if v % piece == 0 {
                products = [[self.splat32(0); C]; R];
            }
            let mut codes = [self.splat32(0); R];
            unrolled!(r < R { codes[r] = B::signed(self, blocks[r].0, group, blocks[r].1, v); });
            unrolled!(c < C {
                unrolled!(r < R {
                    products[r][c] = self.dot4(products[r][c], codes[r], words[c][v / 4], v % 4);
                });
            });
            if v % piece == piece - 1 {
                unrolled!(r < R {
                    let scale = B::scale(self, blocks[r], &scales[r], (2 * group + v / 4) * SCALES / 16);
                    unrolled!(c < C { sums[r][c] = self.add_scaled(sums[r][c], products[r][c], scale); });
                });
            }
        });
    }

    /// [`Products256::minima`](cera_simd::matrix::by256::Products256::minima), with the sums as a high and a low signed
    /// byte: `256 * high + low`.
    #[inline(always)]
    pub(crate) fn minima256<const MINIMA: usize>(self, minima: &[I; MINIMA], x: &Record256) -> I {
        let ([high, low], low_at) = self.split_sums::<MINIMA>(x);
        let mut sum = self.splat32(0);
        unrolled!(i in [0 1 2 3] {
            if i < MINIMA / 2 {
                sum = self.dot4(sum, minima[i], high, i);
            }
        });
        sum = self.shl(sum, 8);
        unrolled!(i in [0 1 2 3] {
            if i < MINIMA / 2 {
                sum = self.dot4(sum, minima[i], low, i + low_at);
            }
        });
        sum
    }
}
