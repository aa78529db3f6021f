//! The quantizers of activations.

use std::arch::x86_64::*;

use bytemuck::Zeroable;
use cera_quant::num::{LANES, Simd};
use cera_simd::acts::{BF16_KEEP, Largest, Quantize, Round};
use cera_simd::by_intrinsics;
use cera_simd::matrix::records::{Record32, Record256, Word};

use super::lanes::Lanes;

cera_simd::quantizers!(avx512vnni_tier, Lanes);

impl Lanes {
    by_intrinsics! {
        fn bits(x: __m512) -> __m512i = _mm512_castps_si512;
        fn max_bits(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epu32;
        fn largest(a: __m512i) -> u32 = _mm512_reduce_max_epu32;
        // To nearest even, as the control register has it.
        fn round_to_ints(x: __m512) -> __m512i = _mm512_cvtps_epi32;
        fn to_bytes(x: __m512i) -> __m128i = _mm512_cvtepi32_epi8;
        fn add_pairs(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi16;
        fn low_words(a: __m512i, b: __m512i) -> __m512i = _mm512_unpacklo_epi32;
        fn high_words(a: __m512i, b: __m512i) -> __m512i = _mm512_unpackhi_epi32;
        fn low_doubles(a: __m512i, b: __m512i) -> __m512i = _mm512_unpacklo_epi64;
        fn high_doubles(a: __m512i, b: __m512i) -> __m512i = _mm512_unpackhi_epi64;
    }

    /// The codes of sixteen elements.
    #[inline(always)]
    fn codes(self, x: &[f32; LANES], inverse: __m512) -> __m128i {
        self.to_bytes(self.round_to_ints(self.mul(self.load(x), inverse)))
    }
}

impl Largest for Lanes {
    #[inline(always)]
    fn largest_bits<const N: usize>(self, x: &[f32; N]) -> u32 {
        let (vectors, _) = x.as_chunks::<LANES>();
        // SAFETY: `self` proves the instructions.
        let (mut max, magnitude) = unsafe { (_mm512_setzero_si512(), _mm512_set1_epi32(0x7fff_ffff)) };
        for x in vectors {
            // SAFETY: `self` proves the instruction.
            let bits = unsafe { _mm512_and_si512(self.bits(self.load(x)), magnitude) };
            max = self.max_bits(max, bits);
        }
        self.largest(max)
    }
}

impl Quantize<Record32, 32> for Lanes {
    #[inline(always)]
    fn quantize(self, x: &[f32; 32], scale: f32, inverse: f32) -> Record32 {
        let inverse = self.splat(inverse);
        let (halves, _) = x.as_chunks::<LANES>();
        let (low, high) = (self.codes(&halves[0], inverse), self.codes(&halves[1], inverse));
        let mut codes: [Word; 8] = [[0; 4]; 8];
        // SAFETY: the codes are 32 writable bytes, and `self` proves the instructions.
        let pairs = unsafe {
            _mm_storeu_si128(codes.as_mut_ptr().cast(), low);
            _mm_storeu_si128(codes.as_mut_ptr().add(4).cast(), high);
            let ones = _mm_set1_epi8(1);
            let sums = _mm_add_epi16(_mm_maddubs_epi16(ones, low), _mm_maddubs_epi16(ones, high));
            let sums = _mm_add_epi16(sums, _mm_shuffle_epi32::<0b_01_00_11_10>(sums));
            let sums = _mm_add_epi16(sums, _mm_shuffle_epi32::<0b_10_11_00_01>(sums));
            _mm_cvtsi128_si32(sums)
        };
        Record32::of(scale, codes, pairs)
    }
}

impl Quantize<Record256, 256> for Lanes {
    #[inline(always)]
    fn quantize(self, x: &[f32; 256], scale: f32, inverse: f32) -> Record256 {
        let inverse = self.splat(inverse);
        let mut record = Record256::zeroed();
        record.scale = scale.to_le_bytes();
        let (sixteenths, _) = x.as_chunks::<LANES>();
        let codes: &mut [[u8; 16]] = bytemuck::cast_slice_mut(&mut record.codes);
        for (x, codes) in sixteenths.iter().zip(codes) {
            // SAFETY: 16 bytes are writable, and `self` proves the instruction.
            unsafe { _mm_storeu_si128(codes.as_mut_ptr().cast(), self.codes(x, inverse)) }
        }
        let pairs = self.pairs_of_16(&record.codes);
        // SAFETY: the fields are 64, 32 and 16 writable bytes, and `self` proves the instructions. The sums fit 16 bits.
        unsafe {
            let sums16 = _mm512_cvtepi32_epi16(_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
            let sums32 = _mm256_cvtepi32_epi16(_mm256_madd_epi16(sums16, _mm256_set1_epi16(1)));
            _mm512_storeu_si512(record.pairs16.as_mut_ptr().cast(), pairs);
            _mm256_storeu_si256(record.sums16.as_mut_ptr().cast(), sums16);
            _mm_storeu_si128(record.sums32.as_mut_ptr().cast(), sums32);
        }
        record
    }
}

impl Lanes {
    /// For every sixteen codes the sums of those at positions 0 and 1, and 2 and 3, modulo 4.
    #[inline(always)]
    fn pairs_of_16(self, codes: &[[Word; 8]; 8]) -> __m512i {
        let (quarters, _) = codes.as_chunks::<2>();
        let mut sums = [self.bits(self.splat(0.0)); 4];
        for (sums, codes) in sums.iter_mut().zip(quarters) {
            // SAFETY: 64 bytes are readable, and `self` proves the instructions.
            unsafe {
                *sums = _mm512_maddubs_epi16(_mm512_set1_epi8(1), _mm512_loadu_si512(codes.as_ptr().cast()));
            }
        }
        // Each 128 bits of the four vectors are sixteen codes: adds up their words, of all four at once.
        let [a, b, c, d] = sums;
        let ab = self.add_pairs(self.low_words(a, b), self.high_words(a, b));
        let cd = self.add_pairs(self.low_words(c, d), self.high_words(c, d));
        let by_place = self.add_pairs(self.low_doubles(ab, cd), self.high_doubles(ab, cd));
        // SAFETY: `self` proves the instructions.
        unsafe {
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            _mm512_permutexvar_epi32(order, by_place)
        }
    }

    /// Sixteen bf16 in the low halves of the words.
    #[inline(always)]
    fn bf16(self, x: &[f32; LANES]) -> __m512i {
        let bits = self.bits(self.load(x));
        // SAFETY: `self` proves the instructions.
        unsafe {
            let top = _mm512_srli_epi32::<16>(bits);
            let odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
            let rounded = _mm512_srli_epi32::<16>(rounded);
            let is_nan = self.is_nan(self.load(x));
            let rounded = _mm512_mask_or_epi32(rounded, is_nan, top, _mm512_set1_epi32(0x40));
            let magnitude = _mm512_and_si512(rounded, _mm512_set1_epi32(0x7fff));
            let tiny = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(i32::from(BF16_KEEP)));
            _mm512_mask_and_epi32(rounded, tiny, rounded, _mm512_set1_epi32(0x8000))
        }
    }
}

impl Round for Lanes {
    #[inline(always)]
    fn round(self, x: &[f32; 32]) -> [Word; 16] {
        let (halves, _) = x.as_chunks::<LANES>();
        let mut words = [[0; 4]; 16];
        for (x, words) in halves.iter().zip(words.as_chunks_mut::<8>().0) {
            // SAFETY: 32 bytes are writable, and `self` proves the instructions.
            unsafe {
                _mm256_storeu_si256(words.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(self.bf16(x)));
            }
        }
        words
    }
}
