//! Vectors of a quarter of the rows of a strip.

use std::arch::aarch64::*;

use cera_quant::num::LANES;
use cera_simd::by_intrinsics;
use cera_simd::matrix::records::{Record256, Word};
use cera_simd::matrix::vectors::{Halves, Vector, Vectors};

use super::lanes::Lanes;
use crate::asm;

/// Four bytes of each row.
pub(crate) type I = uint8x16_t;
/// A f32 of each row.
pub(crate) type F = float32x4_t;

/// Shifts by a number that the compiler knows; the instruction has it as part of itself.
macro_rules! shift {
    ($shift:ident, $a:expr, $by:expr; $($n:literal)*) => {
        match $by {
            0 => $a,
            // SAFETY: NEON is part of every AArch64.
            $($n => unsafe { $shift::<$n>($a) },)*
            _ => unreachable!("numbers of 32 bits"),
        }
    };
    ($shift:ident, $a:expr, $by:expr) => {
        shift!($shift, $a, $by; 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
}

impl<T: Copy> Lanes<T> {
    by_intrinsics! {
        /// The i32 of each row.
        pub(crate) fn ints(a: I) -> int32x4_t = vreinterpretq_s32_u8;
        /// The bytes of the i32 of each row.
        pub(crate) fn bytes(a: int32x4_t) -> I = vreinterpretq_u8_s32;
        fn words(a: I) -> uint32x4_t = vreinterpretq_u32_u8;
        fn of_words(a: uint32x4_t) -> I = vreinterpretq_u8_u32;
        fn shorts(a: I) -> int16x8_t = vreinterpretq_s16_u8;
        fn low_shorts(a: int16x8_t) -> int16x4_t = vget_low_s16;
        fn multiply16(a: int16x4_t, b: int16x4_t) -> int32x4_t = vmull_s16;
        fn multiply16_high(a: int16x8_t, b: int16x8_t) -> int32x4_t = vmull_high_s16;
        /// The sums of neighbours, of `a` and then of `b`.
        pub(crate) fn add_neighbours(a: int32x4_t, b: int32x4_t) -> int32x4_t = vpaddq_s32;
        fn add_ints(a: int32x4_t, b: int32x4_t) -> int32x4_t = vaddq_s32;
        fn convert(a: int32x4_t) -> F = vcvtq_f32_s32;
        fn multiply_add(sum: int32x4_t, a: int32x4_t, b: int32x4_t) -> int32x4_t = vmlaq_s32;
        fn fused(c: F, a: F, b: F) -> F = vfmaq_f32;
        fn fused_negated(c: F, a: F, b: F) -> F = vfmsq_f32;
        fn of_int(x: i32) -> int32x4_t = vdupq_n_s32;
    }

    /// `sum + a * b` of 32 bits.
    #[inline(always)]
    pub(crate) fn add_scaled(self, sum: I, a: I, b: I) -> I {
        self.bytes(self.multiply_add(self.ints(sum), self.ints(a), self.ints(b)))
    }

    /// The sums of the codes of the pieces that have minima, split into signed bytes: `256 * high + low`. The high bytes
    /// begin at word 0 of the first vector, the low ones at the word given of the second.
    #[inline(always)]
    pub(crate) fn split_sums<const MINIMA: usize>(self, x: &Record256) -> ([I; 2], usize) {
        let sums = |words: &[Word; 4]| {
            // SAFETY: sixteen bytes are readable, and `self` proves the instructions.
            unsafe { vreinterpretq_s16_u8(vld1q_u8(words.as_ptr().cast())) }
        };
        // SAFETY: `self` proves the instructions.
        unsafe {
            if MINIMA == 4 {
                let sums = sums(&x.sums32);
                let both = vreinterpretq_u8_s8(vmovn_high_s16(vrshrn_n_s16::<8>(sums), sums));
                return ([both; 2], 2);
            }
            let [a, b] = [sums(&x.sums16.as_chunks::<4>().0[0]), sums(&x.sums16.as_chunks::<4>().0[1])];
            let high = vrshrn_high_n_s16::<8>(vrshrn_n_s16::<8>(a), b);
            let low = vmovn_high_s16(vmovn_s16(a), b);
            ([vreinterpretq_u8_s8(high), vreinterpretq_u8_s8(low)], 0)
        }
    }

    /// Sixteen bytes.
    #[inline(always)]
    pub(crate) fn load16(self, bytes: &[u8; 16]) -> I {
        // SAFETY: sixteen bytes are readable, and `self` proves the instruction.
        unsafe { vld1q_u8(bytes.as_ptr()) }
    }
}

impl<T: Copy> Vectors for Lanes<T> {
    type I = I;
    type F = F;
    const ROWS: usize = 4;
    const SIGNED: bool = true;

    by_intrinsics! {
        fn splat(x: f32) -> F = vdupq_n_f32;
        fn splat8(x: u8) -> I = vdupq_n_u8;
        fn look_up(table: I, codes: I) -> I = vqtbl1q_u8;
        fn and(a: I, b: I) -> I = vandq_u8;
        fn or(a: I, b: I) -> I = vorrq_u8;
        fn xor(a: I, b: I) -> I = veorq_u8;
        fn sub8(a: I, b: I) -> I = vsubq_u8;
        fn high4(a: I) -> I = vshrq_n_u8::<4>;
        fn bits(a: F) -> I = vreinterpretq_u8_f32;
        fn as_f32(a: I) -> F = vreinterpretq_f32_u8;
        fn mul(a: F, b: F) -> F = vmulq_f32;
    }

    #[inline(always)]
    fn load(self, vector: &Vector, part: usize) -> I {
        self.load16(&vector.as_chunks::<16>().0[part])
    }

    #[inline(always)]
    fn load_f16(self, halves: &Halves, part: usize) -> F {
        let bytes = &halves.as_chunks::<8>().0[part];
        // SAFETY: eight bytes are readable, and `self` proves the instructions.
        unsafe { asm::widen(vreinterpret_u16_u8(vld1_u8(bytes.as_ptr()))) }
    }

    #[inline(always)]
    fn load_u16(self, numbers: &Halves, part: usize) -> I {
        let bytes = &numbers.as_chunks::<8>().0[part];
        // SAFETY: eight bytes are readable, and `self` proves the instructions.
        unsafe { self.of_words(vmovl_u16(vreinterpret_u16_u8(vld1_u8(bytes.as_ptr())))) }
    }

    #[inline(always)]
    fn load_e8m0(self, exponents: &[u8; 16], part: usize) -> F {
        let bytes = exponents.as_chunks::<4>().0[part];
        // SAFETY: `self` proves the instructions.
        unsafe {
            let e = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(u64::from(u32::from_le_bytes(bytes))))));
            let normal = vshlq_n_u32::<23>(vsubq_u32(e, vdupq_n_u32(1)));
            let subnormal = vshlq_u32(vdupq_n_u32(0x0020_0000), vreinterpretq_s32_u32(e));
            vreinterpretq_f32_u32(vbslq_u32(vcgtq_u32(e, vdupq_n_u32(1)), normal, subnormal))
        }
    }

    #[inline(always)]
    fn put(self, v: I, vector: &mut Vector, part: usize) {
        let bytes = &mut vector.as_chunks_mut::<16>().0[part];
        // SAFETY: sixteen bytes are writable, and `self` proves the instruction.
        unsafe { vst1q_u8(bytes.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn store(self, v: F, out: &mut [f32; LANES]) {
        // SAFETY: four f32 are writable, and `self` proves the instruction.
        unsafe { vst1q_f32(out.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn splat32(self, x: i32) -> I {
        self.bytes(self.of_int(x))
    }

    #[inline(always)]
    fn table(self, table: &[u8; 16]) -> I {
        self.load16(table)
    }

    #[inline(always)]
    fn shr(self, a: I, by: u32) -> I {
        self.of_words(shift!(vshrq_n_u32, self.words(a), by))
    }

    #[inline(always)]
    fn shl(self, a: I, by: u32) -> I {
        self.of_words(shift!(vshlq_n_u32, self.words(a), by))
    }

    #[inline(always)]
    fn sar(self, a: I, by: u32) -> I {
        self.bytes(shift!(vshrq_n_s32, self.ints(a), by))
    }

    #[inline(always)]
    fn add32(self, a: I, b: I) -> I {
        self.bytes(self.add_ints(self.ints(a), self.ints(b)))
    }

    #[inline(always)]
    fn dot2(self, acc: I, a: I, b: I) -> I {
        let (a, b) = (self.shorts(a), self.shorts(b));
        let low = self.multiply16(self.low_shorts(a), self.low_shorts(b));
        let pairs = self.add_neighbours(low, self.multiply16_high(a, b));
        self.bytes(self.add_ints(self.ints(acc), pairs))
    }

    #[inline(always)]
    fn to_f32(self, a: I) -> F {
        self.convert(self.ints(a))
    }

    #[inline(always)]
    fn fma(self, a: F, b: F, c: F) -> F {
        self.fused(c, a, b)
    }

    #[inline(always)]
    fn fnma(self, a: F, b: F, c: F) -> F {
        self.fused_negated(c, a, b)
    }
}
