//! The 16 virtual lanes in one 512-bit register.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use cera_quant::num::{LANES, Simd};
use cera_simd::by_intrinsics;

/// What [`Lanes`] prove: the tier `avx512vnni`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vnni;

/// Proof that the machine has the tier `avx512vnni`, or a tier `T` that extends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lanes<T = Vnni>(PhantomData<T>);

impl<T: Copy> Lanes<T> {
    /// The proof.
    ///
    /// # Safety
    /// - The machine has every feature of the tier `T`.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Lanes<T> {
        Lanes(PhantomData)
    }

    by_intrinsics! {
        fn low_half(v: __m512) -> __m256 = _mm512_castps512_ps256;
        fn high_half(v: __m512) -> __m256 = _mm512_extractf32x8_ps::<1>;
        fn low_quarter(v: __m256) -> __m128 = _mm256_castps256_ps128;
        fn high_quarter(v: __m256) -> __m128 = _mm256_extractf128_ps::<1>;
        fn high_two(v: __m128, same: __m128) -> __m128 = _mm_movehl_ps;
        fn odd(v: __m128) -> __m128 = _mm_movehdup_ps;
        fn first(v: __m128) -> f32 = _mm_cvtss_f32;
        fn add8(a: __m256, b: __m256) -> __m256 = _mm256_add_ps;
        fn add4(a: __m128, b: __m128) -> __m128 = _mm_add_ps;
        fn max8(a: __m256, b: __m256) -> __m256 = _mm256_max_ps;
        fn max4(a: __m128, b: __m128) -> __m128 = _mm_max_ps;
    }

    /// The mask of the first `len` lanes; of all sixteen for more.
    #[inline(always)]
    fn first_lanes(self, len: usize) -> __mmask16 {
        debug_assert!(len <= LANES, "{len} lanes");
        (0xffff_u32 >> (LANES - len.min(LANES))) as __mmask16
    }
}

impl<T: Copy> Simd for Lanes<T> {
    const REGISTERS: usize = 32;

    type F = __m512;
    type M = __mmask16;

    by_intrinsics! {
        fn splat(x: f32) -> __m512 = _mm512_set1_ps;
        fn add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps;
        fn sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps;
        fn mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps;
        fn div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps;
        fn fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps;
        // Its second operand where neither is greater.
        fn max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps;
        fn lt(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LT_OQ>;
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> __m512 {
        // SAFETY: sixteen f32 are readable, and `self` proves the instruction.
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; LANES]) -> __m512 {
        // SAFETY: 32 bytes are readable, and `self` proves the instructions.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())) }
    }

    #[inline(always)]
    fn store(self, v: __m512, out: &mut [f32; LANES]) {
        // SAFETY: sixteen f32 are writable, and `self` proves the instruction.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn store_f16(self, v: __m512, out: &mut [u16; LANES]) {
        // SAFETY: 32 bytes are writable, and `self` proves the instructions.
        unsafe {
            let half = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v);
            _mm256_storeu_si256(out.as_mut_ptr().cast(), half);
        }
    }

    #[inline(always)]
    fn neg(self, a: __m512) -> __m512 {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm512_xor_ps(a, _mm512_set1_ps(-0.0)) }
    }

    #[inline(always)]
    fn is_nan(self, a: __m512) -> __mmask16 {
        // SAFETY: `self` proves the instruction.
        unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a) }
    }

    #[inline(always)]
    fn select(self, m: __mmask16, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves the instruction.
        unsafe { _mm512_mask_blend_ps(m, b, a) }
    }

    #[inline(always)]
    fn add_exponent(self, v: __m512, t: __m512) -> __m512 {
        // SAFETY: `self` proves the instructions.
        unsafe {
            let exponent = _mm512_slli_epi32::<23>(_mm512_castps_si512(t));
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(v), exponent))
        }
    }

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        // SAFETY: a prefetch touches no memory that the program sees, and every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[inline(always)]
    fn load_part(self, x: &[f32]) -> __m512 {
        // SAFETY: the mask covers no more than `x.len()` lanes, and `self` proves the instruction.
        unsafe { _mm512_maskz_loadu_ps(self.first_lanes(x.len()), x.as_ptr()) }
    }

    #[inline(always)]
    fn store_part(self, v: __m512, out: &mut [f32]) {
        // SAFETY: the mask covers no more than `out.len()` lanes, and `self` proves the instruction.
        unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr(), self.first_lanes(out.len()), v) }
    }

    #[inline(always)]
    fn reduce_add(self, v: __m512) -> f32 {
        let v = self.add8(self.low_half(v), self.high_half(v));
        let v = self.add4(self.low_quarter(v), self.high_quarter(v));
        let v = self.add4(v, self.high_two(v, v));
        self.first(self.add4(v, self.odd(v)))
    }

    #[inline(always)]
    fn reduce_max(self, v: __m512) -> f32 {
        let v = self.max8(self.low_half(v), self.high_half(v));
        let v = self.max4(self.low_quarter(v), self.high_quarter(v));
        let v = self.max4(v, self.high_two(v, v));
        self.first(self.max4(v, self.odd(v)))
    }
}
