//! Codes of eight bits.

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_quant::pack::strip_block_bytes;

use super::super::vectors::{Halves, Vector, Vectors};
use super::Codes32;

/// A block of a strip of `Q8_0`: the codes are two's complement.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Bytes {
    d: Halves,
    bytes: [Vector; 8],
}

const _: () = assert!(size_of::<Bytes>() == strip_block_bytes(Format::Q8_0));

/// The format `Q8_0`.
pub struct Q8_0;

impl Codes32 for Q8_0 {
    const FORMAT: Format = Format::Q8_0;
    const OFFSET: i32 = 128;
    const MAX: i32 = 255;
    type Block = Bytes;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Bytes, part: usize, v: usize) -> T::I {
        t.xor(t.load(&block.bytes[v], part), t.splat8(0x80))
    }

    #[inline(always)]
    fn signed<T: Vectors>(t: T, block: &Bytes, part: usize, v: usize) -> T::I {
        t.load(&block.bytes[v], part)
    }

    #[inline(always)]
    fn scale<T: Vectors>(t: T, block: &Bytes, part: usize) -> T::F {
        t.load_f16(&block.d, part)
    }
}
