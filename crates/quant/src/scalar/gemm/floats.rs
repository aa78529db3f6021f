//! Formats without blocks: element after element in increasing order, or pair after pair.

use super::{Rows, Weights, link};
use crate::Format;
use crate::blocks::F16Le;
use crate::num::bf16_to_f32;

/// The activations of one element, of tokens that lie side by side.
#[inline(always)]
fn elements(records: &[u8]) -> impl Iterator<Item = f32> {
    records.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes))
}

/// Adds one product to every row of every token.
#[inline(always)]
fn add_products(w: &Rows<f32>, x: impl Iterator<Item = f32>, acc: &mut [Rows<f32>]) {
    for (acc, x) in acc.iter_mut().zip(x) {
        link(acc, w, &[x; 16]);
    }
}

pub(super) struct F32;

impl Weights for F32 {
    const FORMAT: Format = Format::F32;

    fn block(block: &[u8], records: &[u8], acc: &mut [Rows<f32>]) {
        let w = &block.as_chunks::<4>().0[..16];
        let w: Rows<f32> = std::array::from_fn(|row| f32::from_le_bytes(w[row]));
        add_products(&w, elements(records), acc);
    }
}

pub(super) struct F16;

impl Weights for F16 {
    const FORMAT: Format = Format::F16;

    fn block(block: &[u8], records: &[u8], acc: &mut [Rows<f32>]) {
        let w = &block.as_chunks::<2>().0[..16];
        let w: Rows<f32> = std::array::from_fn(|row| F16Le(w[row]).to_f32());
        add_products(&w, elements(records), acc);
    }
}

pub(super) struct Bf16;

impl Weights for Bf16 {
    const FORMAT: Format = Format::BF16;

    /// Of the two elements of a block the odd one comes first.
    fn block(block: &[u8], records: &[u8], acc: &mut [Rows<f32>]) {
        for odd in [1, 0] {
            let half = |pair: &[u8; 4]| bf16_to_f32(u16::from_le_bytes([pair[2 * odd], pair[2 * odd + 1]]));
            let w = &block.as_chunks::<4>().0[..16];
            let w: Rows<f32> = std::array::from_fn(|row| half(&w[row]));
            add_products(&w, records.as_chunks::<4>().0.iter().map(half), acc);
        }
    }
}
