//! Vectors of half of the rows of a strip.

use std::arch::x86_64::*;

use cera_quant::num::LANES;
use cera_simd::Machine;
use cera_simd::by_intrinsics;
use cera_simd::matrix::vectors::{Halves, Vector, Vectors};

use super::lanes::Lanes;
use crate::frame;

/// Four bytes of each row.
pub(super) type I = __m256i;
/// A f32 of each row.
pub(super) type F = __m256;

impl Machine for Lanes {
    #[inline(always)]
    fn align_frame(self) {
        frame::align();
    }

    #[inline(always)]
    fn fetch(self, at: *const u8) {
        // SAFETY: a prefetch touches no memory that the program sees, and every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

impl Vectors for Lanes {
    type I = I;
    type F = F;
    const ROWS: usize = 8;

    by_intrinsics! {
        fn splat(x: f32) -> F = _mm256_set1_ps;
        fn splat32(x: i32) -> I = _mm256_set1_epi32;
        fn look_up(table: I, codes: I) -> I = _mm256_shuffle_epi8;
        fn and(a: I, b: I) -> I = _mm256_and_si256;
        fn or(a: I, b: I) -> I = _mm256_or_si256;
        fn xor(a: I, b: I) -> I = _mm256_xor_si256;
        fn add32(a: I, b: I) -> I = _mm256_add_epi32;
        fn sub8(a: I, b: I) -> I = _mm256_sub_epi8;
        fn bits(a: F) -> I = _mm256_castps_si256;
        fn as_f32(a: I) -> F = _mm256_castsi256_ps;
        fn to_f32(a: I) -> F = _mm256_cvtepi32_ps;
        fn mul(a: F, b: F) -> F = _mm256_mul_ps;
        fn fma(a: F, b: F, c: F) -> F = _mm256_fmadd_ps;
        fn fnma(a: F, b: F, c: F) -> F = _mm256_fnmadd_ps;
    }

    #[inline(always)]
    fn load(self, vector: &Vector, part: usize) -> I {
        let bytes = &vector.as_chunks::<32>().0[part];
        // SAFETY: 32 bytes are readable, and `self` proves the instruction.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn load_f16(self, halves: &Halves, part: usize) -> F {
        let bytes = &halves.as_chunks::<16>().0[part];
        // SAFETY: 16 bytes are readable, and `self` proves the instructions.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(bytes.as_ptr().cast())) }
    }

    #[inline(always)]
    fn load_u16(self, numbers: &Halves, part: usize) -> I {
        let bytes = &numbers.as_chunks::<16>().0[part];
        // SAFETY: 16 bytes are readable, and `self` proves the instructions.
        unsafe { _mm256_cvtepu16_epi32(_mm_loadu_si128(bytes.as_ptr().cast())) }
    }

    #[inline(always)]
    fn load_e8m0(self, exponents: &[u8; 16], part: usize) -> F {
        let bytes = &exponents.as_chunks::<8>().0[part];
        // SAFETY: 8 bytes are readable, and `self` proves the instructions.
        unsafe {
            let e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(bytes.as_ptr().cast()));
            let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, _mm256_set1_epi32(1)));
            let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
            let is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
            _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, is_normal))
        }
    }

    #[inline(always)]
    fn put(self, v: I, vector: &mut Vector, part: usize) {
        let bytes = &mut vector.as_chunks_mut::<32>().0[part];
        // SAFETY: 32 bytes are writable, and `self` proves the instruction.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn store(self, v: F, out: &mut [f32; LANES]) {
        // SAFETY: eight f32 are writable, and `self` proves the instruction.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn splat8(self, x: u8) -> I {
        self.splat32(i32::from_ne_bytes([x; 4]))
    }

    #[inline(always)]
    fn table(self, table: &[u8; 16]) -> I {
        // SAFETY: 16 bytes are readable, and `self` proves the instructions.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())) }
    }

    #[inline(always)]
    fn shr(self, a: I, by: u32) -> I {
        // SAFETY: `self` proves the instruction.
        unsafe { _mm256_srl_epi32(a, _mm_cvtsi32_si128(by as i32)) }
    }

    #[inline(always)]
    fn shl(self, a: I, by: u32) -> I {
        // SAFETY: `self` proves the instruction.
        unsafe { _mm256_sll_epi32(a, _mm_cvtsi32_si128(by as i32)) }
    }

    #[inline(always)]
    fn sar(self, a: I, by: u32) -> I {
        // SAFETY: `self` proves the instruction.
        unsafe { _mm256_sra_epi32(a, _mm_cvtsi32_si128(by as i32)) }
    }

    #[inline(always)]
    fn dot2(self, acc: I, a: I, b: I) -> I {
        self.add32(acc, self.pairs(a, b))
    }
}

impl Lanes {
    by_intrinsics! {
        /// The sums of the two products of unsigned bytes and signed bytes in each i16; they must fit.
        pub(super) fn byte_pairs(unsigned: I, signed: I) -> I = _mm256_maddubs_epi16;
        /// The sums of the two products of i16 in each i32.
        pub(super) fn pairs(a: I, b: I) -> I = _mm256_madd_epi16;
        /// `a + b` of 16 bits, modulo 2^16.
        pub(super) fn add16(a: I, b: I) -> I = _mm256_add_epi16;
        /// `a * b` of 16 bits, modulo 2^16.
        pub(super) fn mul16(a: I, b: I) -> I = _mm256_mullo_epi16;
        /// The magnitudes of signed bytes, without a sign.
        pub(super) fn magnitudes(a: I) -> I = _mm256_abs_epi8;
        /// `a` times the sign (-1, 0, 1) of `b`, of signed bytes; no byte of `a` is -128.
        pub(super) fn with_signs(a: I, b: I) -> I = _mm256_sign_epi8;
        /// The number in every 16 bits.
        pub(super) fn splat16(x: i16) -> I = _mm256_set1_epi16;
    }
}
