//! Products of formats of 256 elements a block.

use cera_simd::matrix::by256::{By256, Bytes, Codes256, Products256, ScalesOf};
use cera_simd::matrix::records::{Record256, int};
use cera_simd::matrix::vectors::Vectors;
use cera_simd::matrix::{Blocks, Sums};
use cera_simd::unrolled;

use super::lanes::Lanes;
use super::sums::words;
use super::vectors::I;

impl Products256 for Lanes {
    type Wide256<B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize> =
        By256<Bytes<B, SCALES, MINIMA>, SCALES, MINIMA>;

    #[inline(always)]
    fn add_group<
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
        // Words of a piece with a scale of its own, and those whose products an i16 may add up.
        let piece = const { if SCALES == 8 { 8 } else { 4 } };
        let words = const { words(B::OFFSET, B::MAX) }.min(piece);
        let mut short = [[self.no_short(); C]; R];
        let mut pairs = [[self.no_pairs(); C]; R];
        unrolled!(v in [0 1 2 3 4 5 6 7] {
            let mut codes = [self.splat32(0); R];
            unrolled!(r < R { codes[r] = B::signed(self, blocks[r].0, group, blocks[r].1, v); });
            unrolled!(c < C {
                let x = self.splat32(int(x[c].codes[group][v]));
                unrolled!(r < R {
                    short[r][c] = self.multiply_word(short[r][c], v % words == 0, codes[r], x);
                });
            });
            if v % words == words - 1 {
                unrolled!(r < R {
                    unrolled!(c < C { pairs[r][c] = self.widen_sums(pairs[r][c], v % piece < words, short[r][c]); });
                });
            }
            if v % piece == piece - 1 {
                unrolled!(r < R {
                    let scale = B::scale(self, blocks[r], &scales[r], (2 * group + v / 4) * SCALES / 16);
                    unrolled!(c < C {
                        sums[r][c] = self.add_scaled(sums[r][c], self.join(pairs[r][c]), scale);
                    });
                });
            }
        });
    }

    /// With the sums as a high and a low signed byte: `256 * high + low`.
    #[inline(always)]
    fn minima<const MINIMA: usize>(self, minima: &[I; MINIMA], x: &Record256) -> I {
        let ([high, low], low_at) = self.split_sums::<MINIMA>(x);
        let [mut highs, mut lows] = [self.no_short(); 2];
        unrolled!(i in [0 1 2 3] {
            if i < MINIMA / 2 {
                highs = self.multiply_word(highs, i == 0, minima[i], self.splat_lane(high, i));
                lows = self.multiply_word(lows, i == 0, minima[i], self.splat_lane(low, i + low_at));
            }
        });
        let [high, low] = [highs, lows].map(|sums| self.join(self.widen_sums(self.no_pairs(), true, sums)));
        self.add32(self.shl(high, 8), low)
    }
}
