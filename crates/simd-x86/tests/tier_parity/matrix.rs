//! The matrix kernels of the tiers against the scalar ones.

use cera_quant::Format;
use cera_quant::args::GemmArgs;
use cera_quant::kernels::MatrixFn;
use cera_quant::scalar::gemm;
use cera_testkit::gemm::{Case, POISON, activations, disagreements};
use cera_testkit::rng::Rng;
use cera_testkit::weights::{self, Kind};

use super::{Tier, available};

/// A safe kernel of an available tier.
fn safe(kernel: MatrixFn) -> impl Fn(&GemmArgs<'_>) {
    // SAFETY: the tier is available.
    move |args| unsafe { kernel(args) }
}

/// The formats that a tier has kernels for.
fn formats(tier: &Tier) -> Vec<(Format, [MatrixFn; 2])> {
    let kernels = |format| Some([(tier.kernels.gemm)(format)?, (tier.kernels.gemv)(format)?]);
    let formats: Vec<_> =
        Format::ALL.into_iter().filter_map(|format| Some((format, kernels(format)?))).collect();
    assert!(formats.len() == Format::COUNT || tier.label == "avx512bf16", "{} lacks kernels", tier.label);
    formats
}

#[test]
fn kernels_for_several_tokens_have_the_scalar_bits() {
    let mut failures = Vec::new();
    for tier in available() {
        let widest = tier.kernels.tile;
        let tiles: Vec<usize> = (1..=13).chain([widest - 1, widest, widest + 1, 2 * widest + 3]).collect();
        for (format, [kernel, _]) in formats(&tier) {
            let found = disagreements(format, &tiles, safe(kernel), gemm::by_format(format));
            failures.extend(found.into_iter().map(|found| format!("{} {found}", tier.label)));
        }
    }
    assert!(failures.is_empty(), "{} failures: {:#?}", failures.len(), &failures[..failures.len().min(20)]);
}

#[test]
fn kernels_for_one_token_have_the_scalar_bits() {
    let mut failures = Vec::new();
    for tier in available() {
        for (format, [_, kernel]) in formats(&tier) {
            let found = disagreements(format, &[1, 3], safe(kernel), gemm::by_format(format));
            failures.extend(found.into_iter().map(|found| format!("{} {found}", tier.label)));
        }
    }
    assert!(failures.is_empty(), "{} failures: {:#?}", failures.len(), &failures[..failures.len().min(20)]);
}

/// More strips than a kernel keeps in flight, and ranges that begin and end anywhere among them.
#[test]
fn only_the_named_strips_and_tiles_are_written() {
    let (m, n, stride, tile) = (6 * 16 + 5, 5, 103, 2);
    let mut failures = Vec::new();
    for tier in available() {
        for (format, kernels) in formats(&tier) {
            let k = format.block_len().max(3);
            let rows = weights::rows(format, (m, k), Kind::Sane, &mut Rng::new(3));
            let x = activations(n, k, &mut Rng::new(4));
            let case = Case::new(format, (m, n, k), tile, &rows, &x);
            let all = case.run(gemm::by_format(format));
            for (strips, tiles) in
                [(0..0, 0..3), (0..7, 1..1), (0..1, 0..3), (1..6, 1..2), (3..7, 2..3), (0..7, 0..3)]
            {
                for kernel in kernels {
                    let out = case.run_part(safe(kernel), (strips.clone(), tiles.clone()), stride);
                    let wrong = (0..n * stride).find(|&i| {
                        let (token, row) = (i / stride, i % stride);
                        let named =
                            strips.contains(&(row / 16)) && tiles.contains(&(token / tile)) && row < m;
                        let expected = if named { all[token * m + row] } else { POISON };
                        out[i].to_bits() != expected.to_bits()
                    });
                    failures.extend(
                        wrong.map(|i| format!("{} {format} {strips:?} {tiles:?}: element {i}", tier.label)),
                    );
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn rows_without_elements_give_zeros() {
    for tier in available() {
        for (format, kernels) in formats(&tier) {
            let mut case = Case::new(format, (3, 0, 0), 4, &[], &[]);
            case.n = 2;
            for kernel in kernels {
                let out = case.run(safe(kernel));
                assert!(
                    out.len() == 6 && out.iter().all(|y| y.to_bits() == 0),
                    "{} {format}: {out:?}",
                    tier.label
                );
            }
        }
    }
}
