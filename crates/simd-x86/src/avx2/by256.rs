//! Products of formats of 256 elements a block.

#![allow(clippy::needless_range_loop, reason = "one index counts in several arrays")]

use cera_quant::Format;

use super::lanes::Lanes;
use super::sums::words;
use super::vectors::{F, I};
use crate::matrix::Kernel;
use crate::matrix::by256::{By256, Codes256, Scales, prefetch_eighth};
use crate::matrix::records::Record256;
use crate::matrix::vectors::Vectors;

impl<B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize> Kernel<Lanes>
    for By256<B, SCALES, MINIMA>
{
    const FORMAT: Format = B::FORMAT;
    type Block = B::Block;
    type Record = Record256;

    #[inline(always)]
    fn block<const C: usize>(t: Lanes, block: &B::Block, part: usize, x: &[Record256; C], acc: &mut [F; C]) {
        let mut scales = B::scales(t, block, part);
        for scale in &mut scales {
            *scale = twice(t, *scale);
        }
        let mut sums = [t.splat32(0); C];
        for group in 0..8 {
            if C == 1 {
                prefetch_eighth(t, block, group);
            }
            let w = Group {
                offset: B::OFFSET,
                words: const {
                    if B::OFFSET == 128 {
                        8
                    } else if SCALES == 16 {
                        4
                    } else {
                        words(B::OFFSET, B::MAX)
                    }
                },
                group,
                scales: [scales[2 * group * SCALES / 16], scales[(2 * group + 1) * SCALES / 16]],
            };
            if B::OFFSET == 128 {
                add_signed(t, &w, B::signed(t, block, group, part), x, &mut sums);
            } else {
                add_unsigned(t, &w, B::codes(t, block, group, part), x, &mut sums);
            }
        }
        let scales = Scales::of::<_, B, SCALES>(t, block, part);
        for c in 0..C {
            acc[c] = scales.link(t, sums[c], &x[c], acc[c]);
        }
    }
}

/// A scale that fits 16 bits as both i16 of its i32.
#[inline(always)]
fn twice(t: Lanes, scale: I) -> I {
    t.or(t.and(scale, t.splat32(0xffff)), t.shl(scale, 16))
}

/// A group of 32 elements.
struct Group {
    offset: i32,
    /// Words of codes whose products are added up in 16 bits.
    words: usize,
    group: usize,
    /// The scales of the two halves.
    scales: [I; 2],
}

/// Adds a group to the sums of each token. Each vector of codes meets all tokens before the next one.
#[inline(always)]
fn add_unsigned<const C: usize>(t: Lanes, w: &Group, codes: [I; 8], x: &[Record256; C], sums: &mut [I; C]) {
    assert!(w.offset == 0 || w.words == 4, "pairs of 16 elements");
    for first in (0..8).step_by(w.words) {
        let mut short = [t.splat32(0); C];
        for c in 0..C {
            short[c] = t.start(w.offset, x[c].pairs16[2 * w.group + first / 4]);
        }
        for v in first..first + w.words {
            for c in 0..C {
                short[c] = t.add_word(short[c], codes[v], x[c].codes[w.group][v]);
            }
        }
        for c in 0..C {
            sums[c] = t.dot2(sums[c], short[c], w.scales[first / 4]);
        }
    }
}

/// As [`add_unsigned`], of signed codes up to -128.
#[inline(always)]
fn add_signed<const C: usize>(t: Lanes, w: &Group, codes: [I; 8], x: &[Record256; C], sums: &mut [I; C]) {
    for v in 0..8 {
        let codes = (codes[v], t.magnitudes(codes[v]));
        for c in 0..C {
            sums[c] = t.add_signed(sums[c], codes, x[c].codes[w.group][v], w.scales[v / 4]);
        }
    }
}
