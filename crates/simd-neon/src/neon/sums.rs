//! Dot products of codes without an instruction of their own.
//!
//! A product of two bytes takes 16 bits, and so does the sum of several. An i16 of a row adds up the products of one of the
//! four codes in each word, the i16 of two rows lie in a register, and neighbours are added to 32 bits at the end.

use std::arch::aarch64::*;

use cera_simd::by_intrinsics;

use super::lanes::Lanes;
use super::vectors::I;

/// Words of codes whose products an i16 may add up, of formats with this offset and largest code.
pub(super) const fn words(offset: i32, max: i32) -> usize {
    let largest = if offset > max - offset { offset } else { max - offset };
    if 8 * 127 * largest <= i16::MAX as i32 { 8 } else { 2 }
}

const _: () = assert!(2 * 127 * 128 <= i16::MAX as i32);

/// Sums of 16 bits: of the first two rows, and of the last two.
pub(super) type Short = [int16x8_t; 2];

/// Sums of two neighbours of a [`Short`] each.
pub(super) type Pairs = [int32x4_t; 2];

impl Lanes {
    by_intrinsics! {
        fn signed8(a: I) -> int8x16_t = vreinterpretq_s8_u8;
        fn low_codes(a: int8x16_t) -> int8x8_t = vget_low_s8;
        fn multiply8(a: int8x8_t, b: int8x8_t) -> int16x8_t = vmull_s8;
        fn multiply8_high(a: int8x16_t, b: int8x16_t) -> int16x8_t = vmull_high_s8;
        fn multiply8_add(sum: int16x8_t, a: int8x8_t, b: int8x8_t) -> int16x8_t = vmlal_s8;
        fn multiply8_add_high(sum: int16x8_t, a: int8x16_t, b: int8x16_t) -> int16x8_t = vmlal_high_s8;
        fn sum_pairs(a: int16x8_t) -> int32x4_t = vpaddlq_s16;
        fn add_sum_pairs(sum: int32x4_t, a: int16x8_t) -> int32x4_t = vpadalq_s16;
        fn zeros16(x: i16) -> int16x8_t = vdupq_n_s16;
    }

    /// No sums.
    #[inline(always)]
    pub(super) fn no_short(self) -> Short {
        [self.zeros16(0); 2]
    }

    /// No sums.
    #[inline(always)]
    pub(super) fn no_pairs(self) -> Pairs {
        self.no_short().map(|zero| self.sum_pairs(zero))
    }

    /// Word `lane` of a vector in every row.
    #[inline(always)]
    pub(super) fn splat_lane(self, v: I, lane: usize) -> I {
        let v = self.ints(v);
        // SAFETY: `self` proves the instructions.
        let v = unsafe {
            match lane {
                0 => vdupq_laneq_s32::<0>(v),
                1 => vdupq_laneq_s32::<1>(v),
                2 => vdupq_laneq_s32::<2>(v),
                3 => vdupq_laneq_s32::<3>(v),
                _ => unreachable!("a vector has four lanes"),
            }
        };
        self.bytes(v)
    }

    /// The products of a word of each row with `x`, which has the same word for each, or those added to sums that are not the
    /// first.
    #[inline(always)]
    pub(super) fn multiply_word(self, sums: Short, first: bool, codes: I, x: I) -> Short {
        let (a, b) = (self.signed8(codes), self.signed8(x));
        if first {
            [self.multiply8(self.low_codes(a), self.low_codes(b)), self.multiply8_high(a, b)]
        } else {
            [
                self.multiply8_add(sums[0], self.low_codes(a), self.low_codes(b)),
                self.multiply8_add_high(sums[1], a, b),
            ]
        }
    }

    /// The sums in 32 bits, or added to those that are not the first.
    #[inline(always)]
    pub(super) fn widen_sums(self, pairs: Pairs, first: bool, sums: Short) -> Pairs {
        if first {
            sums.map(|sums| self.sum_pairs(sums))
        } else {
            [self.add_sum_pairs(pairs[0], sums[0]), self.add_sum_pairs(pairs[1], sums[1])]
        }
    }

    /// The sum of each row.
    #[inline(always)]
    pub(super) fn join(self, pairs: Pairs) -> I {
        self.bytes(self.add_neighbours(pairs[0], pairs[1]))
    }
}
