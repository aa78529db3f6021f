//! Dot products of codes without an instruction of their own.
//!
//! An i16 of a row takes the products of two of the four codes in a word, and adds up those of several words. Additions
//! wrap modulo 2^16, so that only the sum at the end must fit: `2 * words * 127 * |code - offset| <= 32767`.

use cera_simd::matrix::records::{Word, int};
use cera_simd::matrix::vectors::Vectors;

use super::lanes::Lanes;
use super::vectors::I;

/// Words of codes whose products an i16 may add up, of formats with this offset and largest code.
pub(super) const fn words(offset: i32, max: i32) -> usize {
    let largest = if offset > max - offset { offset } else { max - offset };
    assert!(largest <= 32 && max <= 129, "a single product must fit too");
    if 2 * 8 * 127 * largest <= i16::MAX as i32 { 8 } else { 4 }
}

impl Lanes {
    /// The start of the sums of words with these sums of pairs: `-offset` times the pairs.
    #[inline(always)]
    pub(super) fn start(self, offset: i32, pairs: Word) -> I {
        if offset == 0 {
            self.splat32(0)
        } else {
            self.mul16(self.splat32(int(pairs)), self.splat16(-offset as i16))
        }
    }

    /// Adds the products of a word of signed codes, times the scale in each i16, to a sum of 32 bits.
    ///
    /// `magnitudes` are those of the codes. The products of -128 fit too: 2 * 128 * 127 = 32512.
    #[inline(always)]
    pub(super) fn add_signed(self, sum: I, (codes, magnitudes): (I, I), x: I, scale: I) -> I {
        let pairs = self.byte_pairs(magnitudes, self.with_signs(x, codes));
        self.dot2(sum, pairs, scale)
    }
}
