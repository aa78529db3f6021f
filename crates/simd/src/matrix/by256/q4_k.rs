//! Codes of four and five bits, with six-bit scales and minima of 32 elements.

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_quant::pack::strip_block_bytes;

use super::super::vectors::{Halves, Vector, Vectors, nibble, with_fifth_bit};
use super::{Codes256, byte};

/// Scales and minima of a block of a strip.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Head {
    d: Halves,
    dmin: Halves,
    /// Twelve bytes of a row: 0..4, 4..8 and 8..12, as [`cera_quant::blocks::k_scales`] reads them.
    scales: [Vector; 3],
}

/// A block of a strip of `Q4_K`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Block4 {
    head: Head,
    groups: [[Vector; 4]; 8],
}

/// A group of a block of a strip of `Q5_K`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Fives {
    nibbles: [Vector; 4],
    fifth: Vector,
}

/// A block of a strip of `Q5_K`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Block5 {
    head: Head,
    groups: [Fives; 8],
}

const _: () = {
    assert!(size_of::<Block4>() == strip_block_bytes(Format::Q4_K));
    assert!(size_of::<Block5>() == strip_block_bytes(Format::Q5_K));
};

impl Head {
    /// Numbers 0 to 3, and then 4 to 7, as the bytes of an i32: of the scales, and of the minima.
    #[inline(always)]
    fn numbers<T: Vectors>(&self, t: T, part: usize) -> [[T::I; 2]; 2] {
        let low_scales = t.load(&self.scales[0], part);
        let low_minima = t.load(&self.scales[1], part);
        let high = t.load(&self.scales[2], part);
        let six = t.splat8(63);
        let four = t.splat8(15);
        let two = t.splat8(0x30);
        // The two bits above the six, at bits 4 and 5.
        let tops = [t.and(t.shr(low_scales, 2), two), t.and(t.shr(low_minima, 2), two)];
        [
            [t.and(low_scales, six), t.or(t.and(high, four), tops[0])],
            [t.and(low_minima, six), t.or(t.and(t.shr(high, 4), four), tops[1])],
        ]
    }

    #[inline(always)]
    fn scales<T: Vectors>(&self, t: T, part: usize) -> [T::I; 8] {
        let [scales, _] = self.numbers(t, part);
        let mut all = [t.splat32(0); 8];
        for (i, scale) in all.iter_mut().enumerate() {
            *scale = byte(t, scales[i / 4], i % 4);
        }
        all
    }

    #[inline(always)]
    fn minima<T: Vectors>(&self, t: T, part: usize) -> ([T::I; 4], T::F) {
        let [_, minima] = self.numbers(t, part);
        let mut pairs = [t.splat32(0); 4];
        if T::SIGNED {
            pairs[..2].copy_from_slice(&minima);
            return (pairs, t.load_f16(&self.dmin, part));
        }
        for (i, pair) in pairs.iter_mut().enumerate() {
            let (word, first) = (minima[i / 2], 2 * (i % 2));
            *pair = t.or(byte(t, word, first), t.shl(byte(t, word, first + 1), 16));
        }
        (pairs, t.load_f16(&self.dmin, part))
    }
}

/// The format `Q4_K`.
pub struct Q4K;

impl Codes256<8, 4> for Q4K {
    const FORMAT: Format = Format::Q4_K;
    const OFFSET: i32 = 0;
    const MAX: i32 = 15;
    type Block = Block4;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Block4, group: usize, part: usize, v: usize) -> T::I {
        nibble(t, &block.groups[group], part, v)
    }

    #[inline(always)]
    fn d<T: Vectors>(t: T, block: &Block4, part: usize) -> T::F {
        t.load_f16(&block.head.d, part)
    }

    #[inline(always)]
    fn scales<T: Vectors>(t: T, block: &Block4, part: usize) -> [T::I; 8] {
        block.head.scales(t, part)
    }

    #[inline(always)]
    fn minima<T: Vectors>(t: T, block: &Block4, part: usize) -> ([T::I; 4], T::F) {
        block.head.minima(t, part)
    }
}

/// The format `Q5_K`.
pub struct Q5K;

impl Codes256<8, 4> for Q5K {
    const FORMAT: Format = Format::Q5_K;
    const OFFSET: i32 = 0;
    const MAX: i32 = 31;
    type Block = Block5;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Block5, group: usize, part: usize, v: usize) -> T::I {
        with_fifth_bit(t, &block.groups[group].nibbles, &block.groups[group].fifth, part, v)
    }

    #[inline(always)]
    fn d<T: Vectors>(t: T, block: &Block5, part: usize) -> T::F {
        t.load_f16(&block.head.d, part)
    }

    #[inline(always)]
    fn scales<T: Vectors>(t: T, block: &Block5, part: usize) -> [T::I; 8] {
        block.head.scales(t, part)
    }

    #[inline(always)]
    fn minima<T: Vectors>(t: T, block: &Block5, part: usize) -> ([T::I; 4], T::F) {
        block.head.minima(t, part)
    }
}
