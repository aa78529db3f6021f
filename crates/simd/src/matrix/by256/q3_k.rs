//! Codes of three bits, with six-bit scales of 16 elements.

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_quant::pack::strip_block_bytes;

use super::super::vectors::{Halves, Vector, Vectors, bit_pair, move_bit};
use super::{Codes256, byte};

/// A group of a block of a strip.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Threes {
    pairs: [Vector; 2],
    third: Vector,
}

/// A block of a strip.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    d: Halves,
    /// Twelve bytes of a row: 0..4, 4..8 and 8..12, as [`cera_quant::blocks::q3_k_scales`] reads them.
    scales: [Vector; 3],
    groups: [Threes; 8],
}

const _: () = assert!(size_of::<Block>() == strip_block_bytes(Format::Q3_K));

/// The format `Q3_K`.
pub struct Q3K;

impl Codes256<16, 0> for Q3K {
    const FORMAT: Format = Format::Q3_K;
    const OFFSET: i32 = 4;
    const MAX: i32 = 7;
    type Block = Block;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Block, group: usize, part: usize, v: usize) -> T::I {
        let Threes { pairs, third } = &block.groups[group];
        let third = move_bit(t, t.load(third, part), v as u32, 2);
        t.or(bit_pair(t, t.load(&pairs[v / 4], part), v as u32 % 4, 0), third)
    }

    #[inline(always)]
    fn d<T: Vectors>(t: T, block: &Block, part: usize) -> T::F {
        t.load_f16(&block.d, part)
    }

    /// Scale `j` has its low bits in half `j / 8` of byte `j % 8`, its high two in bits `2 * (j / 4)` of byte
    /// `8 + j % 4`.
    #[inline(always)]
    fn scales<T: Vectors>(t: T, block: &Block, part: usize) -> [T::I; 16] {
        let tops = t.load(&block.scales[2], part);
        let mut all = [t.splat32(0); 16];
        for quarter in 0..4 {
            let lows = t.shr(t.load(&block.scales[quarter % 2], part), 4 * (quarter as u32 / 2));
            let four = t.or(t.and(lows, t.splat8(0x0f)), bit_pair(t, tops, quarter as u32, 4));
            for i in 0..4 {
                all[4 * quarter + i] = t.add32(byte(t, four, i), t.splat32(-32));
            }
        }
        all
    }
}
