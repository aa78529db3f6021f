//! Formats without blocks: chains over single elements, or over pairs of bf16.

#![allow(clippy::needless_range_loop, reason = "one index counts in several arrays")]

use cera_quant::Format;
use cera_quant::pack::strip_block_bytes;

use super::Kernel;
use super::records::{Word, float, int};
use super::vectors::{Halves, Vector, Vectors};

const _: () = {
    assert!(size_of::<Vector>() == strip_block_bytes(Format::F32));
    assert!(size_of::<Halves>() == strip_block_bytes(Format::F16));
    assert!(size_of::<Vector>() == strip_block_bytes(Format::BF16));
};

/// How many bytes ahead of the element that it works on a kernel for one token fetches, in each of its strips.
/// Measured by `examples/peak.rs`.
pub(crate) const AHEAD: usize = 4 << 10;

/// Adds the products of one element of each row.
#[inline(always)]
fn add<T: Vectors, const C: usize>(t: T, w: T::F, x: &[Word; C], acc: &mut [T::F; C]) {
    for c in 0..C {
        acc[c] = t.fma(w, t.splat(float(x[c])), acc[c]);
    }
}

/// The kernel of `F32`.
pub(crate) struct F32;

impl<T: Vectors> Kernel<T> for F32 {
    const FORMAT: Format = Format::F32;
    type Block = Vector;
    type Record = Word;

    #[inline(always)]
    fn block<const C: usize>(t: T, block: &Vector, part: usize, x: &[Word; C], acc: &mut [T::F; C]) {
        if C == 1 {
            t.prefetch(block, AHEAD);
        }
        add(t, t.as_f32(t.load(block, part)), x, acc);
    }
}

/// The kernel of `F16`.
pub(crate) struct F16;

impl<T: Vectors> Kernel<T> for F16 {
    const FORMAT: Format = Format::F16;
    type Block = Halves;
    type Record = Word;

    #[inline(always)]
    fn block<const C: usize>(t: T, block: &Halves, part: usize, x: &[Word; C], acc: &mut [T::F; C]) {
        if C == 1 {
            t.prefetch(block, AHEAD);
        }
        add(t, t.load_f16(block, part), x, acc);
    }
}

/// The kernel of `BF16` by f32 operations: of the two elements of a pair the odd one comes first.
pub(crate) struct Bf16;

impl<T: Vectors> Kernel<T> for Bf16 {
    const FORMAT: Format = Format::BF16;
    type Block = Vector;
    type Record = Word;

    #[inline(always)]
    fn block<const C: usize>(t: T, block: &Vector, part: usize, x: &[Word; C], acc: &mut [T::F; C]) {
        if C == 1 {
            t.prefetch(block, AHEAD);
        }
        let w = t.load(block, part);
        let (odd, even) = (odd(t, w), even(t, w));
        for c in 0..C {
            let x = t.splat32(int(x[c]));
            acc[c] = t.fma(odd, self::odd(t, x), acc[c]);
            acc[c] = t.fma(even, self::even(t, x), acc[c]);
        }
    }
}

/// The second bf16 of each pair.
#[inline(always)]
fn odd<T: Vectors>(t: T, pairs: T::I) -> T::F {
    t.as_f32(t.and(pairs, t.splat32(-0x1_0000)))
}

/// The first bf16 of each pair.
#[inline(always)]
fn even<T: Vectors>(t: T, pairs: T::I) -> T::F {
    t.as_f32(t.shl(pairs, 16))
}
