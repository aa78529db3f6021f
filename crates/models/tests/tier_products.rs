//! Products on the tier under test against plain loops over the bytes of the file.
#![allow(clippy::unwrap_used)]

use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;

use cera_core::Runtime;
use cera_models::gguf::{GgufFile, LoadMode};
use cera_quant::Format;
use cera_quant::acts::{ActFormat, ActsRef};
use cera_quant::blocks::k_scales;
use cera_quant::pack::{self, PackedRef};
use cera_testkit::gguf::GgufWriter;
use cera_testkit::oracle;
use cera_testkit::rng::Rng;
use cera_testkit::weights::{self, Kind};

/// What the tier under test makes of `m` rows as in a file and tokens of `k` elements: token by token.
fn product(runtime: &Runtime, format: Format, (m, k): (usize, usize), rows: &[u8], x: &[f32]) -> Vec<f32> {
    let table = runtime.table();
    let (n, act) = (x.len() / k, ActFormat::of(format));
    let mut packed = vec![0xa5; pack::packed_bytes(format, m, k).unwrap()];
    pack::pack(format, (m, k), rows, &mut packed).unwrap();
    let mut acts = vec![0xa5; act.bytes(n, k).unwrap()];
    table.quantize(act, x, k, &mut acts).unwrap();
    let w = PackedRef::new(format, m, k, &packed).unwrap();
    let x = ActsRef::new(act, (n, k), table.column_tile(n), &acts).unwrap();
    let mut out = vec![MaybeUninit::uninit(); m * n];
    table.matmul(w, x, &mut out).unwrap().to_vec()
}

/// The first element that is not finite or not that of [`oracle::chain`].
fn difference(
    runtime: &Runtime,
    format: Format,
    (m, k): (usize, usize),
    rows: &[u8],
    x: &[f32],
) -> Option<String> {
    let got = product(runtime, format, (m, k), rows, x);
    (0..got.len()).find_map(|i| {
        let row = &rows[i % m * (rows.len() / m)..][..rows.len() / m];
        let expected = oracle::chain(format, row, &x[i / m * k..][..k]);
        let equal = expected.is_finite() && got[i].to_bits() == expected.to_bits();
        (!equal).then(|| format!("{format} {m} x {k}, element {i}: {:e}, not {expected:e}", got[i]))
    })
}

fn runtime() -> Arc<Runtime> {
    Runtime::from_env().unwrap()
}

/// The formats of blocks.
fn block_formats() -> impl Iterator<Item = Format> {
    Format::ALL.into_iter().filter(|format| format.block_len() > 1)
}

fn all_differ(values: &[u8]) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// Rows of `Q4_K` or `Q5_K` of which every block has eight different scales and eight different minima.
fn unequal_rows(format: Format, (m, k): (usize, usize), rng: &mut Rng) -> Vec<u8> {
    let mut rows = weights::rows(format, (m, k), Kind::Sane, rng);
    for block in rows.chunks_exact_mut(format.block_bytes()) {
        let scales = &mut block[4..16];
        loop {
            let (scale, minimum) = k_scales(scales.as_ref().try_into().unwrap());
            if all_differ(&scale) && all_differ(&minimum) {
                break;
            }
            scales.copy_from_slice(&rng.bytes(12));
        }
    }
    rows
}

#[test]
fn unequal_scales_and_minima_reach_their_sub_blocks_in_a_matrix_and_in_a_stack() {
    let (runtime, mut rng) = (runtime(), Rng::new(1));
    let (experts, m, k) = (3, 37, 768);
    for format in [Format::Q4_K, Format::Q5_K] {
        let stack = unequal_rows(format, (experts * m, k), &mut rng);
        let matrix = stack.len() / experts;
        for n in [1, 2, 5, 23] {
            let x: Vec<f32> = (0..n * k).map(|_| rng.normal()).collect();
            for rows in stack.chunks_exact(matrix) {
                assert_eq!(difference(&runtime, format, (m, k), rows, &x), None, "one of a stack");
            }
            assert_eq!(difference(&runtime, format, (experts * m, k), &stack, &x), None, "all rows");
        }
    }
}

#[test]
fn equal_large_activations_next_to_tiny_ones_stay_finite() {
    let (runtime, mut rng) = (runtime(), Rng::new(2));
    for format in Format::ALL {
        let (m, block) = (33, format.block_len().max(32));
        let k = 4 * block;
        for kind in [Kind::Sane, Kind::Extreme, Kind::Fill(0xff), Kind::Subnormal] {
            let rows = weights::rows(format, (m, k), kind, &mut rng);
            for n in [1, 11] {
                let signs = [1.0, 1.0, -1.0];
                let value = |i: usize| match i % k / block {
                    0 => 59_904.0 * signs[i / k % 3],
                    1 => 1e-7,
                    2 => -59_999.0,
                    _ => rng.normal(),
                };
                let x: Vec<f32> = (0..n * k).map(value).collect();
                assert_eq!(difference(&runtime, format, (m, k), &rows, &x), None, "{kind:?}");
            }
        }
    }
}

/// Activations that are their own codes, with the scale 1: of 127 everywhere, of either sign, of the signs of some
/// weights and of the other ones, and random ones.
fn code_tokens(w: &[i64], rng: &mut Rng) -> Vec<Vec<i64>> {
    let signed = |sign: i64| w.iter().map(|w| if *w < 0 { -127 * sign } else { 127 * sign }).collect();
    let random = |_| {
        let mut x: Vec<i64> = w.iter().map(|_| rng.below(255) as i64 - 127).collect();
        x[0] = 127;
        x
    };
    let mut tokens = vec![vec![127; w.len()], vec![-127; w.len()], signed(1), signed(-1)];
    tokens.extend((0..4).map(random));
    tokens
}

