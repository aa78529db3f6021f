//! Products of formats of 32 elements a block.

use cera_simd::matrix::by32::{Codes32, Products32};
use cera_simd::matrix::records::{Record32, int};
use cera_simd::matrix::vectors::Vectors;
use cera_simd::matrix::{Blocks, Sums};
use cera_simd::unrolled;

use super::sums::HasDot;
use crate::neon::lanes::Lanes;
use crate::neon::vectors::I;

impl<T: HasDot> Products32 for Lanes<T> {
    type Wide32<B: Codes32> = T::Wide32<B>;

    /// An outer product for each vector of codes. Codes that are not signed are taken as they are where they fit, and the
    /// sums start at `-offset * sum of the activation codes`.
    #[inline(always)]
    fn products<B: Codes32, const R: usize, const C: usize>(
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
        unrolled!(c < C { words[c] = self.load_words(&x[c].codes); });
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
}
