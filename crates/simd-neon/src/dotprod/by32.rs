//! Products of formats of 32 elements a block.

use cera_simd::matrix::by32::{By32, Bytes, Codes32, Products32};
use cera_simd::matrix::records::Record32;
use cera_simd::matrix::{Blocks, Sums};

use super::Dotprod;
use crate::neon::lanes::Lanes;
use crate::neon::vectors::I;

impl Products32 for Lanes<Dotprod> {
    type Wide32<B: Codes32> = By32<Bytes<B>>;

    #[inline(always)]
    fn products<B: Codes32, const R: usize, const C: usize>(
        self,
        blocks: &Blocks<'_, B::Block, R>,
        x: &[Record32; C],
    ) -> Sums<I, R, C> {
        self.products32::<B, R, C>(blocks, x)
    }
}
