//! Codes of four bits into a table, with six-bit scales of 32 elements.

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_quant::blocks::IQ4_NL_VALUES;
use cera_quant::pack::strip_block_bytes;

use super::super::vectors::{Halves, Vector, Vectors, looked_up, shifted};
use super::Codes256;

/// A block of a strip.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Block {
    d: Halves,
    scales_h: Halves,
    scales_l: Vector,
    groups: [[Vector; 4]; 8],
}

const _: () = assert!(size_of::<Block>() == strip_block_bytes(Format::IQ4_XS));

/// The format `IQ4_XS`.
pub struct Iq4Xs;

impl Codes256<8, 0> for Iq4Xs {
    const FORMAT: Format = Format::IQ4_XS;
    const OFFSET: i32 = 128;
    const MAX: i32 = 255;
    type Block = Block;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Block, group: usize, part: usize, v: usize) -> T::I {
        looked_up(t, &const { shifted(IQ4_NL_VALUES, 128) }, &block.groups[group], part, v)
    }

    #[inline(always)]
    fn signed<T: Vectors>(t: T, block: &Block, group: usize, part: usize, v: usize) -> T::I {
        looked_up(t, &const { shifted(IQ4_NL_VALUES, 0) }, &block.groups[group], part, v)
    }

    #[inline(always)]
    fn d<T: Vectors>(t: T, block: &Block, part: usize) -> T::F {
        t.load_f16(&block.d, part)
    }

    /// Scale `j` has its low bits in half `j % 2` of byte `j / 2` of `scales_l`, its high two in bits `2j` of `scales_h`.
    #[inline(always)]
    fn scales<T: Vectors>(t: T, block: &Block, part: usize) -> [T::I; 8] {
        let lows = t.load(&block.scales_l, part);
        let tops = t.load_u16(&block.scales_h, part);
        let mut all = [t.splat32(0); 8];
        for (j, scale) in all.iter_mut().enumerate() {
            let low = t.and(t.shr(lows, 4 * j as u32), t.splat32(15));
            let top = t.and(t.shl(t.shr(tops, 2 * j as u32), 4), t.splat32(0x30));
            *scale = t.add32(t.or(low, top), t.splat32(-32));
        }
        all
    }
}
