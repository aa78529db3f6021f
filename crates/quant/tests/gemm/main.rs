//! The scalar matrix kernels against plain loops over the file's bytes, bit for bit, and against float64.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cera_quant::acts::{ActFormat, ActsRef};
use cera_quant::args::{GemmArgs, OutMat};
use cera_quant::blocks::dequantize_row;
use cera_quant::scalar::gemm;
use cera_quant::{Format, QuantError};
use cera_testkit::fixtures::Fixture;
use cera_testkit::gemm::{Case, POISON, activations, extreme_activations, lengths};
use cera_testkit::oracle;
use cera_testkit::rng::Rng;
use cera_testkit::weights::{self, Kind};
use proptest::prelude::*;

/// The results of all rows and tokens, by [`oracle::chain`].
fn expected(format: Format, rows: &[u8], x: &[f32], k: usize) -> Vec<Vec<f32>> {
    let row_bytes = format.row_bytes(k).expect("whole blocks");
    let token = |x| rows.chunks_exact(row_bytes).map(|row| oracle::chain(format, row, x)).collect();
    x.chunks_exact(k).map(token).collect()
}

/// The first place where the case differs from the expected results, which may have more rows and tokens.
fn difference(case: &Case, expected: &[Vec<f32>]) -> Option<String> {
    case.difference(&case.run(gemm::by_format(case.format)), |token, row| expected[token][row])
}

