//! Integer dot products on the lanes.

use std::arch::x86_64::*;

use cera_quant::num::{Dot, LANES};
use cera_simd::by_intrinsics;

use super::lanes::Lanes;

impl<T: Copy> Dot for Lanes<T> {
    type I = __m512i;
    type Codes = __m512i;

    // The left operand of the instruction is unsigned.
    const BIAS: i32 = 128;

    by_intrinsics! {
        fn splat_i32(x: i32) -> __m512i = _mm512_set1_epi32;
        fn to_f32(x: __m512i) -> __m512 = _mm512_cvtepi32_ps;
    }

    #[inline(always)]
    fn load_codes(self, x: &[[i8; 4]; LANES]) -> __m512i {
        // SAFETY: 64 bytes are readable, and `self` proves the instructions.
        unsafe { _mm512_xor_si512(_mm512_loadu_si512(x.as_ptr().cast()), _mm512_set1_epi8(-128)) }
    }

    #[inline(always)]
    fn dot(self, sum: __m512i, a: __m512i, b: [i8; 4]) -> __m512i {
        let b = self.splat_i32(i32::from_le_bytes(b.map(i8::cast_unsigned)));
        // SAFETY: `self` proves the instruction.
        unsafe { _mm512_dpbusd_epi32(sum, a, b) }
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> __m512 {
        // SAFETY: 16 bytes are readable, and `self` proves the instructions.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(x.as_ptr().cast()))) }
    }
}
