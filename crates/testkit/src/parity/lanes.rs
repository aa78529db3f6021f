//! The lanes of a tier against scalar lanes.

use cera_quant::num::{LANES, Scalar, Simd, math};

use crate::rng::Rng;

type Array = [f32; LANES];

/// Numbers of every size and sign, with zeros, subnormals, infinities and equal neighbours.
fn numbers(rng: &mut Rng) -> Array {
    let special =
        [0.0, -0.0, 1.0, -1.0, f32::MIN_POSITIVE, 1e-45, -3e-39, f32::MAX, f32::INFINITY, f32::NEG_INFINITY];
    std::array::from_fn(|_| match rng.below(4) {
        0 => rng.pick(&special),
        1 => rng.normal(),
        2 => rng.unit() * 90.0,
        _ => {
            let x = f32::from_bits(rng.bits() as u32);
            if x.is_nan() { 1.5 } else { x }
        }
    })
}

/// The bits; all NaN are one number.
fn bits(x: Array) -> [u32; LANES] {
    x.map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() })
}

fn truths<S: Simd>(s: S, m: S::M) -> Array {
    s.to_array(s.select(m, s.splat(1.0), s.splat(0.0)))
}

/// Every operation, as named results of sixteen lanes.
fn results<S: Simd>(s: S, x: &Array, y: &Array, z: &Array) -> Vec<(&'static str, Array)> {
    let (a, b, c) = (s.load(x), s.load(y), s.load(z));
    let mut halves = [0; LANES];
    s.store_f16(a, &mut halves);
    vec![
        ("splat", s.to_array(s.splat(x[3]))),
        ("load", s.to_array(a)),
        ("add", s.to_array(s.add(a, b))),
        ("sub", s.to_array(s.sub(a, b))),
        ("mul", s.to_array(s.mul(a, b))),
        ("div", s.to_array(s.div(a, b))),
        ("fma", s.to_array(s.fma(a, b, c))),
        ("neg", s.to_array(s.neg(a))),
        ("max", s.to_array(s.max(a, b))),
        ("lt", truths(s, s.lt(a, b))),
        ("is_nan", truths(s, s.is_nan(s.div(a, b)))),
        ("select", s.to_array(s.select(s.lt(a, b), b, c))),
        ("add_exponent", s.to_array(s.add_exponent(a, b))),
        ("reduce_add", [s.reduce_add(a); LANES]),
        ("reduce_max", [s.reduce_max(a); LANES]),
        ("store_f16", halves.map(f32::from)),
        ("load_f16", s.to_array(s.load_f16(&halves))),
        ("exp", s.to_array(math::exp(s, a))),
        ("silu", s.to_array(math::silu(s, a))),
        ("gelu_tanh", s.to_array(math::gelu_tanh(s, a))),
        ("gelu_erf", s.to_array(math::gelu_erf(s, a))),
    ]
}

/// Every operation gives the bits of scalar lanes, over many numbers.
///
/// # Panics
/// If one does not.
pub fn operations_have_the_scalar_bits<S: Simd>(label: &str, s: S) {
    let mut rng = Rng::new(1);
    for _ in 0..2000 {
        let (x, y, z) = (numbers(&mut rng), numbers(&mut rng), numbers(&mut rng));
        for ((name, got), (_, expected)) in
            results(s, &x, &y, &z).into_iter().zip(results(Scalar, &x, &y, &z))
        {
            // Which of two NaN a result keeps is not defined, and neither is the bit pattern of its f16.
            assert_eq!(bits(got), bits(expected), "{label} {name}: {x:?} {y:?} {z:?}");
        }
    }
}

/// Parts of lanes are loaded and stored without a touch of what is beside them.
///
/// # Panics
/// If one is not.
pub fn parts_are_what_they_say<S: Simd>(label: &str, s: S) {
    let all: Array = std::array::from_fn(|i| i as f32 - 7.5);
    for len in 0..=LANES {
        let mut loaded = [0.0; LANES];
        loaded[..len].copy_from_slice(&all[..len]);
        // A heap buffer that ends with the part: a sanitizer sees an access past it.
        let part: Vec<f32> = all[..len].to_vec();
        assert_eq!(bits(s.to_array(s.load_part(&part))), bits(loaded), "{label}: load_part of {len}");
        let mut stored = [9.0; LANES];
        s.store_part(s.load(&all), &mut stored[..len]);
        let mut expected = [9.0; LANES];
        expected[..len].copy_from_slice(&all[..len]);
        assert_eq!(stored, expected, "{label}: store_part of {len}");
    }
}