#[test]
fn whole_number_sums_of_extreme_codes_are_exact() {
    let (runtime, mut rng) = (runtime(), Rng::new(3));
    let mut failures = Vec::new();
    for format in block_formats() {
        let k = format.block_len();
        for kind in [0, 0xff, 0x80, 0x7f].map(Kind::Fill).into_iter().chain([Kind::Extreme, Kind::Sane]) {
            for (d, minimum) in [(1.0, 0.0), (0.0, 1.0)] {
                let rows = weights::rows(format, (16, k), kind, &mut rng);
                let blocks = rows.chunks_exact(format.block_bytes());
                let rows: Vec<u8> =
                    blocks.clone().flat_map(|b| oracle::with_scales(format, b, d, minimum)).collect();
                let whole: Vec<Vec<i64>> = blocks.map(|b| oracle::whole(format, b, d, minimum)).collect();
                let tokens = code_tokens(&whole[0], &mut rng);
                let x: Vec<f32> = tokens.iter().flatten().map(|x| *x as f32).collect();
                let dot =
                    |i: usize| -> i64 { whole[i % 16].iter().zip(&tokens[i / 16]).map(|(w, x)| w * x).sum() };
                let several = product(&runtime, format, (16, k), &rows, &x);
                let one = x.chunks_exact(k).flat_map(|x| product(&runtime, format, (16, k), &rows, x));
                for (got, kernel) in [(several, "several"), (one.collect(), "one")] {
                    // One rounding, from the sum to f32.
                    let wrong = (0..got.len()).find(|&i| got[i] != dot(i) as f32);
                    failures.extend(wrong.map(|i| {
                        format!("{format} {kind:?}, {kernel}: element {i} is {}, not {}", got[i], dot(i))
                    }));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The scale and the whole weights of a block of 32 as the format's definition has them, byte by byte.
fn decoded(format: Format, block: &[u8]) -> (f32, [i32; 32]) {
    let scale = half_to_f32(u16::from_le_bytes([block[0], block[1]]));
    let weight = |e: usize| match format {
        Format::Q8_0 => i32::from(block[2 + e] as i8),
        Format::Q4_0 if e < 16 => i32::from(block[2 + e] & 15) - 8,
        Format::Q4_0 => i32::from(block[2 + e - 16] >> 4) - 8,
        other => panic!("{other} is not decoded here"),
    };
    (scale, std::array::from_fn(weight))
}

/// A normal half.
fn half_to_f32(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, u32::from(bits >> 10 & 31), bits & 1023);
    assert!((1..31).contains(&exponent));
    let magnitude = (1.0 + f32::from(fraction) / 1024.0) * f32::from_bits((exponent + 127 - 15) << 23);
    if sign == 1 { -magnitude } else { magnitude }
}

/// A file with one tensor `w`, and the bytes of the tensor in it.
fn file_of(dir: &Path, format: Format, (m, k): (usize, usize), rows: &[u8]) -> (GgufFile, Vec<u8>) {
    let path = dir.join(format!("{format}.gguf"));
    let bytes = GgufWriter::new().tensor("w", &[k as u64, m as u64], format.gguf_id(), rows).finish();
    std::fs::write(&path, &bytes).unwrap();
    let start = bytes.windows(rows.len()).position(|window| window == rows).unwrap();
    (GgufFile::open(&path, LoadMode::Map).unwrap(), bytes[start..start + rows.len()].to_vec())
}

/// 2880 elements are 45 times 64: whole blocks, but no whole number of longer groups.
#[test]
fn rows_of_2880_elements_agree_with_the_bytes_of_the_file() {
    let (m, n, k) = (21, 3, 2880);
    let (runtime, mut rng) = (runtime(), Rng::new(4));
    let dir = tempfile::tempdir().unwrap();
    for format in [Format::Q4_0, Format::Q8_0] {
        let rows = weights::rows(format, (m, k), Kind::Sane, &mut rng);
        let (file, bytes) = file_of(dir.path(), format, (m, k), &rows);
        // Whole numbers up to 127, one of them 127 in every block, are their own codes.
        let code = |i: usize| if i % 32 == 5 { 127 } else { rng.below(255) as i32 - 127 };
        let codes: Vec<i32> = (0..n * k).map(code).collect();
        let x: Vec<f32> = codes.iter().map(|x| *x as f32).collect();
        let w = &*file.tensor_data(file.tensor("w").unwrap()).unwrap();
        for tokens in [1, n] {
            let got = product(&runtime, format, (m, k), w, &x[..tokens * k]);
            for (i, got) in got.into_iter().enumerate() {
                let row = &bytes[i % m * (bytes.len() / m)..][..bytes.len() / m];
                let codes = codes[i / m * k..][..k].chunks_exact(32);
                let (mut exact, mut size) = (0.0, 0.0);
                for (block, codes) in row.chunks_exact(format.block_bytes()).zip(codes) {
                    let (scale, weights) = decoded(format, block);
                    let sum: i32 = weights.iter().zip(codes).map(|(w, x)| w * x).sum();
                    exact += f64::from(scale) * f64::from(sum);
                    size += (f64::from(scale) * f64::from(sum)).abs();
                }
                // 90 roundings of sums that `size` bounds.
                let error = (f64::from(got) - exact).abs();
                assert!(
                    error <= 90.0 / f64::from(1 << 24) * size,
                    "{format} element {i}: {got}, not {exact}"
                );
            }
        }
    }
}
