//! Products of formats of 32 elements a block.

#![allow(clippy::needless_range_loop, reason = "one index counts in several arrays")]

use cera_quant::Format;

use super::lanes::Lanes;
use super::vectors::{F, I};
use crate::matrix::Kernel;
use crate::matrix::by32::{AHEAD, By32, Codes32, Scales};
use crate::matrix::records::{Record32, int};
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
        let w = Weights {
            offset: B::OFFSET,
            codes: B::codes(t, block, part),
            scales: Scales::of::<_, B>(t, block, part),
        };
        for_columns!(C, add(t, &w, x, acc));
    }
}

/// An unpacked block.
struct Weights {
    offset: i32,
    codes: [I; 8],
    scales: Scales<F>,
}

/// Adds the products with `N` tokens from token `first`. Their chains of dot products alternate, and start at
/// `-offset * sum of the activation codes`.
#[inline(always)]
fn add<const N: usize>(first: usize, t: Lanes, w: &Weights, x: &[Record32], acc: &mut [F]) {
    let (x, acc) = (&x[first..first + N], &mut acc[first..first + N]);
    let mut sums = [t.splat32(0); N];
    for i in 0..N {
        sums[i] = t.splat32(-w.offset * int(x[i].sum));
    }
    for v in 0..8 {
        for i in 0..N {
            sums[i] = t.dot4(sums[i], w.codes[v], t.splat32(int(x[i].codes[v])));
        }
    }
    for i in 0..N {
        acc[i] = w.scales.link(t, sums[i], &x[i], acc[i]);
    }
}
