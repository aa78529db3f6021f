//! The scalar lanes: the definition of every [`Simd`] operation.

use super::{LANES, Simd, fma};

/// Sixteen lanes in an array, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Scalar;

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Scalar {
    const REGISTERS: usize = 1;

    type F = [f32; LANES];
    type M = [bool; LANES];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F {
        *x
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; LANES]) -> Self::F {
        x.map(|bits| half::f16::from_bits(bits).to_f32())
    }

    #[inline(always)]
    fn store(self, v: Self::F, out: &mut [f32; LANES]) {
        *out = v;
    }

    #[inline(always)]
    fn store_f16(self, v: Self::F, out: &mut [u16; LANES]) {
        *out = v.map(|x| half::f16::from_f32(x).to_bits());
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        std::array::from_fn(|i| fma(a[i], b[i], c[i]))
    }

    #[inline(always)]
    fn neg(self, a: Self::F) -> Self::F {
        a.map(|x| -x)
    }

    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn lt(self, a: Self::F, b: Self::F) -> Self::M {
        std::array::from_fn(|i| a[i] < b[i])
    }

    #[inline(always)]
    fn is_nan(self, a: Self::F) -> Self::M {
        a.map(f32::is_nan)
    }

    #[inline(always)]
    fn select(self, m: Self::M, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| if m[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn add_exponent(self, v: Self::F, t: Self::F) -> Self::F {
        zip(v, t, |v, t| f32::from_bits(v.to_bits().wrapping_add(t.to_bits() << 23)))
    }
}
