//! Codes of six bits, with eight-bit scales of 16 elements.

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_quant::pack::strip_block_bytes;

use super::super::vectors::{Halves, Vector, Vectors, bit_pair, nibble};
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
pub struct Block {
    d: Halves,
    scales: [Vector; 4],
    groups: [Sixes; 8],
}

const _: () = assert!(size_of::<Block>() == strip_block_bytes(Format::Q6_K));

/// The format `Q6_K`.
pub struct Q6K;

impl Codes256<16, 0> for Q6K {
    const FORMAT: Format = Format::Q6_K;
    const OFFSET: i32 = 32;
    const MAX: i32 = 63;
    type Block = Block;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Block, group: usize, part: usize, v: usize) -> T::I {
        let Sixes { nibbles: low, pairs } = &block.groups[group];
        t.or(nibble(t, low, part, v), bit_pair(t, t.load(&pairs[v / 4], part), v as u32 % 4, 4))
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
