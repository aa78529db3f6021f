//! Vectors of all rows of a strip.

use std::arch::asm;
use std::arch::x86_64::*;

use cera_quant::num::LANES;
use cera_simd::Machine;
use cera_simd::by_intrinsics;
use cera_simd::matrix::vectors::{Halves, Vector, Vectors};

use super::lanes::Lanes;
use crate::frame;

/// Four bytes of each row.
pub(super) type I = __m512i;
/// A f32 of each row.
pub(super) type F = __m512;

/// No instruction, which the compiler does not move across others of its kind.
#[inline]
#[target_feature(enable = "avx512f")]
fn pin(mut a: I) -> I {
    // SAFETY: there is no instruction.
    unsafe { asm!("/* {0} */", inout(zmm_reg) a, options(nomem, nostack, preserves_flags)) }
    a
}

impl<T: Copy> Machine for Lanes<T> {
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

impl<T: Copy> Vectors for Lanes<T> {
    type I = I;
    type F = F;
    const ROWS: usize = 16;

    by_intrinsics! {
        fn splat(x: f32) -> __m512 = _mm512_set1_ps;
        fn splat32(x: i32) -> __m512i = _mm512_set1_epi32;
        fn look_up(table: __m512i, codes: __m512i) -> __m512i = _mm512_shuffle_epi8;
        fn and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512;
        fn or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512;
        fn xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512;
        fn add32(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32;
        fn dot2(acc: __m512i, a: __m512i, b: __m512i) -> __m512i = _mm512_dpwssd_epi32;
        fn sub8(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi8;
        fn bits(a: __m512) -> __m512i = _mm512_castps_si512;
        fn as_f32(a: __m512i) -> __m512 = _mm512_castsi512_ps;
        fn to_f32(a: __m512i) -> __m512 = _mm512_cvtepi32_ps;
        fn mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps;
        fn fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps;
        fn fnma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fnmadd_ps;
    }

    #[inline(always)]
    fn load(self, vector: &Vector, _: usize) -> __m512i {
        // SAFETY: 64 bytes are readable, and `self` proves the instruction.
        unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) }
    }

    #[inline(always)]
    fn load_f16(self, halves: &Halves, _: usize) -> __m512 {
        // SAFETY: 32 bytes are readable, and `self` proves the instructions.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(halves.as_ptr().cast())) }
    }

    #[inline(always)]
    fn load_u16(self, numbers: &Halves, _: usize) -> __m512i {
        // SAFETY: 32 bytes are readable, and `self` proves the instructions.
        unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(numbers.as_ptr().cast())) }
    }

    #[inline(always)]
    fn load_e8m0(self, exponents: &[u8; 16], _: usize) -> __m512 {
        // SAFETY: 16 bytes are readable, and `self` proves the instructions.
        unsafe {
            let e = _mm512_cvtepu8_epi32(_mm_loadu_si128(exponents.as_ptr().cast()));
            let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, _mm512_set1_epi32(1)));
            let subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), e);
            let is_subnormal = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
            _mm512_castsi512_ps(_mm512_mask_blend_epi32(is_subnormal, normal, subnormal))
        }
    }

    #[inline(always)]
    fn put(self, v: __m512i, vector: &mut Vector, _: usize) {
        // SAFETY: 64 bytes are writable, and `self` proves the instruction.
        unsafe { _mm512_storeu_si512(vector.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn store(self, v: __m512, out: &mut [f32; LANES]) {
        // SAFETY: sixteen f32 are writable, and `self` proves the instruction.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn splat8(self, x: u8) -> __m512i {
        self.splat32(i32::from_ne_bytes([x; 4]))
    }

    #[inline(always)]
    fn table(self, table: &[u8; 16]) -> __m512i {
        // SAFETY: 16 bytes are readable, and `self` proves the instructions.
        unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())) }
    }

    #[inline(always)]
    fn shr(self, a: __m512i, by: u32) -> __m512i {
        // SAFETY: `self` proves the instruction.
        unsafe { _mm512_srl_epi32(a, _mm_cvtsi32_si128(by as i32)) }
    }

    #[inline(always)]
    fn shl(self, a: __m512i, by: u32) -> __m512i {
        // SAFETY: `self` proves the instruction.
        unsafe { _mm512_sll_epi32(a, _mm_cvtsi32_si128(by as i32)) }
    }

    #[inline(always)]
    fn sar(self, a: __m512i, by: u32) -> __m512i {
        // SAFETY: `self` proves the instruction.
        unsafe { _mm512_sra_epi32(a, _mm_cvtsi32_si128(by as i32)) }
    }
}

impl Lanes {
    by_intrinsics! {
        /// `acc` plus the four products of unsigned bytes and signed bytes in each i32.
        pub(super) fn dot4(acc: __m512i, unsigned: __m512i, signed: __m512i) -> __m512i = _mm512_dpbusd_epi32;
        /// `a * b` of 32 bits.
        pub(super) fn mul32(a: __m512i, b: __m512i) -> __m512i = _mm512_mullo_epi32;
        /// The same, computed no later than any that is pinned after it: the compiler would rather compute sum after sum
        /// than keep all of them going, which takes more registers for operands than it saves.
        pub(super) fn pin(a: __m512i) -> __m512i = pin;
    }
}
