//! Every kernel of some tiers against the scalar code, bit for bit.
//!
//! A crate with tiers says which it has and calls [`tier_parity`](crate::tier_parity) in an integration test.

pub mod acts;
pub mod lanes;
pub mod matrix;
pub mod ops;
pub mod scans;

use cera_quant::kernels::TierKernels;

use crate::cpu::has_all;

/// A tier of the crate under test.
#[derive(Debug, Clone, Copy)]
pub struct Tier {
    /// The name that `CERA_CPU_TIER` has for it.
    pub label: &'static str,
    /// The CPU features that it needs.
    pub features: &'static [&'static str],
    /// Its kernels.
    pub kernels: TierKernels,
    /// How many weight formats it has kernels for.
    pub formats: usize,
}

/// The tiers under test: that which `CERA_CPU_TIER` names, none if it is none of `all`, or without that variable those that this
/// machine has; others are named on standard error. A tier without kernels is one that the build lacks.
///
/// # Panics
/// If `CERA_CPU_TIER` names a tier that this machine or this build lacks.
#[allow(clippy::print_stderr, reason = "what was not tested must be seen")]
pub fn available(all: &[(&'static str, &'static [&'static str], Option<TierKernels>, usize)]) -> Vec<Tier> {
    let asked = std::env::var("CERA_CPU_TIER").ok();
    let mut under_test = Vec::new();
    for &(label, features, kernels, formats) in all {
        if asked.as_ref().is_some_and(|asked| asked != label) {
            continue;
        }
        match kernels.filter(|_| has_all(features)) {
            Some(kernels) => under_test.push(Tier { label, features, kernels, formats }),
            None if asked.is_some() => panic!("this CPU or this build lacks the tier {label}"),
            None => eprintln!("NOT TESTED: this CPU or this build lacks the tier {label}"),
        }
    }
    under_test
}

/// The tests of the tiers that a function of that name returns.
#[macro_export]
macro_rules! tier_parity {
    ($tiers:ident) => {
        $crate::tier_parity! { $tiers:
            acts: records_of_every_shape_have_the_scalar_bytes;
            acts: records_of_special_numbers_have_the_scalar_bytes;
            acts: wrong_lengths_panic;
            matrix: kernels_for_several_tokens_have_the_scalar_bits;
            matrix: kernels_for_one_token_have_the_scalar_bits;
            matrix: only_the_named_strips_and_tiles_are_written;
            matrix: rows_without_elements_give_zeros;
            ops: norms_have_the_scalar_bits;
            ops: sums_and_gates_have_the_scalar_bits;
            ops: convolutions_have_the_scalar_bits;
            scans: delta_rules_have_the_scalar_bits;
            scans: state_space_scans_have_the_scalar_bits;
            ops: rotations_have_the_scalar_bits;
            ops: choices_of_experts_have_the_scalar_bits;
            ops: attention_over_f32_has_the_scalar_bits;
            ops: attention_over_f16_has_the_scalar_bits;
            ops: attention_over_q8_0_has_the_scalar_bits;
        }
    };
    ($tiers:ident: $($module:ident: $name:ident;)*) => {$(
        #[test]
        fn $name() {
            $crate::parity::$module::$name(&$tiers());
        }
    )*};
}

/// The first element that differs.
fn difference(got: &[f32], expected: &[f32]) -> Option<String> {
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
