//! Output heads whose rows are no whole number of strips, tied to the embedding.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use cera_core::{ProgramOptions, SeqStep, Want};
use cera_models::{Model, ModelOptions};
use cera_quant::Format;
use cera_quant::blocks::dequantize_row;
use cera_quant::kv::KvType;
use cera_testkit::toy::{Shape, Toy};
use common::TestRuntime;

const TOKENS: [u32; 5] = [31, 0, 32, 7, 15];
const WIDEST: u32 = 49;

/// A model of the first `rows` tokens of a vocabulary of [`WIDEST`].
fn tied(format: Format, rows: u32) -> Toy {
    let shape = Shape { layers: 1, hidden: 256, feed_forward: 256, vocabulary: WIDEST, ..Shape::SMALL };
    let mut toy = Toy::new(shape, |_| format);
    toy.remove("output.weight");
    let table = toy.tensor_mut("token_embd.weight");
    table.data.truncate(table.data.len() / WIDEST as usize * rows as usize);
    table.dims[1] = rows.into();
    toy
}

/// The logits, a row per token, and what the head was given.
fn run(path: &Path, runtime: &TestRuntime, options: ModelOptions) -> (Vec<f32>, Vec<f32>) {
    let model = Model::load(path, runtime.share(), options).unwrap();
    let value = model.program().graph().find("output_norm").unwrap();
    let (mut state, mut normed) = (model.new_state(KvType::F32), Vec::new());
    let steps = &mut [SeqStep { state: &mut state, tokens: &TOKENS, want: Want::All }];
    let logits =
        model.program().step_with_taps(steps, &[value], &mut |_, rows| normed.extend_from_slice(rows));
    (logits.unwrap().data().to_vec(), normed)
}

/// How far the logits are from products of the file's weights in double precision, as a share of the largest product.
fn distance(toy: &Toy, format: Format, logits: &[f32], normed: &[f32]) -> f64 {
    let table = &toy.tensors.iter().find(|tensor| tensor.name == b"token_embd.weight").unwrap().data;
    let rows = logits.len() / TOKENS.len();
    let mut weights = vec![0.0; 256];
    let (mut far, mut scale) = (0.0_f64, 0.0_f64);
    // The last row first.
    for row in (0..rows).rev() {
        dequantize_row(format, &table[row * table.len() / rows..][..table.len() / rows], &mut weights)
            .unwrap();
        for (token, x) in normed.chunks(256).enumerate() {
            let products = || x.iter().zip(&weights).map(|(x, w)| f64::from(*x) * f64::from(*w));
            far = far.max((products().sum::<f64>() - f64::from(logits[token * rows + row])).abs());
            scale = scale.max(products().map(f64::abs).sum());
        }
    }
    far / scale
}

#[test]
fn every_row_of_a_head_is_computed_whatever_their_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toy.gguf");
    let runtimes = [1, 3].map(TestRuntime::with_threads);
    let chunk = |chunk| ProgramOptions { chunk, ..ProgramOptions::default() };
    let plain = ModelOptions::default();
    let arrangements = [
        plain,
        ModelOptions { program: chunk(1), ..plain },
        ModelOptions { repack: false, ..plain },
        ModelOptions { repack: false, program: chunk(1), ..plain },
    ];
    for format in [Format::Q4_0, Format::Q4_K, Format::Q6_K] {
        std::fs::write(&path, tied(format, WIDEST).finish()).unwrap();
        let (widest, _) = run(&path, &runtimes[0], plain);
        for rows in (33..=48).chain([WIDEST]) {
            let toy = tied(format, rows);
            std::fs::write(&path, toy.finish()).unwrap();
            let expected: Vec<u32> = widest
                .chunks(WIDEST as usize)
                .flat_map(|logits| logits[..rows as usize].iter().map(|x| x.to_bits()))
                .collect();
            for (runtime, options) in
                runtimes.iter().zip([arrangements; 2]).flat_map(|(r, all)| all.map(|o| (r, o)))
            {
                let (logits, normed) = run(&path, runtime, options);
                let bits: Vec<u32> = logits.iter().map(|x| x.to_bits()).collect();
                assert!(bits == expected, "{format}, {rows} rows, {options:?}");
                let far = distance(&toy, format, &logits, &normed);
                assert!(far < 0.005, "{format}, {rows} rows: {far}");
            }
        }
    }
}
