//! The quantizers of activations.

use std::arch::aarch64::*;

use bytemuck::Zeroable;
use cera_simd::acts::{BF16_KEEP, Largest, Quantize, Round};
use cera_simd::by_intrinsics;
use cera_simd::matrix::records::{Record32, Record256, Word};

use super::lanes::Lanes;

cera_simd::quantizers!(neon_tier, Lanes);

impl Lanes {
    by_intrinsics! {
        fn magnitudes(x: float32x4_t) -> float32x4_t = vabsq_f32;
        fn bits32(x: float32x4_t) -> uint32x4_t = vreinterpretq_u32_f32;
        fn max_bits(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = vmaxq_u32;
        fn largest(a: uint32x4_t) -> u32 = vmaxvq_u32;
        fn times(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmulq_f32;
        // To nearest even, whatever the control register has.
        fn round_to_ints(x: float32x4_t) -> int32x4_t = vcvtnq_s32_f32;
        fn to_shorts(a: int32x4_t) -> int16x8_t = vreinterpretq_s16_s32;
        fn to_ints(a: int16x8_t) -> int32x4_t = vreinterpretq_s32_s16;
        fn even_shorts(a: int16x8_t, b: int16x8_t) -> int16x8_t = vuzp1q_s16;
        fn to_codes(a: int16x8_t) -> int8x16_t = vreinterpretq_s8_s16;
        fn low_bytes(a: int8x16_t, b: int8x16_t) -> int8x16_t = vuzp1q_s8;
        fn even_words(a: int32x4_t, b: int32x4_t) -> int32x4_t = vuzp1q_s32;
        fn odd_words(a: int32x4_t, b: int32x4_t) -> int32x4_t = vuzp2q_s32;
        fn add_shorts(a: int16x8_t, b: int16x8_t) -> int16x8_t = vaddq_s16;
        // The sums of two neighbours.
        fn neighbours(a: int8x16_t) -> int16x8_t = vpaddlq_s8;
        fn neighbours16(a: int16x8_t, b: int16x8_t) -> int16x8_t = vpaddq_s16;
        fn first_word(a: int32x4_t) -> i32 = vgetq_lane_s32::<0>;
        fn splat4(x: f32) -> float32x4_t = vdupq_n_f32;
    }

    #[inline(always)]
    fn load4(self, x: &[f32; 4]) -> float32x4_t {
        // SAFETY: four f32 are readable, and `self` proves the instruction.
        unsafe { vld1q_f32(x.as_ptr()) }
    }

    #[inline(always)]
    fn store_words(self, v: int16x8_t, out: &mut [Word; 4]) {
        // SAFETY: sixteen bytes are writable, and `self` proves the instructions.
        unsafe { vst1q_u8(out.as_mut_ptr().cast(), vreinterpretq_u8_s16(v)) }
    }

    #[inline(always)]
    fn store_codes(self, v: int8x16_t, out: &mut [Word; 4]) {
        // SAFETY: sixteen bytes are writable, and `self` proves the instruction.
        unsafe { vst1q_s8(out.as_mut_ptr().cast(), v) }
    }

    /// The codes of sixteen elements.
    #[inline(always)]
    fn codes(self, x: &[f32; 16], inverse: float32x4_t) -> int8x16_t {
        let (x, _) = x.as_chunks::<4>();
        let a = self.to_shorts(self.round_to_ints(self.times(self.load4(&x[0]), inverse)));
        let b = self.to_shorts(self.round_to_ints(self.times(self.load4(&x[1]), inverse)));
        let c = self.to_shorts(self.round_to_ints(self.times(self.load4(&x[2]), inverse)));
        let d = self.to_shorts(self.round_to_ints(self.times(self.load4(&x[3]), inverse)));
        self.low_bytes(self.to_codes(self.even_shorts(a, b)), self.to_codes(self.even_shorts(c, d)))
    }

    /// The sums of two neighbouring words, of `a` and then of `b`, as pairs of 16 bits.
    #[inline(always)]
    fn add_words(self, a: int16x8_t, b: int16x8_t) -> int16x8_t {
        let (a, b) = (self.to_ints(a), self.to_ints(b));
        self.add_shorts(self.to_shorts(self.even_words(a, b)), self.to_shorts(self.odd_words(a, b)))
    }
}

impl Largest for Lanes {
    #[inline(always)]
    fn largest_bits<const N: usize>(self, x: &[f32; N]) -> u32 {
        let mut max = self.bits32(self.splat4(0.0));
        for x in x.as_chunks::<4>().0 {
            max = self.max_bits(max, self.bits32(self.magnitudes(self.load4(x))));
        }
        self.largest(max)
    }
}

impl Quantize<Record32, 32> for Lanes {
    #[inline(always)]
    fn quantize(self, x: &[f32; 32], scale: f32, inverse: f32) -> Record32 {
        let inverse = self.splat4(inverse);
        let (halves, _) = x.as_chunks::<16>();
        let (low, high) = (self.codes(&halves[0], inverse), self.codes(&halves[1], inverse));
        let pairs = self.add_words(self.neighbours(low), self.neighbours(high));
        let pairs = self.add_words(pairs, pairs);
        let pairs = self.first_word(self.to_ints(self.add_words(pairs, pairs)));
        let mut codes = [[0; 4]; 8];
        for (v, codes) in [low, high].into_iter().zip(codes.as_chunks_mut::<4>().0) {
            self.store_codes(v, codes);
        }
        Record32::of(scale, codes, pairs)
    }
}

impl Quantize<Record256, 256> for Lanes {
    #[inline(always)]
    fn quantize(self, x: &[f32; 256], scale: f32, inverse: f32) -> Record256 {
        let inverse = self.splat4(inverse);
        let mut record = Record256::zeroed();
        record.scale = scale.to_le_bytes();
        let zero = self.to_shorts(self.round_to_ints(self.splat4(0.0)));
        let mut pairs = [zero; 4];
        let quarters = x.as_chunks::<16>().0.as_chunks::<4>().0;
        let codes = record.codes.as_flattened_mut().as_chunks_mut::<4>().0.as_chunks_mut::<4>().0;
        for ((pairs, x), codes) in pairs.iter_mut().zip(quarters).zip(codes) {
            let mut sums = [zero; 4];
            for ((sums, x), codes) in sums.iter_mut().zip(x).zip(codes) {
                let v = self.codes(x, inverse);
                self.store_codes(v, codes);
                *sums = self.neighbours(v);
            }
            *pairs = self.add_words(self.add_words(sums[0], sums[1]), self.add_words(sums[2], sums[3]));
        }
        for (&pairs, out) in pairs.iter().zip(record.pairs16.as_chunks_mut::<4>().0) {
            self.store_words(pairs, out);
        }
        let sums16 = [self.neighbours16(pairs[0], pairs[1]), self.neighbours16(pairs[2], pairs[3])];
        for (&sums, out) in sums16.iter().zip(record.sums16.as_chunks_mut::<4>().0) {
            self.store_words(sums, out);
        }
        self.store_words(self.neighbours16(sums16[0], sums16[1]), &mut record.sums32);
        record
    }
}

impl Lanes {
    /// Four bf16 in the low halves of the words.
    #[inline(always)]
    fn bf16(self, x: &[f32; 4]) -> uint32x4_t {
        let x = self.load4(x);
        let bits = self.bits32(x);
        // SAFETY: `self` proves the instructions.
        unsafe {
            let top = vshrq_n_u32::<16>(bits);
            let odd = vandq_u32(top, vdupq_n_u32(1));
            let rounded = vshrq_n_u32::<16>(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd));
            let quiet = vorrq_u32(top, vdupq_n_u32(0x40));
            let rounded = vbslq_u32(vceqq_f32(x, x), rounded, quiet);
            let magnitude = vandq_u32(rounded, vdupq_n_u32(0x7fff));
            let kept = vcgeq_u32(magnitude, vdupq_n_u32(u32::from(BF16_KEEP)));
            // All bits, or only the sign where the magnitude is tiny.
            vandq_u32(rounded, vorrq_u32(kept, vdupq_n_u32(0x8000)))
        }
    }
}

impl Round for Lanes {
    #[inline(always)]
    fn round(self, x: &[f32; 32]) -> [Word; 16] {
        let mut words = [[0; 4]; 16];
        let eighths = x.as_chunks::<4>().0.as_chunks::<2>().0;
        for ([a, b], words) in eighths.iter().zip(words.as_chunks_mut::<4>().0) {
            // SAFETY: sixteen bytes are writable, and `self` proves the instructions.
            unsafe {
                let halves = vcombine_u16(vmovn_u32(self.bf16(a)), vmovn_u32(self.bf16(b)));
                vst1q_u8(words.as_mut_ptr().cast(), vreinterpretq_u8_u16(halves));
            }
        }
        words
    }
}
