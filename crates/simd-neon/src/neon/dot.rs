//! Integer dot products on the lanes.

use std::arch::aarch64::*;

use cera_quant::num::{Dot, LANES};

use super::lanes::{Lanes, Neon, Quarters};

/// Sixteen i32.
pub(crate) type Ints = [int32x4_t; 4];
/// Four codes in each of sixteen lanes.
pub(crate) type Codes = [int8x16_t; 4];

/// How a tier forms sums of four products of codes.
pub(crate) trait Products4 {
    /// `sum` plus the products of the four codes of each lane with those of `b`, which are the same for every lane.
    fn products4(self, sum: Ints, a: Codes, b: int8x16_t) -> Ints;
}

impl Products4 for Lanes<Neon> {
    #[inline(always)]
    fn products4(self, sum: Ints, a: Codes, b: int8x16_t) -> Ints {
        // SAFETY: `self` proves the instructions. Two products are at most 2 * 127 * 127 and fit 16 bits.
        std::array::from_fn(|i| unsafe {
            let low = vmull_s8(vget_low_s8(a[i]), vget_low_s8(b));
            vpadalq_s16(sum[i], vpaddq_s16(low, vmull_high_s8(a[i], b)))
        })
    }
}

impl<T: Copy> Dot for Lanes<T>
where
    Lanes<T>: Products4,
{
    type I = Ints;
    type Codes = Codes;

    const BIAS: i32 = 0;

    #[inline(always)]
    fn splat_i32(self, x: i32) -> Ints {
        // SAFETY: `self` proves the instruction.
        [unsafe { vdupq_n_s32(x) }; 4]
    }

    #[inline(always)]
    fn load_codes(self, x: &[[i8; 4]; LANES]) -> Codes {
        let x = x.as_flattened().as_ptr();
        // SAFETY: 64 bytes are readable, and `self` proves the instruction.
        unsafe { [vld1q_s8(x), vld1q_s8(x.add(16)), vld1q_s8(x.add(32)), vld1q_s8(x.add(48))] }
    }

    #[inline(always)]
    fn dot(self, sum: Ints, a: Codes, b: [i8; 4]) -> Ints {
        let b = i32::from_ne_bytes(b.map(i8::cast_unsigned));
        // SAFETY: `self` proves the instructions.
        let b = unsafe { vreinterpretq_s8_s32(vdupq_n_s32(b)) };
        self.products4(sum, a, b)
    }

    #[inline(always)]
    fn to_f32(self, x: Ints) -> Quarters {
        // SAFETY: `self` proves the instruction.
        x.map(|x| unsafe { vcvtq_f32_s32(x) })
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> Quarters {
        // SAFETY: sixteen bytes are readable, and `self` proves the instructions.
        unsafe {
            let x = vld1q_s8(x.as_ptr());
            let (low, high) = (vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x));
            self.to_f32([
                vmovl_s16(vget_low_s16(low)),
                vmovl_high_s16(low),
                vmovl_s16(vget_low_s16(high)),
                vmovl_high_s16(high),
            ])
        }
    }
}
