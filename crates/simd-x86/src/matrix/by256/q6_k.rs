//! Codes of six bits, with eight-bit scales of 16 elements.

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_quant::pack::strip_block_bytes;

use super::super::vectors::{Halves, Vector, Vectors, bit_pair, nibbles};
use super::Codes256;

/// A group of a block of a strip.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Sixes {
    nibbles: [Vector; 4],
    /// The fifth and sixth bits.
    pairs: [Vector; 2],
}

/// A block of a strip.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Block {
    d: Halves,
    scales: [Vector; 4],
    groups: [Sixes; 8],
}

const _: () = assert!(size_of::<Block>() == strip_block_bytes(Format::Q6_K));

/// The format `Q6_K`.
pub(crate) struct Q6K;

impl Codes256<16, 0> for Q6K {
    const FORMAT: Format = Format::Q6_K;
    const OFFSET: i32 = 32;
    const MAX: i32 = 63;
    type Block = Block;

    #[inline(always)]
    fn codes<T: Vectors>(t: T, block: &Block, group: usize, part: usize) -> [T::I; 8] {
        let Sixes { nibbles: low, pairs } = &block.groups[group];
        let mut codes = nibbles(t, low, part);
        for p in 0..2 {
            let pairs = t.load(&pairs[p], part);
            for i in 0..4 {
                codes[4 * p + i] = t.or(codes[4 * p + i], bit_pair(t, pairs, i as u32, 4));
            }
        }
        codes
    }

    #[inline(always)]
    fn d<T: Vectors>(t: T, block: &Block, part: usize) -> T::F {
        t.load_f16(&block.d, part)
    }

    #[inline(always)]
    fn scales<T: Vectors>(t: T, block: &Block, part: usize) -> [T::I; 16] {
        let mut all = [t.splat32(0); 16];
        for (v, vector) in block.scales.iter().enumerate() {
            let four = t.load(vector, part);
            for i in 0..4 {
                all[4 * v + i] = t.sar(t.shl(four, 24 - 8 * i as u32), 24);
            }
        }
        all
    }
}
