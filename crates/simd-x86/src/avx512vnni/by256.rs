//! Products of formats of 256 elements a block.

use cera_simd::matrix::by256::{By256, Bytes, Codes256, Products256, ScalesOf};
use cera_simd::matrix::records::{Record256, Word, int};
use cera_simd::matrix::vectors::Vectors;
use cera_simd::matrix::{Blocks, Sums};
use cera_simd::unrolled;

use super::lanes::Lanes;
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
        scales: (&ScalesOf<I, SCALES, R>, usize),
        x: &[Record256; C],
        sums: &mut Sums<I, R, C>,
    ) {
        let (scales, group) = scales;
        if SCALES == 8 {
            let mut products: Sums<I, R, C> =
                starts(self, -B::OFFSET, group, x.each_ref().map(|x| &x.sums32[..]));
            unrolled!(v in [0 4 1 5 2 6 3 7] {
                add::<B, SCALES, MINIMA, R, C>(self, blocks, (group, v), x, &mut products);
            });
            add_scaled::<B, SCALES, MINIMA, R, C>(self, blocks, (scales, group), &products, sums);
            return;
        }
        let halves = x.each_ref().map(|x| &x.sums16[..]);
        let (first, second) = (2 * group, 2 * group + 1);
        let mut products: Sums<I, R, C> = starts(self, -B::OFFSET, first, halves);
        unrolled!(v in [0 1 2 3] {
            add::<B, SCALES, MINIMA, R, C>(self, blocks, (group, v), x, &mut products);
        });
        add_scaled::<B, SCALES, MINIMA, R, C>(self, blocks, (scales, first), &products, sums);
        products = starts(self, -B::OFFSET, second, halves);
        unrolled!(v in [4 5 6 7] {
            add::<B, SCALES, MINIMA, R, C>(self, blocks, (group, v), x, &mut products);
        });
        add_scaled::<B, SCALES, MINIMA, R, C>(self, blocks, (scales, second), &products, sums);
    }
}

/// Where the chains of dot products of a piece start: at `factor * sum of the activation codes`, the sums being numbers
/// of 16 bits, two in a word.
#[inline(always)]
fn starts<const R: usize, const C: usize>(
    t: Lanes,
    factor: i32,
    piece: usize,
    sums: [&[Word]; C],
) -> Sums<I, R, C> {
    let mut starts = [[t.splat32(0); C]; R];
    if factor != 0 {
        unrolled!(c < C {
            let halves: &[[u8; 2]] = bytemuck::cast_slice(sums[c]);
            let start = t.splat32(factor * i32::from(i16::from_le_bytes(halves[piece])));
            unrolled!(r < R { starts[r][c] = start; });
        });
    }
    starts
}

/// Adds the products of vector `v` of a group of codes: a word of activations in a register meets the codes of all
/// strips.
#[inline(always)]
fn add<
    B: Codes256<SCALES, MINIMA>,
    const SCALES: usize,
    const MINIMA: usize,
    const R: usize,
    const C: usize,
>(
    t: Lanes,
    blocks: &Blocks<'_, B::Block, R>,
    (group, v): (usize, usize),
    x: &[Record256; C],
    products: &mut Sums<I, R, C>,
) {
    let mut codes = [t.splat32(0); R];
    unrolled!(r < R { codes[r] = B::code(t, blocks[r].0, group, blocks[r].1, v); });
    unrolled!(c < C {
        let x = t.splat32(int(x[c].codes[group][v]));
        unrolled!(r < R { products[r][c] = t.dot4(products[r][c], codes[r], x); });
    });
    unrolled!(c < C {
        unrolled!(r < R { products[r][c] = t.pin(products[r][c]); });
    });
}

/// Adds products times scale `i` of their rows.
#[inline(always)]
fn add_scaled<
    B: Codes256<SCALES, MINIMA>,
    const SCALES: usize,
    const MINIMA: usize,
    const R: usize,
    const C: usize,
>(
    t: Lanes,
    blocks: &Blocks<'_, B::Block, R>,
    (scales, i): (&ScalesOf<I, SCALES, R>, usize),
    products: &Sums<I, R, C>,
    sums: &mut Sums<I, R, C>,
) {
    unrolled!(r < R {
        let scale = B::scale(t, blocks[r], &scales[r], i);
        unrolled!(c < C { sums[r][c] = t.pin(t.add32(sums[r][c], t.mul32(products[r][c], scale))); });
    });
}
