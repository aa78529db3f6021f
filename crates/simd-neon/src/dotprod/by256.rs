//! Products of formats of 256 elements a block.

use cera_simd::matrix::by256::{By256, Bytes, Codes256, Products256, ScalesOf};
use cera_simd::matrix::records::Record256;
use cera_simd::matrix::{Blocks, Sums};

use super::Dotprod;
use crate::neon::lanes::Lanes;
use crate::neon::vectors::I;

impl Products256 for Lanes<Dotprod> {
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
        scales: (&ScalesOf<I, SCALES, R>, usize),
        x: &[Record256; C],
        sums: &mut Sums<I, R, C>,
    ) {
        self.add_group256::<B, SCALES, MINIMA, R, C>(blocks, scales, x, sums);
    }

    #[inline(always)]
    fn minima<const MINIMA: usize>(self, minima: &[I; MINIMA], x: &Record256) -> I {
        self.minima256(minima, x)
    }
}
