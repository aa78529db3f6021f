//! Codes of four bits.

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_quant::blocks::{IQ4_NL_VALUES, MXFP4_VALUES};
use cera_quant::pack::strip_block_bytes;

use super::super::vectors::{Halves, Vector, Vectors, looked_up, nibble, shifted};
use super::Codes32;

/// A block of a strip of `Q4_0` or `IQ4_NL`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Nibbles {
    d: Halves,
    nibbles: [Vector; 4],
}

/// A block of a strip of `Q4_1`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct NibblesAndMinima {
    d: Halves,
    m: Halves,
    nibbles: [Vector; 4],
}

/// A block of a strip of `MXFP4`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct NibblesAndExponents {
    e: [u8; 16],
    nibbles: [Vector; 4],
}

const _: () = {
    assert!(size_of::<Nibbles>() == strip_block_bytes(Format::Q4_0));
    assert!(size_of::<Nibbles>() == strip_block_bytes(Format::IQ4_NL));
    assert!(size_of::<NibblesAndMinima>() == strip_block_bytes(Format::Q4_1));
    assert!(size_of::<NibblesAndExponents>() == strip_block_bytes(Format::MXFP4));
};

/// The format `Q4_0`.
pub struct Q4_0;

impl Codes32 for Q4_0 {
    const FORMAT: Format = Format::Q4_0;
    const OFFSET: i32 = 8;
    const MAX: i32 = 15;
    type Block = Nibbles;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Nibbles, part: usize, v: usize) -> T::I {
        nibble(t, &block.nibbles, part, v)
    }

    #[inline(always)]
    fn scale<T: Vectors>(t: T, block: &Nibbles, part: usize) -> T::F {
        t.load_f16(&block.d, part)
    }
}

/// The format `Q4_1`.
pub struct Q4_1;

impl Codes32 for Q4_1 {
    const FORMAT: Format = Format::Q4_1;
    const OFFSET: i32 = 0;
    const MAX: i32 = 15;
    const MINIMA: bool = true;
    type Block = NibblesAndMinima;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &NibblesAndMinima, part: usize, v: usize) -> T::I {
        nibble(t, &block.nibbles, part, v)
    }

    #[inline(always)]
    fn scale<T: Vectors>(t: T, block: &NibblesAndMinima, part: usize) -> T::F {
        t.load_f16(&block.d, part)
    }

    #[inline(always)]
    fn minimum<T: Vectors>(t: T, block: &NibblesAndMinima, part: usize) -> T::F {
        t.load_f16(&block.m, part)
    }
}

/// The format `IQ4_NL`.
pub struct Iq4Nl;

impl Codes32 for Iq4Nl {
    const FORMAT: Format = Format::IQ4_NL;
    const OFFSET: i32 = 128;
    const MAX: i32 = 255;
    type Block = Nibbles;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Nibbles, part: usize, v: usize) -> T::I {
        looked_up(t, &const { shifted(IQ4_NL_VALUES, 128) }, &block.nibbles, part, v)
    }

    #[inline(always)]
    fn signed<T: Vectors>(t: T, block: &Nibbles, part: usize, v: usize) -> T::I {
        looked_up(t, &const { shifted(IQ4_NL_VALUES, 0) }, &block.nibbles, part, v)
    }

    #[inline(always)]
    fn scale<T: Vectors>(t: T, block: &Nibbles, part: usize) -> T::F {
        t.load_f16(&block.d, part)
    }
}

/// The format `MXFP4`.
pub struct Mxfp4;

impl Codes32 for Mxfp4 {
    const FORMAT: Format = Format::MXFP4;
    const OFFSET: i32 = 12;
    const MAX: i32 = 24;
    type Block = NibblesAndExponents;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &NibblesAndExponents, part: usize, v: usize) -> T::I {
        looked_up(t, &const { shifted(MXFP4_VALUES, 12) }, &block.nibbles, part, v)
    }

    #[inline(always)]
    fn scale<T: Vectors>(t: T, block: &NibblesAndExponents, part: usize) -> T::F {
        t.load_e8m0(&block.e, part)
    }
}
