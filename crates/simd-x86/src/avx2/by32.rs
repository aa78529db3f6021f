//! Products of formats of 32 elements a block.

#![allow(clippy::needless_range_loop, reason = "one index counts in several arrays")]

use cera_quant::Format;

use super::lanes::Lanes;
use super::sums::words;
use super::vectors::{F, I};
use crate::matrix::Kernel;
use crate::matrix::by32::{AHEAD, By32, Codes32, Scales};
use crate::matrix::records::Record32;
use crate::matrix::vectors::Vectors;

impl<B: Codes32> Kernel<Lanes> for By32<B> {
    const FORMAT: Format = B::FORMAT;
    type Block = B::Block;
    type Record = Record32;

    #[inline(always)]
    fn block<const C: usize>(t: Lanes, block: &B::Block, part: usize, x: &[Record32; C], acc: &mut [F; C]) {
        if C == 1 {
            t.prefetch(bytemuck::bytes_of(block), AHEAD);
        }
        let scales = Scales::of::<_, B>(t, block, part);
        let sums = if B::OFFSET == 128 {
            signed(t, B::signed(t, block, part), x)
        } else {
            unsigned::<B, C>(t, B::codes(t, block, part), x)
        };
        for c in 0..C {
            acc[c] = scales.link(t, sums[c], &x[c], acc[c]);
        }
    }
}

/// The exact dot products of a block with each token. Each vector of codes meets all tokens before the next one.
#[inline(always)]
fn unsigned<B: Codes32, const C: usize>(t: Lanes, codes: [I; 8], x: &[Record32; C]) -> [I; C] {
    let words = const { if B::OFFSET == 128 { 8 } else { words(B::OFFSET, B::MAX) } };
    assert!(B::OFFSET == 0 || words == 8, "the record has the pairs of 32 elements");
    let ones = t.splat16(1);
    let mut sums = [t.splat32(0); C];
    for first in (0..8).step_by(words) {
        let mut short = [t.splat32(0); C];
        for c in 0..C {
            short[c] = t.start(B::OFFSET, x[c].pairs);
        }
        for v in first..first + words {
            for c in 0..C {
                short[c] = t.add_word(short[c], codes[v], x[c].codes[v]);
            }
        }
        for c in 0..C {
            sums[c] = t.dot2(sums[c], short[c], ones);
        }
    }
    sums
}

/// As [`unsigned`], of signed codes up to -128.
#[inline(always)]
fn signed<const C: usize>(t: Lanes, codes: [I; 8], x: &[Record32; C]) -> [I; C] {
    let ones = t.splat16(1);
    let mut sums = [t.splat32(0); C];
    for v in 0..8 {
        let codes = (codes[v], t.magnitudes(codes[v]));
        for c in 0..C {
            sums[c] = t.add_signed(sums[c], codes, x[c].codes[v], ones);
        }
    }
    sums
}
