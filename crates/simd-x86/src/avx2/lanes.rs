//! The 16 virtual lanes in two 256-bit registers.

use std::arch::x86_64::*;

use cera_quant::num::{LANES, Simd};
use cera_simd::by_intrinsics;

/// Proof that the machine has the tier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lanes(());

/// Lanes 0 to 7 and 8 to 15.
type Halves = [__m256; 2];

/// Sixteen words of set bits, then sixteen of clear ones: any sixteen in a row are the masks of a number of first lanes.
static MASKS: [i32; 2 * LANES] = {
    let mut masks = [0; 2 * LANES];
    let mut i = 0;
    while i < LANES {
        masks[i] = -1;
        i += 1;
    }
    masks
};

/// Methods that are one intrinsic on each half.
macro_rules! by_halves {
    ($(fn $name:ident($($arg:ident),*) = $intrinsic:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: Halves),*) -> Halves {
            // SAFETY: the intrinsic takes values, and the token `self` proves that the machine has it.
            #[allow(clippy::macro_metavars_in_unsafe)]
            unsafe { [$intrinsic($($arg[0]),*), $intrinsic($($arg[1]),*)] }
        }
    )*};
}

impl Lanes {
    /// The proof.
    ///
    /// # Safety
    /// - The machine has every feature of the tier `avx2`.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Lanes {
        Lanes(())
    }

    by_intrinsics! {
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

    by_halves! {
        fn flip(a, signs) = _mm256_xor_ps;
        fn unordered(a, b) = _mm256_cmp_ps::<_CMP_UNORD_Q>;
    }

    #[inline(always)]
    fn add_exponent8(self, v: __m256, t: __m256) -> __m256 {
        // SAFETY: `self` proves the instructions.
        unsafe {
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(t));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(v), exponent))
        }
    }

    /// The masks of the first `len` lanes; of all sixteen for more.
    #[inline(always)]
    fn first_lanes(self, len: usize) -> [__m256i; 2] {
        debug_assert!(len <= LANES, "{len} lanes");
        let masks = MASKS[LANES - len.min(LANES)..][..LANES].as_ptr();
        // SAFETY: sixteen words are readable, and `self` proves the instruction.
        unsafe { [_mm256_loadu_si256(masks.cast()), _mm256_loadu_si256(masks.add(8).cast())] }
    }
}

impl Simd for Lanes {
    const REGISTERS: usize = 8;

    type F = Halves;
    type M = Halves;

    by_halves! {
        fn add(a, b) = _mm256_add_ps;
        fn sub(a, b) = _mm256_sub_ps;
        fn mul(a, b) = _mm256_mul_ps;
        fn div(a, b) = _mm256_div_ps;
        fn fma(a, b, c) = _mm256_fmadd_ps;
        // Its second operand where neither is greater.
        fn max(a, b) = _mm256_max_ps;
        fn lt(a, b) = _mm256_cmp_ps::<_CMP_LT_OQ>;
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Halves {
        // SAFETY: `self` proves the instruction.
        [unsafe { _mm256_set1_ps(x) }; 2]
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Halves {
        // SAFETY: sixteen f32 are readable, and `self` proves the instruction.
        unsafe { [_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(x.as_ptr().add(8))] }
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; LANES]) -> Halves {
        let x = x.as_ptr().cast::<__m128i>();
        // SAFETY: 32 bytes are readable, and `self` proves the instructions.
        unsafe { [_mm256_cvtph_ps(_mm_loadu_si128(x)), _mm256_cvtph_ps(_mm_loadu_si128(x.add(1)))] }
    }

    #[inline(always)]
    fn store(self, v: Halves, out: &mut [f32; LANES]) {
        // SAFETY: sixteen f32 are writable, and `self` proves the instruction.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), v[0]);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), v[1]);
        }
    }

    #[inline(always)]
    fn store_f16(self, v: Halves, out: &mut [u16; LANES]) {
        let out = out.as_mut_ptr().cast::<__m128i>();
        // SAFETY: 32 bytes are writable, and `self` proves the instructions.
        unsafe {
            _mm_storeu_si128(out, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v[0]));
            _mm_storeu_si128(out.add(1), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v[1]));
        }
    }

    #[inline(always)]
    fn neg(self, a: Halves) -> Halves {
        self.flip(a, self.splat(-0.0))
    }

    #[inline(always)]
    fn is_nan(self, a: Halves) -> Halves {
        self.unordered(a, a)
    }

    #[inline(always)]
    fn select(self, m: Halves, a: Halves, b: Halves) -> Halves {
        // SAFETY: `self` proves the instruction.
        unsafe { [_mm256_blendv_ps(b[0], a[0], m[0]), _mm256_blendv_ps(b[1], a[1], m[1])] }
    }

    #[inline(always)]
    fn add_exponent(self, v: Halves, t: Halves) -> Halves {
        [self.add_exponent8(v[0], t[0]), self.add_exponent8(v[1], t[1])]
    }

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        // SAFETY: a prefetch touches no memory that the program sees, and every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[inline(always)]
    fn load_part(self, x: &[f32]) -> Halves {
        let masks = self.first_lanes(x.len());
        let x = x.as_ptr();
        // SAFETY: the masks cover no more than `x.len()` lanes, and `self` proves the instruction.
        unsafe { [_mm256_maskload_ps(x, masks[0]), _mm256_maskload_ps(x.wrapping_add(8), masks[1])] }
    }

    #[inline(always)]
    fn store_part(self, v: Halves, out: &mut [f32]) {
        let masks = self.first_lanes(out.len());
        let out = out.as_mut_ptr();
        // SAFETY: the masks cover no more than `out.len()` lanes, and `self` proves the instruction.
        unsafe {
            _mm256_maskstore_ps(out, masks[0], v[0]);
            _mm256_maskstore_ps(out.wrapping_add(8), masks[1], v[1]);
        }
    }

    #[inline(always)]
    fn reduce_add(self, v: Halves) -> f32 {
        let v = self.add8(v[0], v[1]);
        let v = self.add4(self.low_quarter(v), self.high_quarter(v));
        let v = self.add4(v, self.high_two(v, v));
        self.first(self.add4(v, self.odd(v)))
    }

    #[inline(always)]
    fn reduce_max(self, v: Halves) -> f32 {
        let v = self.max8(v[0], v[1]);
        let v = self.max4(self.low_quarter(v), self.high_quarter(v));
        let v = self.max4(v, self.high_two(v, v));
        self.first(self.max4(v, self.odd(v)))
    }
}
