use super::math::*;
use super::*;
use proptest::prelude::*;

/// Units in the last place between a f32 and an exact value; 0 for equal, counted at the exact value's exponent.
fn ulps(got: f32, exact: f64) -> f64 {
    if f64::from(got) == exact {
        return 0.0;
    }
    let nearest = exact as f32;
    let ulp = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
    (f64::from(got) - exact).abs() / ulp
}

#[test]
fn ulps_counts() {
    assert_eq!(ulps(0.0, 0.0), 0.0);
    assert_eq!(ulps(1.0, 1.0), 0.0);
    assert_eq!(ulps(f32::from_bits(1.0f32.to_bits() + 3), 1.0), 3.0);
    assert!(ulps(0.0, 1.0) > 1e6);
}

/// An integer product-and-sum that shares nothing with the code under test: exact in 640-bit fixed point.
mod exact {
    /// A number as little-endian 64-bit limbs, two's complement, in units of 2^-320.
    type Fixed = [u64; 10];

    fn shifted(significand: u64, shift: u32, negative: bool) -> Fixed {
        let mut limbs = [0u64; 10];
        let (limb, bit) = ((shift / 64) as usize, shift % 64);
        let wide = u128::from(significand) << bit;
        limbs[limb] = wide as u64;
        limbs[limb + 1] = (wide >> 64) as u64;
        if negative { negate(limbs) } else { limbs }
    }

    fn negate(x: Fixed) -> Fixed {
        let mut carry = true;
        x.map(|limb| {
            let (sum, overflow) = (!limb).overflowing_add(u64::from(carry));
            carry = overflow;
            sum
        })
    }

    fn add(a: Fixed, b: Fixed) -> Fixed {
        let mut carry = 0;
        std::array::from_fn(|i| {
            let sum = u128::from(a[i]) + u128::from(b[i]) + carry;
            carry = sum >> 64;
            sum as u64
        })
    }

    fn parts(x: f32) -> (u64, i32, bool) {
        let bits = x.to_bits();
        let exponent = ((bits >> 23) & 0xff) as i32;
        let fraction = u64::from(bits & 0x7f_ffff);
        let (significand, exponent) =
            if exponent == 0 { (fraction, -149) } else { (fraction | 0x80_0000, exponent - 150) };
        (significand, exponent, bits >> 31 == 1)
    }

    /// `a * b + c` correctly rounded, for finite operands with a nonzero exact result.
    pub(super) fn fma(a: f32, b: f32, c: f32) -> Option<f32> {
        let ((ma, ea, sa), (mb, eb, sb), (mc, ec, sc)) = (parts(a), parts(b), parts(c));
        let product = shifted(ma * mb, (ea + eb + 320) as u32, sa != sb);
        let sum = add(product, shifted(mc, (ec + 320) as u32, sc));
        let negative = sum[9] >> 63 == 1;
        let magnitude = if negative { negate(sum) } else { sum };
        let top = (0..640).rev().find(|&bit| magnitude[bit / 64] >> (bit % 64) & 1 == 1)?;
        // The last bit kept: 24 significant bits, but not below 2^-149 (bit 171).
        let last = (top as i32 - 23).max(171) as usize;
        let bit = |i: usize| magnitude[i / 64] >> (i % 64) & 1;
        let mut kept = (last..=top).rev().fold(0u64, |acc, i| acc << 1 | bit(i));
        let half = bit(last - 1) == 1;
        let sticky = (0..last - 1).any(|i| bit(i) == 1);
        kept += u64::from(half && (sticky || kept & 1 == 1));
        let value = kept as f64 * f64::from_bits(((last as i64 - 320 + 1023) as u64) << 52);
        let value = if value > f64::from(f32::MAX) { f32::INFINITY } else { value as f32 };
        Some(if negative { -value } else { value })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn fma_is_correctly_rounded(a: u32, b: u32, c: u32, near in 0u32..4) {
        let (a, b) = (f32::from_bits(a), f32::from_bits(b));
        // A quarter of the cases cancel: c is near -a * b, in the bits or as it is.
        let c = match near {
            0 => f32::from_bits((-(a * b)).to_bits().wrapping_add(c % 8)),
            1 => f32::from_bits((a * b).to_bits().wrapping_sub((c % 30) << 23)),
            _ => f32::from_bits(c),
        };
        let finite = a.is_finite() && b.is_finite() && c.is_finite();
        if let Some(expected) = finite.then(|| exact::fma(a, b, c)).flatten() {
            prop_assert_eq!(fma(a, b, c).to_bits(), expected.to_bits(), "fma({:e}, {:e}, {:e})", a, b, c);
        }
    }
}

#[test]
fn fma_edges() {
    assert_eq!(fma(0.0, 1.0, -0.0).to_bits(), 0.0f32.to_bits());
    assert_eq!(fma(-0.0, 1.0, -0.0).to_bits(), (-0.0f32).to_bits());
    assert_eq!(fma(f32::INFINITY, 1.0, 3.0), f32::INFINITY);
    assert_eq!(fma(2.0, 3.0, f32::NEG_INFINITY), f32::NEG_INFINITY);
    assert!(fma(f32::INFINITY, 0.0, 1.0).is_nan());
    assert!(fma(f32::INFINITY, 1.0, f32::NEG_INFINITY).is_nan());
    assert_eq!(fma(f32::MAX, 2.0, 0.0), f32::INFINITY);
    assert_eq!(fma(f32::MAX, 2.0, -f32::MAX), f32::MAX);
    let tiny = f32::from_bits(1);
    assert_eq!(fma(tiny, 0.5, tiny).to_bits(), 2);
    assert_eq!(fma(tiny, 0.5, 0.0).to_bits(), 0);
}

/// One value.
fn exp1(x: f32) -> f32 {
    exp(Scalar, [x; LANES])[0]
}

/// Every `step`-th f32 of both signs between two magnitudes.
fn sweep(low: f32, high: f32, step: usize) -> impl Iterator<Item = f32> {
    (low.to_bits()..high.to_bits()).step_by(step).flat_map(|b| [f32::from_bits(b), -f32::from_bits(b)])
}

#[test]
fn exp_is_within_one_ulp() {
    let worst = sweep(1e-9, 88.7, 997)
        .filter(|x| (EXP_LOW..=EXP_HIGH).contains(x))
        .map(|x| (ulps(exp1(x), libm::exp(f64::from(x))), x))
        .fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
    assert!(worst.0 <= 1.0, "{} ULP at {:e}", worst.0, worst.1);
}

#[test]
fn exp_edges() {
    assert_eq!(exp1(0.0), 1.0);
    assert_eq!(exp1(-0.0), 1.0);
    for x in [f32::NEG_INFINITY, f32::MIN, -1e6, -87.301] {
        assert_eq!(exp1(x).to_bits(), 0, "{x}");
    }
    for x in [f32::INFINITY, f32::MAX, 1e6, 88.71] {
        assert_eq!(exp1(x), f32::INFINITY, "{x}");
    }
    assert!(exp1(f32::NAN).is_nan());
    assert!(exp1(EXP_LOW) >= f32::MIN_POSITIVE);
    assert!(exp1(EXP_HIGH).is_finite());
}

fn worst_error(f: impl Fn([f32; LANES]) -> [f32; LANES], exact: impl Fn(f64) -> f64, relative: f64) -> f64 {
    sweep(1e-6, 90.0, 4999)
        .map(|x| {
            let y = exact(f64::from(x));
            (f64::from(f([x; LANES])[0]) - y).abs() - relative * y.abs()
        })
        .fold(0.0, f64::max)
}

#[test]
fn activations_are_within_their_bounds() {
    let sig = |x: f64| 1.0 / (1.0 + libm::exp(-x));
    let gelu = |x: f64| x * sig(2.0 * 0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x));
    let exact_gelu = |x: f64| 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2));
    assert!(worst_error(|x| sigmoid(Scalar, x), sig, 3e-7) <= 1e-9);
    assert!(worst_error(|x| silu(Scalar, x), |x| x * sig(x), 4e-7) <= 1e-7);
    assert!(worst_error(|x| gelu_tanh(Scalar, x), gelu, 2e-6) <= 1e-7);
    assert!(worst_error(|x| erf(Scalar, x), libm::erf, 0.0) <= 6e-7);
    assert!(worst_error(|x| gelu_erf(Scalar, x), exact_gelu, 1e-6) <= 1e-6);
    let cap = |x: f64| 30.0 * libm::tanh(x / 30.0);
    assert!(worst_error(|x| soft_cap(Scalar, x, 30.0), cap, 0.0) <= 30.0 * 2e-7);
    let softplus_error = sweep(1e-6, 90.0, 4999)
        .map(|x| ulps(softplus(x), f64::from(x).max(0.0) + libm::log1p(libm::exp(-f64::from(x).abs()))))
        .fold(0.0, f64::max);
    assert!(softplus_error <= 0.5);
}

