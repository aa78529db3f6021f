//! The matrix kernels of the tiers against the scalar ones.

use crate::gemm::{Case, POISON, activations, disagreements};
use crate::rng::Rng;
use crate::weights::{self, Kind};
use cera_quant::Format;
use cera_quant::args::GemmArgs;
use cera_quant::kernels::MatrixFn;
use cera_quant::scalar::gemm;

use super::Tier;

/// A safe kernel of an available tier.
fn safe(kernel: MatrixFn) -> impl Fn(&GemmArgs<'_>) {
    // SAFETY: the tier is available.
    move |args| unsafe { kernel(args) }
}

/// The formats that a tier has kernels for, with those.
fn formats(tier: &Tier) -> Vec<(Format, Vec<MatrixFn>)> {
    let kernels = |format| {
        let of_tier = [(tier.kernels.gemm)(format), (tier.kernels.gemv)(format)];
        (format, of_tier.into_iter().flatten().collect::<Vec<_>>())
    };
    let formats: Vec<_> =
        Format::ALL.into_iter().map(kernels).filter(|(_, kernels)| !kernels.is_empty()).collect();
    assert_eq!(formats.len(), tier.formats, "formats of {}", tier.label);
    formats
}

/// The test of that name.
pub fn kernels_for_several_tokens_have_the_scalar_bits(tiers: &[Tier]) {
    let mut failures = Vec::new();
    for tier in tiers {
        let widest = tier.kernels.tile;
        let tiles: Vec<usize> = (1..=13).chain([widest - 1, widest, widest + 1, 2 * widest + 3]).collect();
        for (format, kernel) in
            formats(tier).into_iter().filter_map(|(format, _)| Some((format, (tier.kernels.gemm)(format)?)))
        {
            let found = disagreements(format, &tiles, safe(kernel), gemm::by_format(format));
            failures.extend(found.into_iter().map(|found| format!("{} {found}", tier.label)));
        }
    }
    assert!(failures.is_empty(), "{} failures: {:#?}", failures.len(), &failures[..failures.len().min(20)]);
}

/// The test of that name.
pub fn kernels_for_one_token_have_the_scalar_bits(tiers: &[Tier]) {
    let mut failures = Vec::new();
    for tier in tiers {
        for (format, kernel) in
            formats(tier).into_iter().filter_map(|(format, _)| Some((format, (tier.kernels.gemv)(format)?)))
        {
            let found = disagreements(format, &[1, 3], safe(kernel), gemm::by_format(format));
            failures.extend(found.into_iter().map(|found| format!("{} {found}", tier.label)));
        }
    }
    assert!(failures.is_empty(), "{} failures: {:#?}", failures.len(), &failures[..failures.len().min(20)]);
}

/// More strips than a kernel keeps in flight, and ranges that begin and end anywhere among them.
pub fn only_the_named_strips_and_tiles_are_written(tiers: &[Tier]) {
    let (m, n, stride, tile) = (6 * 16 + 5, 5, 103, 2);
    let mut failures = Vec::new();
    for tier in tiers {
        for (format, kernels) in formats(tier) {
            let k = format.block_len().max(3);
            let rows = weights::rows(format, (m, k), Kind::Sane, &mut Rng::new(3));
            let x = activations(n, k, &mut Rng::new(4));
            let case = Case::new(format, (m, n, k), tile, &rows, &x);
            let all = case.run(gemm::by_format(format));
            for (strips, tiles) in
                [(0..0, 0..3), (0..7, 1..1), (0..1, 0..3), (1..6, 1..2), (3..7, 2..3), (0..7, 0..3)]
            {
                for &kernel in &kernels {
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

/// The test of that name.
pub fn rows_without_elements_give_zeros(tiers: &[Tier]) {
    for tier in tiers {
        for (format, kernels) in formats(tier) {
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
