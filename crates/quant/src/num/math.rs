//! `exp` and what is made of it, on sixteen lanes.

use super::Simd;

/// `exp` is 0 below this.
pub const EXP_LOW: f32 = -87.3;
/// `exp` is infinite above this.
pub const EXP_HIGH: f32 = 88.7;

/// 1.5 * 2^23: adding it rounds a magnitude below 2^22 to an integer, ties to even, and leaves that integer in the low
/// bits of the significand.
const ROUND: f32 = 12_582_912.0;
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// Coefficients of `(e^r - 1 - r) / r^2` for `|r| <= ln(2) / 2`, highest degree first.
///
/// Source: S. L. Moshier, Cephes Mathematical Library, `expf`.
const EXP: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

/// The polynomial of these coefficients, highest degree first, by Horner's rule in FMA.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, x: S::F, coefficients: [f32; N]) -> S::F {
    let mut sum = s.splat(coefficients[0]);
    for coefficient in &coefficients[1..] {
        sum = s.fma(sum, x, s.splat(*coefficient));
    }
    sum
}

/// `e^x`: 0 below [`EXP_LOW`], infinite above [`EXP_HIGH`], exactly 1 at both zeros, NaN for NaN.
///
/// Numeric contract: within 1 ULP of the true value in between.
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    let t = s.fma(x, s.splat(std::f32::consts::LOG2_E), s.splat(ROUND));
    let minus_n = s.sub(s.splat(ROUND), t);
    let r = s.fma(minus_n, s.splat(LN2_HIGH), x);
    let r = s.fma(minus_n, s.splat(LN2_LOW), r);
    let q = polynomial(s, r, EXP);
    let p = s.add(s.fma(s.mul(r, r), q, r), s.splat(1.0));
    let y = s.add_exponent(p, t);
    let y = s.select(s.lt(x, s.splat(EXP_LOW)), s.splat(0.0), y);
    let y = s.select(s.lt(s.splat(EXP_HIGH), x), s.splat(f32::INFINITY), y);
    s.select(s.is_nan(x), x, y)
}

/// `1 / (1 + e^-x)`
#[inline(always)]
pub fn sigmoid<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    s.div(one, s.add(one, exp(s, s.neg(x))))
}

/// `x * sigmoid(x)`
#[inline(always)]
pub fn silu<S: Simd>(s: S, x: S::F) -> S::F {
    s.mul(x, sigmoid(s, x))
}

/// `x * sigmoid(2u)` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`: the GELU with a hyperbolic tangent, without it.
///
/// The cube is `fma(0.044715 * (x * x), x, x)`.
#[inline(always)]
pub fn gelu_tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let cubic = s.mul(s.splat(0.044_715), s.mul(x, x));
    let u2 = s.mul(s.splat(2.0 * 0.797_884_6), s.fma(cubic, x, x));
    s.mul(x, sigmoid(s, u2))
}

/// `cap * tanh(x / cap)`, the hyperbolic tangent as `2 sigmoid(2u) - 1` with one rounding by FMA.
///
/// Numeric contract: within `2e-7 * cap` of the true value.
#[inline(always)]
pub fn soft_cap<S: Simd>(s: S, x: S::F, cap: f32) -> S::F {
    let cap = s.splat(cap);
    let u = s.div(x, cap);
    let tanh = s.fma(s.splat(2.0), sigmoid(s, s.add(u, u)), s.splat(-1.0));
    s.mul(cap, tanh)
}

/// The error function: `1 - (a1 t + .. + a5 t^5) e^(-x^2)` with `t = 1 / (1 + p |x|)`, odd in `x`.
///
/// Numeric contract: absolute error at most 6e-7.
///
/// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26.
#[inline(always)]
pub fn erf<S: Simd>(s: S, x: S::F) -> S::F {
    const A: [f32; 5] = [1.061_405_4, -1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6];
    let one = s.splat(1.0);
    let magnitude = s.max(x, s.neg(x));
    let t = s.div(one, s.fma(s.splat(0.327_591_1), magnitude, one));
    let poly = polynomial(s, t, A);
    let tail = s.mul(s.mul(poly, t), exp(s, s.neg(s.mul(x, x))));
    let y = s.sub(one, tail);
    let signed = s.select(s.lt(x, s.splat(0.0)), s.neg(y), y);
    let zero = s.select(s.lt(s.splat(0.0), magnitude), signed, x);
    s.select(s.is_nan(x), x, zero)
}

/// `x / 2 * (1 + erf(x / sqrt 2))`
#[inline(always)]
pub fn gelu_erf<S: Simd>(s: S, x: S::F) -> S::F {
    let e = erf(s, s.mul(x, s.splat(std::f32::consts::FRAC_1_SQRT_2)));
    s.mul(s.mul(s.splat(0.5), x), s.add(s.splat(1.0), e))
}

/// `ln(1 + e^x)` in f64, rounded to f32.
pub fn softplus(x: f32) -> f32 {
    let x = f64::from(x);
    (x.max(0.0) + libm::log1p(libm::exp(-x.abs()))) as f32
}