#[test]
fn special_values_of_the_activations() {
    for f in [sigmoid::<Scalar>, silu::<Scalar>, gelu_tanh::<Scalar>, erf::<Scalar>, gelu_erf::<Scalar>] {
        assert!(f(Scalar, [f32::NAN; LANES])[0].is_nan());
        assert!(f(Scalar, [-90.0; LANES])[0].abs() <= 1.0);
    }
    assert_eq!(sigmoid(Scalar, [0.0; LANES])[0], 0.5);
    assert_eq!(erf(Scalar, [-0.0; LANES])[0].to_bits(), (-0.0f32).to_bits());
    assert_eq!(erf(Scalar, [9.0; LANES])[0], 1.0);
}

#[test]
fn squares_follow_the_lanes_and_the_tree() {
    for len in [0, 1, 15, 16, 17, 33, 100] {
        let x: Vec<f32> = (0..len).map(|i| (i as f32 * 0.37 - 5.0) * 1.1).collect();
        let mut lanes = [0.0f32; 16];
        for (i, &v) in x.iter().enumerate() {
            lanes[i % 16] = fma(v, v, lanes[i % 16]);
        }
        let pair = |a: [f32; 16], w: usize| -> [f32; 16] { std::array::from_fn(|i| a[i] + a[(i + w) % 16]) };
        let expected = pair(pair(pair(pair(lanes, 8), 4), 2), 1)[0];
        assert_eq!(sum::squares(Scalar, &x).to_bits(), expected.to_bits(), "{len} elements");
    }
}

#[test]
fn bf16_conversions_agree_with_the_half_crate() {
    for bits in (0..=u32::MAX).step_by(65_521) {
        let x = f32::from_bits(bits);
        let (ours, theirs) = (bf16_from_f32(x), half::bf16::from_f32(x).to_bits());
        assert!(ours == theirs || x.is_nan() && bf16_to_f32(ours).is_nan(), "{bits:#x}");
    }
    assert_eq!(flush_bf16(bf16_from_f32(1.387_778_8e-17)), 0);
    assert_eq!(flush_bf16(0x8001), 0x8000);
    assert_eq!(flush_bf16(72 << 7), 72 << 7);
    assert_eq!(flush_bf16((72 << 7) - 1), 0);
    assert_eq!(bf16_to_f32(72 << 7), f32::from_bits((127 - 55) << 23));
}
