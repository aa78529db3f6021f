//! The quantizers of activations.

use std::arch::x86_64::*;

use bytemuck::Zeroable;
use cera_simd::acts::{BF16_KEEP, Largest, Quantize, Round};
use cera_simd::by_intrinsics;
use cera_simd::matrix::records::{Record32, Record256, Word};

use super::lanes::Lanes;

cera_simd::quantizers!(avx2_tier, Lanes);

impl Lanes {
    by_intrinsics! {
        fn bits(x: __m256) -> __m256i = _mm256_castps_si256;
        fn all(x: f32) -> __m256 = _mm256_set1_ps;
        fn times(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps;
        fn max_bits(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epu32;
        // To nearest even, as the control register has it.
        fn round_to_ints(x: __m256) -> __m256i = _mm256_cvtps_epi32;
        fn add_pairs(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi16;
        fn low_words(a: __m256i, b: __m256i) -> __m256i = _mm256_unpacklo_epi32;
        fn high_words(a: __m256i, b: __m256i) -> __m256i = _mm256_unpackhi_epi32;
        fn low_doubles(a: __m256i, b: __m256i) -> __m256i = _mm256_unpacklo_epi64;
        fn high_doubles(a: __m256i, b: __m256i) -> __m256i = _mm256_unpackhi_epi64;
        fn narrow32(a: __m256i, b: __m256i) -> __m256i = _mm256_packs_epi32;
        fn narrow16(a: __m256i, b: __m256i) -> __m256i = _mm256_packs_epi16;
    }

    #[inline(always)]
    fn load8(self, x: &[f32; 8]) -> __m256 {
        // SAFETY: eight f32 are readable, and `self` proves the instruction.
        unsafe { _mm256_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    fn store32(self, v: __m256i, out: &mut [Word; 8]) {
        // SAFETY: 32 bytes are writable, and `self` proves the instruction.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), v) }
    }

    /// The codes of 32 elements.
    #[inline(always)]
    fn codes(self, x: &[f32; 32], inverse: __m256) -> __m256i {
        let (quarters, _) = x.as_chunks::<8>();
        let a = self.round_to_ints(self.times(self.load8(&quarters[0]), inverse));
        let b = self.round_to_ints(self.times(self.load8(&quarters[1]), inverse));
        let c = self.round_to_ints(self.times(self.load8(&quarters[2]), inverse));
        let d = self.round_to_ints(self.times(self.load8(&quarters[3]), inverse));
        self.interleave(self.narrow16(self.narrow32(a, b), self.narrow32(c, d)))
    }

    /// Word `i` of the low half, then word `i` of the high half: undoes how packing works on halves.
    #[inline(always)]
    fn interleave(self, v: __m256i) -> __m256i {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)) }
    }

    /// The sums of two neighbouring codes.
    #[inline(always)]
    fn neighbours(self, codes: __m256i) -> __m256i {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes) }
    }

    /// The sums of two neighbouring numbers of 16 bits.
    #[inline(always)]
    fn neighbours16(self, v: __m256i) -> __m256i {
        // SAFETY: `self` proves the instructions.
        unsafe { _mm256_madd_epi16(v, _mm256_set1_epi16(1)) }
    }
}

impl Largest for Lanes {
    #[inline(always)]
    fn largest_bits<const N: usize>(self, x: &[f32; N]) -> u32 {
        let (vectors, _) = x.as_chunks::<8>();
        // SAFETY: `self` proves the instructions.
        let (mut max, magnitude) = unsafe { (_mm256_setzero_si256(), _mm256_set1_epi32(0x7fff_ffff)) };
        for x in vectors {
            // SAFETY: `self` proves the instruction.
            let bits = unsafe { _mm256_and_si256(self.bits(self.load8(x)), magnitude) };
            max = self.max_bits(max, bits);
        }
        // SAFETY: `self` proves the instructions.
        unsafe {
            let max = _mm_max_epu32(_mm256_castsi256_si128(max), _mm256_extracti128_si256::<1>(max));
            let max = _mm_max_epu32(max, _mm_shuffle_epi32::<0b_01_00_11_10>(max));
            let max = _mm_max_epu32(max, _mm_shuffle_epi32::<0b_10_11_00_01>(max));
            _mm_cvtsi128_si32(max).cast_unsigned()
        }
    }
}

