#![allow(clippy::unwrap_used)]

use cera_testkit::fixtures::Fixture;

use super::*;

/// The largest relative difference from the frequencies of a case of the fixtures, for heads of 128 and a base of 500000.
fn worst(scaling: Scaling, case: &str) -> f64 {
    let expected = Fixture::open("ops/ops.safetensors").f32(&format!("{case}.inv_freq")).data;
    let got = scaling.frequencies(128, 500_000.0);
    assert_eq!(got.len(), expected.len());
    let far = |(a, b): (&f64, &f32)| ((a - f64::from(*b)) / f64::from(*b)).abs();
    got.iter().zip(&expected).map(far).fold(0.0, f64::max)
}

#[test]
fn frequencies_agree_with_the_fixtures() {
    let yarn = |factor, betas| Scaling::Yarn { factor, original: 4096.0, betas, log_multiplier: None };
    let cases = [
        (Scaling::Linear(4.0), "rope_table_linear"),
        (yarn(4.0, (32.0, 1.0)), "rope_table_yarn"),
        (yarn(32.0, (32.0, 1.0)), "rope_table_yarn_betas"),
    ];
    for (scaling, case) in cases {
        let far = worst(scaling, case);
        assert!(far <= 1e-6, "{case}: {far:e}");
    }
}

#[test]
fn yarn_raises_the_magnitude() {
    let factor = Fixture::open("ops/ops.safetensors").f32("rope_table_yarn.attention_factor").data[0];
    let yarn = Scaling::Yarn { factor: 4.0, original: 4096.0, betas: (32.0, 1.0), log_multiplier: None };
    assert!((yarn.magnitude() - f64::from(factor)).abs() < 1e-6);
    assert_eq!(Scaling::Linear(4.0).magnitude(), 1.0);
}
