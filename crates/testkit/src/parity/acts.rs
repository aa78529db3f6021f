//! The quantizers of the tiers against the scalar one, byte for byte.

use crate::gemm::extreme_activations;
use crate::rng::Rng;
use cera_quant::acts::{ActFormat, quantize_tile};

use super::Tier;

fn run(tier: &Tier, format: ActFormat, x: &[f32], k: usize) -> Option<Vec<u8>> {
    let quantize = (tier.kernels.quantize)(format)?;
    let mut out = vec![0xa5; format.bytes(x.len() / k, k).expect("size")];
    // SAFETY: the tier is available.
    unsafe { quantize(x, k, &mut out) };
    Some(out)
}

/// The first byte that differs from the scalar records.
fn difference(tier: &Tier, format: ActFormat, x: &[f32], k: usize) -> Option<String> {
    let got = run(tier, format, x, k)?;
    let mut expected = vec![0x5a; got.len()];
    quantize_tile(format, x, k, &mut expected).expect("shapes");
    let at = (0..got.len()).find(|&i| got[i] != expected[i])?;
    let (record, byte) = (at / format.record_bytes(), at % format.record_bytes());
    let n = x.len() / k;
    Some(format!(
        "{} {} {n} x {k}: byte {byte} of record {record} is {:#04x}, not {:#04x}",
        tier.label,
        format.label(),
        got[at],
        expected[at]
    ))
}

/// The test of that name.
pub fn records_of_every_shape_have_the_scalar_bytes(tiers: &[Tier]) {
    let (mut rng, mut failures) = (Rng::new(1), Vec::new());
    for tier in tiers {
        for format in ActFormat::ALL {
            for n in [2, 3, 4, 9, 17] {
                for k in (1..=40).chain([63, 64, 96, 255, 256, 257, 512, 1000]) {
                    let x = extreme_activations(n, k, &mut rng);
                    failures.extend(difference(tier, format, &x, k));
                    failures.extend(difference(tier, format, &x[..k], k));
                }
            }
            if let Some(records) = run(tier, format, &[], 32) {
                assert!(records.is_empty(), "no tokens");
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Ties, subnormals, the largest and smallest maxima that have codes, and what is not finite, in every place.
pub fn records_of_special_numbers_have_the_scalar_bytes(tiers: &[Tier]) {
    let (mut rng, mut failures) = (Rng::new(2), Vec::new());
    let tiny = f32::from_bits((127 - 100) << 23);
    let below_tiny = f32::from_bits(tiny.to_bits() - 1);
    let bf16_keep = f32::from_bits(72 << 23);
    let special = [
        0.0,
        -0.0,
        tiny,
        -tiny,
        below_tiny,
        1e-45,
        -1e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::MIN,
        6e4,
        -59_999.0,
        bf16_keep,
        -f32::from_bits((72 << 23) - 1),
        f32::from_bits(0x3f80_8000),
        f32::from_bits(0x3f81_8000),
        f32::from_bits(0x7f7f_ffff),
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::from_bits(0xff80_0001),
    ];
    for tier in tiers {
        for format in ActFormat::ALL {
            for k in [32, 256] {
                for &value in &special {
                    let mut x: Vec<f32> = (0..3 * k).map(|i| (i % 127) as f32 + 0.5).collect();
                    x[0] = 127.0;
                    x[k..2 * k].fill(value);
                    x[2 * k + rng.below(k)] = value;
                    x[rng.below(k)] = rng.pick(&special[..10]);
                    failures.extend(difference(tier, format, &x, k).map(|d| format!("{value:e}: {d}")));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The test of that name.
pub fn wrong_lengths_panic(tiers: &[Tier]) {
    for tier in tiers {
        for format in ActFormat::ALL {
            let Some(quantize) = (tier.kernels.quantize)(format) else { continue };
            for (len, k, bytes) in [(65, 32, 4096), (64, 32, 8), (32, 0, 0)] {
                let x = vec![1.0; len];
                let mut out = vec![0; bytes];
                // SAFETY: the tier is available.
                let run = std::panic::AssertUnwindSafe(|| unsafe { quantize(&x, k, &mut out) });
                assert!(
                    std::panic::catch_unwind(run).is_err(),
                    "{} {} {len} {k} {bytes}",
                    tier.label,
                    format.label()
                );
            }
        }
    }
}
