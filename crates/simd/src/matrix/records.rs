//! The activation records as bytes, which have no alignment.

use std::mem::offset_of;

use bytemuck::{Pod, Zeroable};
use cera_quant::acts::{Q8x32, Q8x256};

/// Four bytes that are broadcast to every row: an f32, an i32, two i16, or four codes.
pub type Word = [u8; 4];

/// [`Q8x32`] without alignment.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Record32 {
    /// The scale of the codes.
    pub scale: Word,
    /// The sum of the codes.
    pub sum: Word,
    /// The sum, times the scale.
    pub scaled_sum: Word,
    /// The sums of the codes at positions 0 and 1, and 2 and 3, modulo 4.
    pub pairs: Word,
    /// Four in a word.
    pub codes: [Word; 8],
}

impl Record32 {
    /// The record of codes with these sums at positions 0 and 1, and 2 and 3, modulo 4, as two i16.
    #[inline(always)]
    pub fn of(scale: f32, codes: [Word; 8], pairs: i32) -> Record32 {
        let sum = i32::from(pairs as i16) + (pairs >> 16);
        let scaled_sum = scale * sum as f32;
        Record32 {
            scale: scale.to_le_bytes(),
            sum: sum.to_le_bytes(),
            scaled_sum: scaled_sum.to_le_bytes(),
            pairs: pairs.to_le_bytes(),
            codes,
        }
    }
}

/// [`Q8x256`] without alignment.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Record256 {
    /// The scale of the codes.
    pub scale: Word,
    /// Padding.
    pub zeros: [Word; 3],
    /// The sums of 16 codes, two in a word.
    pub sums16: [Word; 8],
    /// The sums of 32 codes, two in a word.
    pub sums32: [Word; 4],
    /// For every 16 codes, the sums of those at positions 0 and 1, and 2 and 3, modulo 4.
    pub pairs16: [Word; 16],
    /// By groups of 32.
    pub codes: [[Word; 8]; 8],
}

const _: () = {
    assert!(size_of::<Record32>() == size_of::<Q8x32>() && align_of::<Record32>() == 1);
    assert!(offset_of!(Record32, scale) == offset_of!(Q8x32, scale));
    assert!(offset_of!(Record32, sum) == offset_of!(Q8x32, sum));
    assert!(offset_of!(Record32, scaled_sum) == offset_of!(Q8x32, scaled_sum));
    assert!(offset_of!(Record32, pairs) == offset_of!(Q8x32, pairs));
    assert!(offset_of!(Record32, codes) == offset_of!(Q8x32, codes));
    assert!(size_of::<Record256>() == size_of::<Q8x256>() && align_of::<Record256>() == 1);
    assert!(offset_of!(Record256, scale) == offset_of!(Q8x256, scale));
    assert!(offset_of!(Record256, sums16) == offset_of!(Q8x256, sums16));
    assert!(offset_of!(Record256, sums32) == offset_of!(Q8x256, sums32));
    assert!(offset_of!(Record256, pairs16) == offset_of!(Q8x256, pairs16));
    assert!(offset_of!(Record256, codes) == offset_of!(Q8x256, codes));
};

/// The i32 of a word.
#[inline(always)]
pub fn int(word: Word) -> i32 {
    i32::from_le_bytes(word)
}

/// The f32 of a word.
#[inline(always)]
pub fn float(word: Word) -> f32 {
    f32::from_le_bytes(word)
}
