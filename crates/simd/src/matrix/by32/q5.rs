//! Codes of five bits.

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_quant::pack::strip_block_bytes;

use super::super::vectors::{Halves, Vector, Vectors, with_fifth_bit};
use super::Codes32;

/// A block of a strip of `Q5_0`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Fives {
    d: Halves,
    nibbles: [Vector; 4],
    fifth: Vector,
}

/// A block of a strip of `Q5_1`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct FivesAndMinima {
    d: Halves,
    m: Halves,
    nibbles: [Vector; 4],
    fifth: Vector,
}

const _: () = {
    assert!(size_of::<Fives>() == strip_block_bytes(Format::Q5_0));
    assert!(size_of::<FivesAndMinima>() == strip_block_bytes(Format::Q5_1));
};

/// The format `Q5_0`.
pub struct Q5_0;

impl Codes32 for Q5_0 {
    const FORMAT: Format = Format::Q5_0;
    const OFFSET: i32 = 16;
    const MAX: i32 = 31;
    type Block = Fives;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Fives, part: usize, v: usize) -> T::I {
        with_fifth_bit(t, &block.nibbles, &block.fifth, part, v)
    }

    #[inline(always)]
    fn scale<T: Vectors>(t: T, block: &Fives, part: usize) -> T::F {
        t.load_f16(&block.d, part)
    }
}

/// The format `Q5_1`.
pub struct Q5_1;

impl Codes32 for Q5_1 {
    const FORMAT: Format = Format::Q5_1;
    const OFFSET: i32 = 0;
    const MAX: i32 = 31;
    const MINIMA: bool = true;
    type Block = FivesAndMinima;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &FivesAndMinima, part: usize, v: usize) -> T::I {
        with_fifth_bit(t, &block.nibbles, &block.fifth, part, v)
    }

    #[inline(always)]
    fn scale<T: Vectors>(t: T, block: &FivesAndMinima, part: usize) -> T::F {
        t.load_f16(&block.d, part)
    }

    #[inline(always)]
    fn minimum<T: Vectors>(t: T, block: &FivesAndMinima, part: usize) -> T::F {
        t.load_f16(&block.m, part)
    }
}
