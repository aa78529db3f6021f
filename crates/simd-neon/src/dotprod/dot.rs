//! Integer dot products on the lanes.

use std::arch::aarch64::*;

use super::Dotprod;
use crate::asm;
use crate::neon::dot::{Codes, Ints, Products4};
use crate::neon::lanes::Lanes;

impl Products4 for Lanes<Dotprod> {
    #[inline(always)]
    fn products4(self, sum: Ints, a: Codes, b: int8x16_t) -> Ints {
        // SAFETY: `self` proves the instructions.
        unsafe {
            let b = vreinterpretq_u8_s8(b);
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
}
