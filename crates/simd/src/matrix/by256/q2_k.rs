//! Codes of two bits, with four-bit scales and minima of 16 elements.

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_quant::pack::strip_block_bytes;

use super::super::vectors::{Halves, Vector, Vectors, bit_pair};
use super::{Codes256, byte};

/// A block of a strip.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    d: Halves,
    dmin: Halves,
    /// Scales in the low, minima in the high halves of the bytes.
    scales: [Vector; 4],
    groups: [[Vector; 2]; 8],
}

const _: () = assert!(size_of::<Block>() == strip_block_bytes(Format::Q2_K));

/// The format `Q2_K`.
pub struct Q2K;

impl Codes256<16, 8> for Q2K {
    const FORMAT: Format = Format::Q2_K;
    const OFFSET: i32 = 0;
    const MAX: i32 = 3;
    type Block = Block;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Block, group: usize, part: usize, v: usize) -> T::I {
        bit_pair(t, t.load(&block.groups[group][v / 4], part), v as u32 % 4, 0)
    }

    #[inline(always)]
    fn d<T: Vectors>(t: T, block: &Block, part: usize) -> T::F {
        t.load_f16(&block.d, part)
    }

    #[inline(always)]
    fn scales<T: Vectors>(t: T, block: &Block, part: usize) -> [T::I; 16] {
        let mut all = [t.splat32(0); 16];
        for (v, vector) in block.scales.iter().enumerate() {
            let four = t.and(t.load(vector, part), t.splat8(0x0f));
            for i in 0..4 {
                all[4 * v + i] = byte(t, four, i);
            }
        }
        all
    }

    #[inline(always)]
    fn minima<T: Vectors>(t: T, block: &Block, part: usize) -> ([T::I; 8], T::F) {
        let mut all = [t.splat32(0); 8];
        for (v, vector) in block.scales.iter().enumerate() {
            let four = t.high4(t.load(vector, part));
            if T::SIGNED {
                all[v] = four;
                continue;
            }
            for i in 0..2 {
                all[2 * v + i] = t.or(byte(t, four, 2 * i), t.shl(byte(t, four, 2 * i + 1), 16));
            }
        }
        (all, t.load_f16(&block.dmin, part))
    }
}
