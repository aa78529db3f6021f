//! Integer dot products on the sixteen lanes.

use super::{LANES, Scalar, Simd};

/// Products of bytes, summed exactly in sixteen i32.
///
/// Every method must give the bits that [`Scalar`] gives.
pub trait Dot: Simd {
    /// Sixteen i32.
    type I: Copy;
    /// Four codes in each of sixteen lanes, as the tier multiplies them.
    type Codes: Copy;
    /// What is added to every code of the left operand of [`Dot::dot`] before it is multiplied. Not the same on all tiers:
    /// a sum of products begins at `-BIAS` times the sum of its right codes.
    const BIAS: i32;

    /// All lanes equal `x`.
    fn splat_i32(self, x: i32) -> Self::I;
    /// Four codes in -127..=127 of each lane.
    fn load_codes(self, x: &[[i8; 4]; LANES]) -> Self::Codes;
    /// `sum + (a[0] + BIAS) * b[0] + ... + (a[3] + BIAS) * b[3]` in every lane, for `b` in -127..=127 and a sum that fits.
    fn dot(self, sum: Self::I, a: Self::Codes, b: [i8; 4]) -> Self::I;
    /// To f32, for magnitudes up to 2^24: exactly.
    fn to_f32(self, x: Self::I) -> Self::F;
    /// Sixteen consecutive i8, exactly.
    fn load_i8(self, x: &[i8; LANES]) -> Self::F;
}

impl Dot for Scalar {
    type I = [i32; LANES];
    type Codes = [[i8; 4]; LANES];

    const BIAS: i32 = 0;

    #[inline(always)]
    fn splat_i32(self, x: i32) -> Self::I {
        [x; LANES]
    }

    #[inline(always)]
    fn load_codes(self, x: &[[i8; 4]; LANES]) -> Self::Codes {
        *x
    }

    #[inline(always)]
    fn dot(self, sum: Self::I, a: Self::Codes, b: [i8; 4]) -> Self::I {
        std::array::from_fn(|lane| {
            a[lane].iter().zip(b).fold(sum[lane], |sum, (&a, b)| sum + i32::from(a) * i32::from(b))
        })
    }

    #[inline(always)]
    fn to_f32(self, x: Self::I) -> Self::F {
        x.map(|x| x as f32)
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> Self::F {
        x.map(f32::from)
    }
}
