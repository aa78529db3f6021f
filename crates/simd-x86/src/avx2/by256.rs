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
        scales: (&ScalesOf<I, SCALES, R>, usize),
        x: &[Record256; C],
        sums: &mut Sums<I, R, C>,
    ) {
        match B::OFFSET {
            128 => add_signed::<B, SCALES, MINIMA, R, C>(self, blocks, scales, x, sums),
            _ => add_unsigned::<B, SCALES, MINIMA, R, C>(self, blocks, scales, x, sums),
        }
    }
}

/// A scale that fits 16 bits as both i16 of its i32.
#[inline(always)]
fn twice(t: Lanes, scale: I) -> I {
    t.or(t.and(scale, t.splat32(0xffff)), t.shl(scale, 16))
}

/// Adds a group to the sums: for each vector of codes a word of activations in a register meets the codes of all groups
/// of rows.
#[inline(always)]
fn add_unsigned<
    B: Codes256<SCALES, MINIMA>,
    const SCALES: usize,
    const MINIMA: usize,
    const R: usize,
    const C: usize,
>(
    t: Lanes,
    blocks: &Blocks<'_, B::Block, R>,
    (scales, group): (&ScalesOf<I, SCALES, R>, usize),
    x: &[Record256; C],
    sums: &mut Sums<I, R, C>,
) {
    let words = const {
        if B::OFFSET == 128 {
            8
        } else if SCALES == 16 {
            4
        } else {
            words(B::OFFSET, B::MAX)
        }
    };
    assert!(B::OFFSET == 0 || words == 4, "pairs of 16 elements");
    let mut short = [[t.splat32(0); C]; R];
    unrolled!(v in [0 1 2 3 4 5 6 7] {
        if v.is_multiple_of(words) {
            unrolled!(c < C {
                let start = t.start(B::OFFSET, x[c].pairs16[2 * group + v / 4]);
                unrolled!(r < R { short[r][c] = start; });
            });
        }
        let mut codes = [t.splat32(0); R];
        unrolled!(r < R { codes[r] = B::code(t, blocks[r].0, group, blocks[r].1, v); });
        unrolled!(c < C {
            let x = t.splat32(int(x[c].codes[group][v]));
            unrolled!(r < R { short[r][c] = t.add16(short[r][c], t.byte_pairs(codes[r], x)); });
        });
        if (v + 1).is_multiple_of(words) {
            unrolled!(r < R {
                let scale = twice(t, B::scale(t, blocks[r], &scales[r], (2 * group + v / 4) * SCALES / 16));
                unrolled!(c < C { sums[r][c] = t.dot2(sums[r][c], short[r][c], scale); });
            });
        }
    });
}

/// As [`add_unsigned`], of signed codes up to -128.
#[inline(always)]
fn add_signed<
    B: Codes256<SCALES, MINIMA>,
    const SCALES: usize,
    const MINIMA: usize,
    const R: usize,
    const C: usize,
>(
    t: Lanes,
    blocks: &Blocks<'_, B::Block, R>,
    (scales, group): (&ScalesOf<I, SCALES, R>, usize),
    x: &[Record256; C],
    sums: &mut Sums<I, R, C>,
) {
    unrolled!(v in [0 1 2 3 4 5 6 7] {
        let mut codes = [(t.splat32(0), t.splat32(0)); R];
        unrolled!(r < R {
            let signed = B::signed(t, blocks[r].0, group, blocks[r].1, v);
            codes[r] = (signed, t.magnitudes(signed));
        });
        unrolled!(c < C {
            let x = t.splat32(int(x[c].codes[group][v]));
            unrolled!(r < R {
                let scale = twice(t, B::scale(t, blocks[r], &scales[r], (2 * group + v / 4) * SCALES / 16));
                sums[r][c] = t.add_signed(sums[r][c], codes[r], x, scale);
            });
        });
    });
}
