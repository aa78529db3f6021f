//! Integer dot products on the lanes.

use std::arch::x86_64::*;

use cera_quant::num::{Dot, LANES};

use super::lanes::Lanes;

impl Lanes {
    /// `sum` plus the products of eight lanes.
    #[inline(always)]
    fn dot8(self, sum: __m256i, a: __m256i, b: __m256i, b_size: __m256i) -> __m256i {
        // SAFETY: `self` proves the instructions. Two products are at most 2 * 127 * 127 and fit 16 bits.
        unsafe {
            let pairs = _mm256_maddubs_epi16(b_size, _mm256_sign_epi8(a, b));
            _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    }
}

impl Dot for Lanes {
    type I = [__m256i; 2];
    type Codes = [__m256i; 2];

    const BIAS: i32 = 0;

    #[inline(always)]
    fn splat_i32(self, x: i32) -> [__m256i; 2] {
        // SAFETY: `self` proves the instruction.
        [unsafe { _mm256_set1_epi32(x) }; 2]
    }

    #[inline(always)]
    fn load_codes(self, x: &[[i8; 4]; LANES]) -> [__m256i; 2] {
        let x = x.as_ptr().cast::<__m256i>();
        // SAFETY: 64 bytes are readable, and `self` proves the instruction.
        unsafe { [_mm256_loadu_si256(x), _mm256_loadu_si256(x.add(1))] }
    }

    #[inline(always)]
    fn dot(self, sum: [__m256i; 2], a: [__m256i; 2], b: [i8; 4]) -> [__m256i; 2] {
        let [b, _] = self.splat_i32(i32::from_le_bytes(b.map(i8::cast_unsigned)));
        // SAFETY: `self` proves the instruction.
        let b_size = unsafe { _mm256_abs_epi8(b) };
        [self.dot8(sum[0], a[0], b, b_size), self.dot8(sum[1], a[1], b, b_size)]
    }

    #[inline(always)]
    fn to_f32(self, x: [__m256i; 2]) -> [__m256; 2] {
        // SAFETY: `self` proves the instruction.
        unsafe { [_mm256_cvtepi32_ps(x[0]), _mm256_cvtepi32_ps(x[1])] }
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> [__m256; 2] {
        // SAFETY: 16 bytes are readable, and `self` proves the instructions.
        unsafe {
            let x = _mm_loadu_si128(x.as_ptr().cast());
            let halves = [_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(x))];
            self.to_f32(halves)
        }
    }
}
