//! Products of formats of 256 elements a block.

#![allow(clippy::needless_range_loop, reason = "one index counts in several arrays")]

use cera_quant::Format;

use super::lanes::Lanes;
use super::vectors::{F, I};
use crate::matrix::Kernel;
use crate::matrix::by256::{By256, Codes256, Scales, prefetch_eighth};
use crate::matrix::records::{Record256, Word, int};
use crate::matrix::vectors::Vectors;

impl<B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize> Kernel<Lanes>
    for By256<B, SCALES, MINIMA>
{
    const FORMAT: Format = B::FORMAT;
    type Block = B::Block;
    type Record = Record256;

    #[inline(always)]
    fn block<const C: usize>(t: Lanes, block: &B::Block, part: usize, x: &[Record256; C], acc: &mut [F; C]) {
        let scales = B::scales(t, block, part);
        let mut sums = [t.splat32(0); C];
        for group in 0..8 {
            if C == 1 {
                prefetch_eighth(t, block, group);
            }
            let w = Group {
                offset: B::OFFSET,
                group,
                codes: B::codes(t, block, group, part),
                scales: [scales[2 * group * SCALES / 16], scales[(2 * group + 1) * SCALES / 16]],
            };
            if SCALES == 8 {
                for_columns!(C, add_whole(t, &w, x, &mut sums));
            } else {
                for_columns!(C, add_halves(t, &w, x, &mut sums));
            }
        }
        let scales = Scales::of::<_, B, SCALES>(t, block, part);
        for_columns!(C, finish::<MINIMA>(t, &scales, x, &sums, acc));
    }
}

/// An unpacked group of 32 elements.
struct Group {
    offset: i32,
    group: usize,
    codes: [I; 8],
    /// The scales of the two halves.
    scales: [I; 2],
}

/// Number `i` of numbers of 16 bits, two in a word.
#[inline(always)]
fn half(words: &[Word], i: usize) -> i32 {
    let word = words[i / 2];
    i32::from(i16::from_le_bytes([word[2 * (i % 2)], word[2 * (i % 2) + 1]]))
}

/// Adds a group with one scale to the sums of `N` tokens from token `first`. Their chains of dot products alternate,
/// and start at `-offset * sum of the activation codes`.
#[inline(always)]
fn add_whole<const N: usize>(first: usize, t: Lanes, w: &Group, x: &[Record256], sums: &mut [I]) {
    let (x, sums) = (&x[first..first + N], &mut sums[first..first + N]);
    let mut products = [t.splat32(0); N];
    for i in 0..N {
        products[i] = t.splat32(-w.offset * half(&x[i].sums32, w.group));
    }
    for v in 0..8 {
        for i in 0..N {
            products[i] = t.dot4(products[i], w.codes[v], t.splat32(int(x[i].codes[w.group][v])));
        }
    }
    for i in 0..N {
        sums[i] = t.add32(sums[i], t.mul32(products[i], w.scales[0]));
    }
}

/// As [`add_whole`], with a scale for each half of the group.
#[inline(always)]
fn add_halves<const N: usize>(first: usize, t: Lanes, w: &Group, x: &[Record256], sums: &mut [I]) {
    let (x, sums) = (&x[first..first + N], &mut sums[first..first + N]);
    let mut products = [[t.splat32(0); 2]; N];
    for i in 0..N {
        for piece in 0..2 {
            products[i][piece] = t.splat32(-w.offset * half(&x[i].sums16, 2 * w.group + piece));
        }
    }
    for v in 0..4 {
        for i in 0..N {
            let x = &x[i].codes[w.group];
            for piece in 0..2 {
                let v = 4 * piece + v;
                products[i][piece] = t.dot4(products[i][piece], w.codes[v], t.splat32(int(x[v])));
            }
        }
    }
    for i in 0..N {
        for piece in 0..2 {
            sums[i] = t.add32(sums[i], t.mul32(products[i][piece], w.scales[piece]));
        }
    }
}

/// Adds a block to the results of `N` tokens from token `first`.
#[inline(always)]
fn finish<const N: usize, const MINIMA: usize>(
    first: usize,
    t: Lanes,
    scales: &Scales<I, F, MINIMA>,
    x: &[Record256],
    sums: &[I],
    acc: &mut [F],
) {
    for i in first..first + N {
        acc[i] = scales.link(t, sums[i], &x[i], acc[i]);
    }
}
