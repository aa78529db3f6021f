//! Integer dot products on the lanes.

use std::arch::aarch64::*;

use cera_quant::num::{Dot, LANES};

use super::Dotprod;
use crate::asm;
use crate::neon::dot::{Codes, Ints};
use crate::neon::lanes::{Lanes, Quarters};

impl Dot for Lanes<Dotprod> {
    type I = Ints;
    type Codes = Codes;

    const BIAS: i32 = 0;

    #[inline(always)]
    fn splat_i32(self, x: i32) -> Ints {
        self.splat_ints(x)
    }

    #[inline(always)]
    fn load_codes(self, x: &[[i8; 4]; LANES]) -> Codes {
        self.load_quarters(x)
    }

    #[inline(always)]
    fn dot(self, sum: Ints, a: Codes, b: [i8; 4]) -> Ints {
        // SAFETY: `self` proves the instructions.
        unsafe {
            let b = vreinterpretq_u8_s32(vdupq_n_s32(i32::from_ne_bytes(b.map(i8::cast_unsigned))));
            let a = [0, 1, 2, 3].map(|i| vreinterpretq_u8_s8(a[i]));
            // Not in a closure, which would be a function without the feature.
            [
                asm::sdot(sum[0], a[0], b),
                asm::sdot(sum[1], a[1], b),
                asm::sdot(sum[2], a[2], b),
                asm::sdot(sum[3], a[3], b),
            ]
        }
    }

    #[inline(always)]
    fn to_f32(self, x: Ints) -> Quarters {
        self.to_quarters(x)
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> Quarters {
        self.quarters_of_i8(x)
    }
}
