//! Codes of eight bits.

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_quant::pack::strip_block_bytes;

use super::super::vectors::{Halves, Vector, Vectors};
use super::Codes32;

/// A block of a strip of `Q8_0`: the codes are two's complement.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Bytes {
    d: Halves,
    bytes: [Vector; 8],
}

const _: () = assert!(size_of::<Bytes>() == strip_block_bytes(Format::Q8_0));

/// The format `Q8_0`.
pub(crate) struct Q8_0;

impl Codes32 for Q8_0 {
    const FORMAT: Format = Format::Q8_0;
    const OFFSET: i32 = 128;
    const MAX: i32 = 255;
    type Block = Bytes;

    #[inline(always)]
    fn codes<T: Vectors>(t: T, block: &Bytes, part: usize) -> [T::I; 8] {
        let mut codes = Self::signed(t, block, part);
        for code in &mut codes {
            *code = t.xor(*code, t.splat8(0x80));
        }
        codes
    }

    #[inline(always)]
    fn signed<T: Vectors>(t: T, block: &Bytes, part: usize) -> [T::I; 8] {
        let mut codes = [t.splat32(0); 8];
        for (code, vector) in codes.iter_mut().zip(&block.bytes) {
            *code = t.load(vector, part);
        }
        codes
    }

    #[inline(always)]
    fn scale<T: Vectors>(t: T, block: &Bytes, part: usize) -> T::F {
        t.load_f16(&block.d, part)
    }
}
