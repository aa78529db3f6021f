//! Products of formats of 32 elements a block.

use cera_simd::matrix::by32::{By32, Bytes, Codes32, Products32};
use cera_simd::matrix::records::{Record32, int};
use cera_simd::matrix::vectors::Vectors;
use cera_simd::matrix::{Blocks, Sums};
use cera_simd::unrolled;

use super::lanes::Lanes;
use super::sums::words;
use super::vectors::I;

impl Products32 for Lanes {
    type Wide32<B: Codes32> = By32<Bytes<B>>;

    /// An outer product for each vector of codes: a word of activations in a register meets the codes of all groups.
    #[inline(always)]
    fn products<B: Codes32, const R: usize, const C: usize>(
        self,
        blocks: &Blocks<'_, B::Block, R>,
        x: &[Record32; C],
    ) -> Sums<I, R, C> {
        let words = const { words(B::OFFSET, B::MAX) };
        let mut short = [[self.no_short(); C]; R];
        let mut pairs = [[self.no_pairs(); C]; R];
        unrolled!(i in [0 1 2 3 4 5 6 7] {
            // Nibbles of the same bytes follow each other.
            let v = if B::CACHED { i } else { i / 2 + 4 * (i % 2) };
            let mut codes = [self.splat32(0); R];
            unrolled!(r < R { codes[r] = B::signed(self, blocks[r].0, blocks[r].1, v); });
            unrolled!(c < C {
                let x = self.splat32(int(x[c].codes[v]));
                unrolled!(r < R {
                    short[r][c] = self.multiply_word(short[r][c], i % words == 0, codes[r], x);
                });
            });
            if i % words == words - 1 {
                unrolled!(r < R {
                    unrolled!(c < C { pairs[r][c] = self.widen_sums(pairs[r][c], i < words, short[r][c]); });
                });
            }
        });
        let mut sums = [[self.splat32(0); C]; R];
        unrolled!(r < R {
            unrolled!(c < C { sums[r][c] = self.join(pairs[r][c]); });
        });
        sums
    }
}