#[test]
fn every_shape_agrees_with_plain_loops() {
    let mut rng = Rng::new(1);
    let mut failures = Vec::new();
    for format in Format::ALL {
        for &k in lengths(format) {
            let rows = weights::rows(format, (33, k), Kind::Sane, &mut rng);
            let x = activations(33, k, &mut rng);
            let expected = expected(format, &rows, &x, k);
            for m in [0, 1, 15, 16, 17, 33] {
                for n in [0, 1, 15, 16, 17, 33] {
                    for tile in [1, 3, 4, 17, 40] {
                        let case = Case::new(format, (m, n, k), tile, &rows, &x);
                        failures.extend(difference(&case, &expected));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} shapes: {failures:#?}", failures.len());
}

#[test]
fn every_kind_of_weight_agrees_with_plain_loops() {
    let mut rng = Rng::new(2);
    let mut failures = Vec::new();
    for format in Format::ALL {
        for kind in Kind::ALL {
            let k = 5 * lengths(format)[1];
            let rows = weights::rows(format, (17, k), kind, &mut rng);
            let x = extreme_activations(4, k, &mut rng);
            let case = Case::new(format, (17, 4, k), 4, &rows, &x);
            let expected = expected(format, &rows, &x, k);
            assert!(expected.iter().flatten().all(|y| y.is_finite()), "{format} {kind:?}");
            failures.extend(difference(&case, &expected).map(|f| format!("{kind:?}: {f}")));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn random_products_agree_with_plain_loops(
        f in 0..Format::COUNT, kind in 0..Kind::ALL.len(), m in 1usize..20, n in 1usize..6, blocks in 1usize..5,
        tile in 1usize..6, seed: u64,
    ) {
        let (format, mut rng) = (Format::ALL[f], Rng::new(seed));
        let k = blocks * format.block_len();
        let rows = weights::rows(format, (m, k), Kind::ALL[kind], &mut rng);
        let x = activations(n, k, &mut rng);
        let case = Case::new(format, (m, n, k), tile, &rows, &x);
        prop_assert_eq!(difference(&case, &expected(format, &rows, &x, k)), None);
    }
}

#[test]
fn a_row_without_elements_gives_zero() {
    for format in Format::ALL {
        let mut case = Case::new(format, (3, 0, 0), 4, &[], &[]);
        case.n = 2;
        let out = case.run(gemm::by_format(format));
        assert!(out.len() == 6 && out.iter().all(|y| y.to_bits() == 0), "{format}: {out:?}");
    }
}

#[test]
fn only_the_named_strips_and_tiles_are_written() {
    let (m, n, stride, tile) = (37, 11, 40, 4);
    let mut failures = Vec::new();
    for format in Format::ALL {
        let k = lengths(format)[1];
        let rows = weights::rows(format, (m, k), Kind::Sane, &mut Rng::new(3));
        let x = activations(n, k, &mut Rng::new(4));
        let case = Case::new(format, (m, n, k), tile, &rows, &x);
        let all = case.run(gemm::by_format(format));
        for strips in [0..0, 0..1, 1..2, 2..3, 0..3] {
            for tiles in [0..0, 0..1, 1..3, 2..3] {
                let out = case.run_part(gemm::by_format(format), (strips.clone(), tiles.clone()), stride);
                let wrong = (0..n * stride).find(|&i| {
                    let (token, row) = (i / stride, i % stride);
                    let named = strips.contains(&(row / 16)) && tiles.contains(&(token / tile)) && row < m;
                    let expected = if named { all[token * m + row] } else { POISON };
                    out[i].to_bits() != expected.to_bits()
                });
                failures.extend(wrong.map(|i| format!("{format} {strips:?} {tiles:?}: element {i}")));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_token_that_is_not_finite_spoils_only_itself() {
    for format in Format::ALL {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let k = lengths(format)[1];
            let rows = weights::rows(format, (17, k), Kind::Sane, &mut Rng::new(5));
            let mut x: Vec<f32> = (0..3 * k).map(|i| i as f32).collect();
            x[k + 1] = bad;
            let case = Case::new(format, (17, 3, k), 4, &rows, &x);
            let out = case.run(gemm::by_format(format));
            let finite = out.chunks(17).map(|y| y.iter().filter(|y| y.is_finite()).count());
            assert!(finite.eq([17, 0, 17]), "{format} {bad}");
        }
    }
}

/// What `|y - matvec_f64|` may be, following the README of the fixtures.
fn tolerance(format: Format, w: &[f32], x: &[f32]) -> f64 {
    let product = |(&w, &x): (&f32, &f32)| f64::from(w.abs()) * f64::from(x.abs());
    let sum: f64 = w.iter().zip(x).map(product).sum();
    let block = ActFormat::of(format).block_len();
    let rounding: f64 = match ActFormat::of(format) {
        ActFormat::F32 => 0.0,
        // Half a unit in the last of 8 bits for the activation, and the weights that count as zero.
        ActFormat::Bf16 => {
            sum / 256.0 + w.iter().zip(x).filter(|(w, _)| oracle::bf16(**w) == 0.0).map(product).sum::<f64>()
        }
        ActFormat::Q8x32 | ActFormat::Q8x256 => {
            let of_block = |(w, x): (&[f32], &[f32])| {
                let amax = x.iter().fold(0.0, |max: f32, x| max.max(x.abs()));
                f64::from(amax) / 254.0 * w.iter().map(|w| f64::from(w.abs())).sum::<f64>()
            };
            w.chunks(block).zip(x.chunks(block)).map(of_block).sum()
        }
    };
    rounding * (1.0 + 1e-6) + 1e-6 * sum
}

#[test]
fn fixtures_are_met_within_the_rounding_of_activations() {
    let mut failures = Vec::new();
    let formats = Format::ALL.into_iter().filter(|&f| f != Format::F32);
    for format in formats {
        let fixture = Fixture::open(&format!("blocks/blocks_{format}.safetensors"));
        let (raw, w, x) = (fixture.u8("raw"), fixture.f32("dequant"), fixture.f32("x").data);
        let out = Case::new(format, (16, 1, x.len()), 1, &raw.data, &x).run(gemm::by_format(format));
        for (row, (&y, &exact)) in out.iter().zip(&fixture.f64("matvec_f64").data).enumerate() {
            let (error, allowed) = ((f64::from(y) - exact).abs(), tolerance(format, w.row(row), &x));
            if error > allowed || y.is_nan() {
                failures
                    .push(format!("{format} row {row}: {y:e} for {exact:e}, error {error:e} > {allowed:e}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Rows, tokens and tiles around the sizes of a strip and a tile.
const SHAPES: [(usize, usize, usize); 9] = [
    (1, 1, 1),
    (1, 3, 4),
    (15, 4, 4),
    (16, 5, 4),
    (17, 1, 1),
    (17, 17, 8),
    (19, 19, 4),
    (31, 2, 1),
    (33, 16, 3),
];

#[test]
fn products_are_within_their_rounding_of_float64_for_every_shape() {
    let mut failures = Vec::new();
    for format in Format::ALL {
        for &k in lengths(format) {
            for (m, n, tile) in SHAPES {
                let mut rng = Rng::new((m * 64 + n) as u64);
                let rows = weights::rows(format, (m, k), Kind::Sane, &mut rng);
                let mut w = vec![0.0; m * k];
                for (row, out) in rows.chunks(rows.len() / m).zip(w.chunks_mut(k)) {
                    dequantize_row(format, row, out).expect("lengths fit");
                }
                let x: Vec<f32> = (0..n * k).map(|i| ((i * 7919 + m) % 4001) as f32 / 500.0 - 4.0).collect();
                let out = Case::new(format, (m, n, k), tile, &rows, &x).run(gemm::by_format(format));
                for (i, &y) in out.iter().enumerate() {
                    let (w, x) = (&w[i % m * k..][..k], &x[i / m * k..][..k]);
                    let exact: f64 = w.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
                    let (error, allowed) = ((f64::from(y) - exact).abs(), tolerance(format, w, x));
                    if error > allowed || y.is_nan() {
                        failures.push(format!("{format} {m} x {n} x {k} at {i}: {error:e} > {allowed:e}"));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// An error of the arguments, which [`broken`] makes from good ones.
type Broken = (&'static str, fn(&mut GemmArgs<'_>), QuantError);

fn broken() -> [Broken; 6] {
    let shape = |what, expected, got| QuantError::ShapeMismatch { what, expected, got };
    let range = |what, end, len| QuantError::OutOfRange { what, end, len };
    let formats =
        QuantError::FormatMismatch { what: "activations of a matrix kernel", expected: "q8x32", got: "f32" };
    [
        ("format", |a| a.x = ActsRef::new(ActFormat::F32, (0, 64), 4, &[]).expect("shapes"), formats),
        (
            "k",
            |a| a.x = ActsRef::new(ActFormat::Q8x32, (0, 32), 4, &[]).expect("shapes"),
            shape("elements of an activation row", 64, 32),
        ),
        ("strips", |a| a.strips = 1..3, range("strips", 3, 2)),
        ("tiles", |a| a.tiles = 2..4, range("column tiles", 4, 2)),
        (
            "tokens",
            // SAFETY: as large as the whole output or smaller, from the same start.
            |a| a.out = unsafe { OutMat::from_raw(a.out.at(0, 0), 4, 17, 17) },
            shape("tokens of the output, at least", 5, 4),
        ),
        (
            "rows",
            // SAFETY: as above.
            |a| a.out = unsafe { OutMat::from_raw(a.out.at(0, 0), 5, 16, 17) },
            shape("rows of the output, at least", 17, 16),
        ),
    ]
}

#[test]
fn wrong_arguments_are_refused_and_make_kernels_panic() {
    let rows = weights::rows(Format::Q4_0, (17, 64), Kind::Sane, &mut Rng::new(6));
    let case = Case::new(Format::Q4_0, (17, 5, 64), 4, &rows, &[1.0; 5 * 64]);
    let mut out = [POISON; 5 * 17];
    // SAFETY: the view is 5 tokens of 17 rows, and `out` is looked at only after the last use of it.
    let view = unsafe { OutMat::from_raw(out.as_mut_ptr(), 5, 17, 17) };
    let good = case.args(view);
    for (name, break_it, error) in broken() {
        let mut args = good.clone();
        break_it(&mut args);
        assert_eq!(args.check(), Err(error), "{name}");
        assert!(catch_unwind(AssertUnwindSafe(|| gemm::q4_0(&args))).is_err(), "{name}");
    }
    assert!(catch_unwind(AssertUnwindSafe(|| gemm::q8_0(&good))).is_err(), "another format");
    assert_eq!(good.check(), Ok(()));
    gemm::q4_0(&good);
    assert!(out.iter().all(|y| y.is_finite()));
}
