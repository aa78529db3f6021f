//! Products of formats of 256 elements a block.

use cera_simd::matrix::by256::{Codes256, Products256, ScalesOf};
use cera_simd::matrix::records::Record256;
use cera_simd::matrix::vectors::Vectors;
use cera_simd::matrix::{Blocks, Sums};
use cera_simd::unrolled;

use super::sums::HasDot;
use crate::neon::lanes::Lanes;
use crate::neon::vectors::I;

impl<T: HasDot> Products256 for Lanes<T> {
    type Wide256<B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize> =
        T::Wide256<B, SCALES, MINIMA>;

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
        // Words of a piece with a scale of its own.
        let piece = const { if SCALES == 8 { 8 } else { 4 } };
        let mut words = [[self.splat32(0); 2]; C];
        unrolled!(c < C { words[c] = self.load_words(&x[c].codes[group]); });
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

    /// With the sums as a high and a low signed byte: `256 * high + low`.
    #[inline(always)]
    fn minima<const MINIMA: usize>(self, minima: &[I; MINIMA], x: &Record256) -> I {
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
