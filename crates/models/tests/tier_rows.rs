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

/// What a run computes, a row per token.
struct Run {
    /// The rows of the table, read by token.
    embedded: Vec<f32>,
    /// What the head is given.
    normed: Vec<f32>,
    logits: Vec<f32>,
}

fn run(path: &Path, runtime: &TestRuntime, options: ModelOptions) -> Run {
    let model = Model::load(path, runtime.share(), options).unwrap();
    let [first, last] = ["hidden.0", "output_norm"].map(|name| model.program().graph().find(name).unwrap());
    let (mut state, mut embedded, mut normed) = (model.new_state(KvType::F32), Vec::new(), Vec::new());
    let steps = &mut [SeqStep { state: &mut state, tokens: &TOKENS, want: Want::All }];
    let mut tap = |value, rows: &[f32]| {
        if value == first { &mut embedded } else { &mut normed }.extend_from_slice(rows);
    };
    let logits = model.program().step_with_taps(steps, &[first, last], &mut tap).unwrap();
    Run { embedded, normed, logits: logits.data().to_vec() }
}

/// How far the logits are from products of the file's weights in double precision, as a share of the largest product.
///
/// # Panics
/// If a row that was looked up has not the bits of the file's weights.
fn distance(toy: &Toy, format: Format, Run { embedded, normed, logits }: &Run) -> f64 {
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
            let looked_up = &embedded[token * 256..][..256];
            assert!(TOKENS[token] as usize != row || looked_up == weights, "{format}: row {row} looked up");
        }
    }
    far / scale
}

#[test]
fn every_row_of_a_head_is_computed_whatever_their_number() {
    let step = if cera_testkit::emulation::is_brief() { 4 } else { 1 };
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
        let widest = run(&path, &runtimes[0], plain).logits;
        for rows in (33..=48).step_by(step).chain([WIDEST]) {
            let toy = tied(format, rows);
            std::fs::write(&path, toy.finish()).unwrap();
            let expected: Vec<u32> = widest
                .chunks(WIDEST as usize)
                .flat_map(|logits| logits[..rows as usize].iter().map(|x| x.to_bits()))
                .collect();
            for (runtime, options) in
                runtimes.iter().zip([arrangements; 2]).flat_map(|(r, all)| all.map(|o| (r, o)))
            {
                let run = run(&path, runtime, options);
                let bits: Vec<u32> = run.logits.iter().map(|x| x.to_bits()).collect();
                assert!(bits == expected, "{format}, {rows} rows, {options:?}");
                let far = distance(&toy, format, &run);
                assert!(far < 0.005, "{format}, {rows} rows: {far}");
            }
        }
    }
}
