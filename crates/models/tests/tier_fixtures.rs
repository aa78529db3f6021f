//! Whole models against the logits of other engines.

#![allow(clippy::unwrap_used)]

mod common;

use cera_core::{SeqStep, Want};
use cera_models::{Model, ModelOptions};
use cera_quant::kv::KvType;
use cera_testkit::fixtures::{self, Fixture};
use cera_testkit::measure::Distance;
use common::TestRuntime;

fn load(runtime: &TestRuntime, file: &str) -> Model {
    Model::load(fixtures::dir().join(file), runtime.share(), ModelOptions::default()).unwrap()
}

fn tokens(reference: &Fixture) -> Vec<u32> {
    reference.i32("tokens").data.iter().map(|&t| t as u32).collect()
}

fn logits(model: &Model, tokens: &[u32], kv: KvType) -> Vec<f32> {
    let mut state = model.new_state(kv);
    let steps = &mut [SeqStep { state: &mut state, tokens, want: Want::All }];
    model.step(steps).unwrap().data().to_vec()
}

fn argmax(row: &[f32]) -> u32 {
    let mut best = 0;
    for (i, x) in row.iter().enumerate() {
        if *x > row[best] {
            best = i;
        }
    }
    best as u32
}

#[test]
fn f32_architectures_agree_with_transformers() {
    let runtime = TestRuntime::with_threads(2);
    for name in fixtures::ARCHITECTURES {
        let model = load(&runtime, &format!("arch/{name}/model.gguf"));
        let reference = Fixture::open(&format!("arch/{name}/reference.safetensors"));
        let tokens = tokens(&reference);
        let got = logits(&model, &tokens, KvType::F32);
        let d = Distance::new(&got, &reference.f32("logits").data, model.vocabulary());
        assert!(d.rel <= 1e-5 && d.max_abs <= 2e-4, "{name}: rel {:e}, max abs {:e}", d.rel, d.max_abs);

        let mut state = model.new_state(KvType::F32);
        let mut next = tokens;
        for (i, &expected) in reference.i32("greedy").data.iter().enumerate() {
            let steps = &mut [SeqStep { state: &mut state, tokens: &next, want: Want::Last }];
            let token = argmax(model.step(steps).unwrap().data());
            assert_eq!(token, expected as u32, "{name}: greedy token {i}");
            next = vec![token];
        }
    }
}

#[test]
fn the_residual_stream_agrees_layer_by_layer() {
    let runtime = TestRuntime::with_threads(2);
    for name in fixtures::ARCHITECTURES {
        let model = load(&runtime, &format!("arch/{name}/model.gguf"));
        let reference = Fixture::open(&format!("arch/{name}/reference.safetensors"));
        let (tokens, hidden) = (tokens(&reference), reference.f32("hidden"));
        let graph = model.program().graph();
        let layers = hidden.shape[0];
        let values: Vec<_> = (0..layers).map(|i| graph.find(&format!("hidden.{i}")).unwrap()).collect();
        let mut state = model.new_state(KvType::F32);
        let steps = &mut [SeqStep { state: &mut state, tokens: &tokens, want: Want::None }];
        let mut seen = 0;
        let mut tap = |value, rows: &[f32]| {
            let layer = values.iter().position(|v| *v == value).unwrap();
            let width = graph.value(value).width;
            let d = Distance::new(rows, hidden.row(layer), width);
            assert!(d.rel <= 1e-5, "{name}: departs at hidden.{layer}: rel {:e}", d.rel);
            seen += 1;
        };
        model.program().step_with_taps(steps, &values, &mut tap).unwrap();
        assert_eq!(seen, layers);
    }
}

/// The thresholds of the fixtures' README by activation format: rel, cos, KL.
fn thresholds(format: &str) -> (f64, f64, f64) {
    match format {
        "F16" => (3e-3, 0.9999, f64::INFINITY),
        "BF16" => (0.02, 0.9995, f64::INFINITY),
        "Q2_K" | "Q3_K" | "Q4_K" | "Q5_K" | "Q6_K" | "IQ4_XS" => (0.06, 0.996, 0.012),
        _ => (0.04, 0.997, 6e-3),
    }
}

#[test]
fn quantized_models_are_as_near_to_the_truth_as_llama_cpp() {
    let runtime = TestRuntime::with_threads(2);
    let mut faults = Vec::new();
    let mut tested = 0;
    for entry in std::fs::read_dir(fixtures::dir().join("quant")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(format) = file.strip_prefix("model-").and_then(|f| f.strip_suffix(".gguf")) else {
            continue;
        };
        tested += 1;
        let model = load(&runtime, &format!("quant/{file}"));
        let reference = Fixture::open(&format!("quant/reference-{format}.safetensors"));
        let got = logits(&model, &tokens(&reference), KvType::F32);
        let truth = reference.f32("logits_dequant").data;
        let d = Distance::new(&got, &truth, model.vocabulary());
        let theirs = Distance::new(&reference.f32("logits_llamacpp").data, &truth, model.vocabulary());
        let (rel, cos, kl) = thresholds(format);
        if !(d.rel <= rel && d.cos >= cos && d.kl <= kl && d.kl <= 1.25 * theirs.kl) {
            faults.push(format!(
                "{format}: rel {:.2e}, cos {:.6}, KL {:.2e} (llama.cpp {:.2e})",
                d.rel, d.cos, d.kl, theirs.kl
            ));
        }
    }
    assert_eq!(tested, 15);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Files of llama.cpp's quantizer, whose tensors have several types and rows of odd widths.
const QUANTIZED_ARCHITECTURES: [&str; 9] = [
    "gemma3-Q4_1",
    "gptoss-MXFP4_MOE",
    "granite-Q8_0",
    "lfm2-Q5_0",
    "lfm2moe-IQ4_NL",
    "mixtral-MXFP4_MOE",
    "qwen35moe-Q4_0",
    "qwen3moe-Q4_0",
    "qwen3next-Q8_0",
];

#[test]
fn quantized_architectures_are_as_near_to_the_truth_as_llama_cpp() {
    let runtime = TestRuntime::with_threads(2);
    let mut faults = Vec::new();
    for name in QUANTIZED_ARCHITECTURES {
        let model = load(&runtime, &format!("quant-arch/{name}.gguf"));
        let reference = Fixture::open(&format!("quant-arch/reference-{name}.safetensors"));
        let got = logits(&model, &tokens(&reference), KvType::F32);
        let truth = reference.f32("logits_dequant").data;
        let d = Distance::new(&got, &truth, model.vocabulary());
        let theirs = Distance::new(&reference.f32("logits_llamacpp").data, &truth, model.vocabulary());
        if !(d.median_cos >= f64::min(0.98, theirs.median_cos - 0.02) && d.kl <= 2.0 * theirs.kl + 0.01) {
            faults.push(format!(
                "{name}: median cos {:.6}, KL {:.2e} (llama.cpp {:.6}, {:.2e})",
                d.median_cos, d.kl, theirs.median_cos, theirs.kl
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
