//! Calls to safe intrinsics compile only inside of a function with their features: that the functions of this file
//! compile shows that each gate enables what its tier is for.

use std::arch::x86_64::*;

use cera_testkit::cpu::has_all;

use super::*;

avx2_tier! {
    fn avx2_dot(a: __m256i, b: __m256i) -> i32 {
        let pairs = _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1));
        let half = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
        let half = _mm_hadd_epi32(half, half);
        _mm_cvtsi128_si32(_mm_hadd_epi32(half, half))
    }

    fn avx2_scales(h: __m128i, c: __m256) -> __m256 {
        _mm256_fmadd_ps(_mm256_cvtph_ps(h), _mm256_set1_ps(2.0), c)
    }

    /// Compiled for the tier, and safe to call only where the tier is there.
    fn avx2_entry() -> (i32, f32) {
        let dot = avx2_dot(_mm256_set1_epi8(3), _mm256_set1_epi8(-5));
        let one_half_in_f16 = _mm_set1_epi16(0x3800);
        (dot, _mm256_cvtss_f32(avx2_scales(one_half_in_f16, _mm256_set1_ps(0.25))))
    }
}

avx512vnni_tier! {
    fn avx512vnni_entry() -> i32 {
        let order = _mm512_set1_epi8(7);
        let a = _mm512_permutexvar_epi8(order, _mm512_set1_epi8(3));
        let narrow = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), _mm256_set1_epi8(1));
        let wide = _mm512_dpbusd_epi32(_mm512_setzero_si512(), a, _mm512_set1_epi8(-5));
        let swapped = _mm512_shuffle_epi8(wide, _mm512_set1_epi8(0));
        let sum = _mm512_add_epi64(_mm512_mullo_epi64(swapped, _mm512_setzero_si512()), wide);
        _mm512_reduce_add_epi32(sum) + _mm256_extract_epi32::<0>(narrow) + avx2_entry().0
    }
}

avx512bf16_tier! {
    fn avx512bf16_entry() -> f32 {
        let one = _mm512_cvtneps_pbh(_mm512_set1_ps(1.0));
        let ones = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(bits(one)), bits(one));
        // SAFETY: both are 512 bits of plain data.
        let ones: __m512bh = unsafe { std::mem::transmute(ones) };
        _mm512_reduce_add_ps(_mm512_dpbf16_ps(_mm512_setzero_ps(), ones, ones))
    }

    fn bits(x: __m256bh) -> __m256i {
        // SAFETY: both are 256 bits of plain data.
        unsafe { std::mem::transmute(x) }
    }
}

/// A table entry: the gated functions coerce to it.
type Entry<T> = unsafe fn() -> T;

#[test]
fn gated_functions_run_where_every_listed_feature_is_present() {
    let avx2: Entry<(i32, f32)> = avx2_entry;
    let vnni: Entry<i32> = avx512vnni_entry;
    let bf16: Entry<f32> = avx512bf16_entry;
    if has_all(AVX2) {
        // SAFETY: every feature of the tier is present.
        assert_eq!(unsafe { avx2() }, (-15 * 32, 1.25));
    }
    if has_all(AVX512VNNI) {
        // SAFETY: every feature of the tier is present.
        assert_eq!(unsafe { vnni() }, -15 * 64 + 4 - 15 * 32);
    }
    if has_all(AVX512BF16) {
        // SAFETY: every feature of the tier is present.
        assert_eq!(unsafe { bf16() }, 32.0);
    }
}

#[test]
fn each_list_extends_the_one_before() {
    assert_eq!(AVX512VNNI[..AVX2.len()], *AVX2);
    assert_eq!(AVX512BF16[..AVX512VNNI.len()], *AVX512VNNI);
    assert!(AVX512BF16.len() > AVX512VNNI.len() && AVX512VNNI.len() > AVX2.len());
}
