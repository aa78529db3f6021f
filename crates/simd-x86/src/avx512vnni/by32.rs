//! Products of formats of 32 elements a block.

use cera_simd::matrix::by32::{By32, Bytes, Codes32, Products32};
use cera_simd::matrix::records::{Record32, int};
use cera_simd::matrix::vectors::Vectors;
use cera_simd::matrix::{Blocks, Sums};
use cera_simd::unrolled;

use super::lanes::Lanes;
use super::vectors::I;

impl Products32 for Lanes {
    type Wide32<B: Codes32> = By32<Bytes<B>>;

    /// An outer product for each vector of codes: a word of activations in a register meets the codes of all groups.
    /// The chains of dot products start at `-offset * sum of the activation codes`.
    #[inline(always)]
    fn products<B: Codes32, const R: usize, const C: usize>(
        self,
        blocks: &Blocks<'_, B::Block, R>,
        x: &[Record32; C],
    ) -> Sums<I, R, C> {
        let mut sums = [[self.splat32(0); C]; R];
        unrolled!(c < C {
            let start = self.splat32(-B::OFFSET * int(x[c].sum));
            unrolled!(r < R { sums[r][c] = start; });
        });
        unrolled!(v in [0 4 1 5 2 6 3 7] {
            let mut codes = [self.splat32(0); R];
            unrolled!(r < R { codes[r] = B::code(self, blocks[r].0, blocks[r].1, v); });
            unrolled!(c < C {
                let x = self.splat32(int(x[c].codes[v]));
                unrolled!(r < R { sums[r][c] = self.dot4(sums[r][c], codes[r], x); });
            });
            unrolled!(c < C {
                unrolled!(r < R { sums[r][c] = self.pin(sums[r][c]); });
            });
        });
        sums
    }
}