impl Quantize<Record32, 32> for Lanes {
    #[inline(always)]
    fn quantize(self, x: &[f32; 32], scale: f32, inverse: f32) -> Record32 {
        let inverse = self.all(inverse);
        let codes = self.codes(x, inverse);
        let sums = self.neighbours(codes);
        // SAFETY: `self` proves the instructions.
        let pairs = unsafe {
            let sums = _mm_add_epi16(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
            let sums = _mm_add_epi16(sums, _mm_shuffle_epi32::<0b_01_00_11_10>(sums));
            let sums = _mm_add_epi16(sums, _mm_shuffle_epi32::<0b_10_11_00_01>(sums));
            _mm_cvtsi128_si32(sums)
        };
        let mut words = [[0; 4]; 8];
        self.store32(codes, &mut words);
        Record32::of(scale, words, pairs)
    }
}

impl Quantize<Record256, 256> for Lanes {
    #[inline(always)]
    fn quantize(self, x: &[f32; 256], scale: f32, inverse: f32) -> Record256 {
        let inverse = self.all(inverse);
        let mut record = Record256::zeroed();
        record.scale = scale.to_le_bytes();
        let mut pairs = [self.bits(inverse); 2];
        let groups = x.as_chunks::<32>().0.as_chunks::<4>().0;
        let codes = record.codes.as_chunks_mut::<4>().0;
        for ((pairs, x), codes) in pairs.iter_mut().zip(groups).zip(codes) {
            *pairs = self.half(x, inverse, codes);
        }
        let (low, high) = record.pairs16.split_at_mut(8);
        for (out, pairs) in [low, high].into_iter().zip(pairs) {
            if let Some(out) = out.first_chunk_mut() {
                self.store32(pairs, out);
            }
        }
        // SAFETY: the fields are 32 and 16 writable bytes, and `self` proves the instructions. The sums fit 16 bits.
        unsafe {
            let sums16 = self.narrow32(self.neighbours16(pairs[0]), self.neighbours16(pairs[1]));
            let sums16 = _mm256_permute4x64_epi64::<0b_11_01_10_00>(sums16);
            self.store32(sums16, &mut record.sums16);
            let sums32 = self.neighbours16(sums16);
            let sums32 =
                _mm_packs_epi32(_mm256_castsi256_si128(sums32), _mm256_extracti128_si256::<1>(sums32));
            _mm_storeu_si128(record.sums32.as_mut_ptr().cast(), sums32);
        }
        record
    }
}

impl Lanes {
    /// Writes the codes of half of a block; returns for every sixteen of them the sums of those at positions 0 and 1,
    /// and 2 and 3, modulo 4.
    #[inline(always)]
    fn half(self, x: &[[f32; 32]; 4], inverse: __m256, codes: &mut [[Word; 8]; 4]) -> __m256i {
        let mut sums = [self.bits(inverse); 4];
        for ((sums, x), codes) in sums.iter_mut().zip(x).zip(codes) {
            let v = self.codes(x, inverse);
            self.store32(v, codes);
            *sums = self.neighbours(v);
        }
        // Each 128 bits of the four vectors are sixteen codes: adds up their words, of all four at once.
        let [a, b, c, d] = sums;
        let ab = self.add_pairs(self.low_words(a, b), self.high_words(a, b));
        let cd = self.add_pairs(self.low_words(c, d), self.high_words(c, d));
        self.interleave(self.add_pairs(self.low_doubles(ab, cd), self.high_doubles(ab, cd)))
    }

    /// Eight bf16 in the low halves of the words.
    #[inline(always)]
    fn bf16(self, x: &[f32; 8]) -> __m256i {
        let x = self.load8(x);
        let bits = self.bits(x);
        // SAFETY: `self` proves the instructions.
        unsafe {
            let top = _mm256_srli_epi32::<16>(bits);
            let odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
            let rounded = _mm256_srli_epi32::<16>(rounded);
            let is_nan = self.bits(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
            let quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
            let rounded = _mm256_blendv_epi8(rounded, quiet, is_nan);
            let magnitude = _mm256_and_si256(rounded, _mm256_set1_epi32(0x7fff));
            let tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(i32::from(BF16_KEEP)), magnitude);
            // All bits, or only the sign where the magnitude is tiny.
            _mm256_and_si256(
                rounded,
                _mm256_or_si256(_mm256_set1_epi32(0x8000), _mm256_andnot_si256(tiny, _mm256_set1_epi32(-1))),
            )
        }
    }
}

impl Round for Lanes {
    #[inline(always)]
    fn round(self, x: &[f32; 32]) -> [Word; 16] {
        let mut words = [[0; 4]; 16];
        let halves = x.as_chunks::<8>().0.as_chunks::<2>().0;
        for ([a, b], words) in halves.iter().zip(words.as_chunks_mut::<8>().0) {
            // SAFETY: `self` proves the instructions.
            let packed = unsafe {
                _mm256_permute4x64_epi64::<0b_11_01_10_00>(_mm256_packus_epi32(self.bf16(a), self.bf16(b)))
            };
            self.store32(packed, words);
        }
        words
    }
}
