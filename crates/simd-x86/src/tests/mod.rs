//! Every kernel of every tier against the scalar code, bit for bit.

mod acts;
mod lanes;
mod matrix;
mod ops;

use cera_quant::kernels::TierKernels;

use crate::{avx2, avx512vnni, tiers};

/// A tier that this machine has.
pub(crate) struct Tier {
    label: &'static str,
    kernels: TierKernels,
}

/// The tiers of this machine. The others are named on standard error.
#[allow(clippy::print_stderr, reason = "what was not tested must be seen")]
pub(crate) fn available() -> Vec<Tier> {
    let all = [
        (tiers::AVX2, Tier { label: "avx2", kernels: avx2::KERNELS }),
        (tiers::AVX512VNNI, Tier { label: "avx512vnni", kernels: avx512vnni::KERNELS }),
    ];
    let here = all.into_iter().filter(|(features, tier)| {
        let here = tiers::tests::has_all(features);
        if !here {
            eprintln!("NOT TESTED: this CPU lacks the tier {}", tier.label);
        }
        here
    });
    here.map(|(_, tier)| tier).collect()
}

/// The first element that differs.
pub(crate) fn difference(got: &[f32], expected: &[f32]) -> Option<String> {
    assert_eq!(got.len(), expected.len());
    let i = (0..got.len()).find(|&i| got[i].to_bits() != expected[i].to_bits())?;
    Some(format!(
        "element {i} is {:e} ({:08x}), not {:e} ({:08x})",
        got[i],
        got[i].to_bits(),
        expected[i],
        expected[i].to_bits()
    ))
}
