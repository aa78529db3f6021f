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

    #[inline(always)]
    fn products<B: Codes32, const R: usize, const C: usize>(
        self,
        blocks: &Blocks<'_, B::Block, R>,
        x: &[Record32; C],
    ) -> Sums<I, R, C> {
        match B::OFFSET {
            128 => signed::<B, R, C>(self, blocks, x),
            _ => unsigned::<B, R, C>(self, blocks, x),
        }
    }
}

/// The exact dot products: for each vector of codes a word of activations in a register meets the codes of all groups.
#[inline(always)]
fn unsigned<B: Codes32, const R: usize, const C: usize>(
    t: Lanes,
    blocks: &Blocks<'_, B::Block, R>,
    x: &[Record32; C],
) -> Sums<I, R, C> {
    let words = const { if B::OFFSET == 128 { 8 } else { words(B::OFFSET, B::MAX) } };
    assert!(B::OFFSET == 0 || words == 8, "the record has the pairs of 32 elements");
    let mut sums = [[t.splat32(0); C]; R];
    let mut short = sums;
    unrolled!(v in [0 1 2 3 4 5 6 7] {
        if v.is_multiple_of(words) {
            unrolled!(c < C {
                let start = t.start(B::OFFSET, x[c].pairs);
                unrolled!(r < R { short[r][c] = start; });
            });
        }
        let mut codes = [t.splat32(0); R];
        unrolled!(r < R { codes[r] = B::code(t, blocks[r].0, blocks[r].1, v); });
        unrolled!(c < C {
            let x = t.splat32(int(x[c].codes[v]));
            unrolled!(r < R { short[r][c] = t.add16(short[r][c], t.byte_pairs(codes[r], x)); });
        });
        if (v + 1).is_multiple_of(words) {
            unrolled!(r < R {
                unrolled!(c < C { sums[r][c] = t.dot2(sums[r][c], short[r][c], t.splat16(1)); });
            });
        }
    });
    sums
}

/// As [`unsigned`], of signed codes up to -128.
#[inline(always)]
fn signed<B: Codes32, const R: usize, const C: usize>(
    t: Lanes,
    blocks: &Blocks<'_, B::Block, R>,
    x: &[Record32; C],
) -> Sums<I, R, C> {
    let mut sums = [[t.splat32(0); C]; R];
    unrolled!(v in [0 1 2 3 4 5 6 7] {
        let mut codes = [(t.splat32(0), t.splat32(0)); R];
        unrolled!(r < R {
            let signed = B::signed(t, blocks[r].0, blocks[r].1, v);
            codes[r] = (signed, t.magnitudes(signed));
        });
        unrolled!(c < C {
            let x = t.splat32(int(x[c].codes[v]));
            unrolled!(r < R { sums[r][c] = t.add_signed(sums[r][c], codes[r], x, t.splat16(1)); });
        });
    });
    sums
}
