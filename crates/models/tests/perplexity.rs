//! The perplexity of texts: chunks and scores against plain loops, and the value of a real model.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "support/requantize.rs"]
mod requantize;

use std::num::NonZero;
use std::path::{Path, PathBuf};

use cera_core::{SeqStep, Want};
use cera_models::perplexity::{Perplexity, PerplexityError, PerplexityEstimate, PerplexityOptions};
use cera_models::tokenizer::{EncodeOptions, Tokenizer, TokenizerOptions};
use cera_models::{Model, ModelError, ModelOptions};
use cera_quant::Format;
use cera_quant::kv::KvType;
use cera_testkit::fixtures;
use cera_testkit::toy::{Shape, Toy};
use common::TestRuntime;

/// Tokens to begin chunks with, and those of a text that has none of them.
const BOS: u32 = 31;

fn text(len: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * i * 31 + i * 7919) % BOS as usize) as u32).collect()
}

fn toy() -> Toy {
    Toy::new(Shape::SMALL, |_| Format::Q8_0)
}

/// Runs `test` on a model of these bytes.
fn with_model(toy: Toy, threads: usize, test: impl FnOnce(&Model)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toy.gguf");
    std::fs::write(&path, toy.finish()).unwrap();
    with_file(&path, threads, test);
}

fn with_file(path: &Path, threads: usize, test: impl FnOnce(&Model)) {
    let runtime = TestRuntime::with_threads(threads);
    test(&Model::load(path, runtime.share(), ModelOptions::default()).unwrap());
}

fn options(context: usize) -> PerplexityOptions {
    PerplexityOptions { context, kv: KvType::F32, chunks: None }
}

fn all(perplexity: Perplexity<'_>) -> Vec<PerplexityEstimate> {
    let chunks = perplexity.chunks();
    let estimates: Vec<_> = perplexity.map(Result::unwrap).collect();
    let counts: Vec<_> = estimates.iter().map(|estimate| estimate.chunks).collect();
    assert_eq!(counts, (1..=chunks).collect::<Vec<_>>());
    estimates
}

/// The scores of one chunk, every logit in one step and the sum of exponentials in f64.
fn chunk_scores(model: &Model, chunk: &[u32]) -> Vec<f64> {
    let state = &mut model.program().new_state(KvType::F32, chunk.len());
    let logits = model.step(&mut [SeqStep { state, tokens: chunk, want: Want::All }]).unwrap();
    let rows: Vec<&[f32]> = logits.data().chunks(model.vocabulary()).collect();
    let score = |at: usize| {
        let row = rows[at - 1];
        let of = f64::from(row[chunk[at] as usize]);
        libm::log(row.iter().map(|&x| libm::exp(f64::from(x) - of)).sum())
    };
    (chunk.len() / 2 + 1..chunk.len()).map(score).collect()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-5 * b.abs()
}

#[test]
fn chunks_are_cut_and_scored_as_by_a_plain_loop() {
    with_model(toy(), 2, |model| {
        for (context, bos) in [(3, None), (4, Some(BOS)), (9, Some(BOS)), (16, None), (47, Some(BOS))] {
            let tokens = text(101);
            let estimates = all(Perplexity::of_tokens(model, tokens.clone(), bos, options(context)).unwrap());
            assert_eq!(estimates.len(), 101 / context);
            let mut scores = Vec::new();
            for (chunk, estimate) in tokens.chunks_exact(context).zip(&estimates) {
                let mut chunk = chunk.to_vec();
                chunk[0] = bos.unwrap_or(chunk[0]);
                scores.extend(chunk_scores(model, &chunk));
                assert_eq!(estimate.tokens, scores.len(), "context {context}");
                let count = scores.len() as f64;
                let mean = scores.iter().sum::<f64>() / count;
                let expected = libm::exp(mean);
                assert!(near(estimate.perplexity, expected), "context {context}: {estimate:?}, {expected}");
                let spread = scores.iter().map(|score| (score - mean) * (score - mean)).sum::<f64>() / count;
                let error = (scores.len() > 1).then(|| (spread / (count - 1.0)).sqrt() * expected);
                let equal = estimate.standard_error.zip(error).is_none_or(|(a, b)| near(a, b));
                assert!(
                    equal && estimate.standard_error.is_some() == error.is_some(),
                    "{estimate:?} {error:?}"
                );
            }
        }
    });
}

#[test]
fn threads_and_limits_change_no_bit_of_the_estimates() {
    let mut first = Vec::new();
    for threads in [1, 3] {
        with_model(toy(), threads, |model| {
            let of = |chunks| {
                let options = PerplexityOptions { chunks: NonZero::new(chunks), ..options(8) };
                all(Perplexity::of_tokens(model, text(2000), Some(BOS), options).unwrap())
            };
            let estimates = of(1000);
            assert_eq!(estimates.len(), 250);
            for chunks in [1, 128, 129, 249] {
                assert_eq!(of(chunks), estimates[..chunks], "{chunks} chunks");
            }
            if first.is_empty() {
                first.clone_from(&estimates);
            }
            assert_eq!(estimates, first, "{threads} threads");
        });
    }
}

#[test]
fn a_model_without_opinion_has_the_perplexity_of_its_vocabulary() {
    let mut toy = toy();
    toy.tensor_mut("output_norm.weight").data.fill(0);
    with_model(toy, 2, |model| {
        let estimates = all(Perplexity::of_tokens(model, text(64), None, options(8)).unwrap());
        for estimate in estimates {
            assert!(near(estimate.perplexity, model.vocabulary() as f64), "{estimate:?}");
            assert!(estimate.standard_error.unwrap() < 1e-5, "{estimate:?}");
        }
    });
}

#[test]
fn what_cannot_be_scored_is_an_error() {
    with_model(toy(), 1, |model| {
        let longest = model.context_length();
        let failure =
            |tokens, bos, context| Perplexity::of_tokens(model, tokens, bos, options(context)).unwrap_err();
        for context in [0, 1, 2, longest + 1, usize::MAX] {
            let error = failure(text(100), None, context);
            assert!(matches!(error, PerplexityError::Context { .. }), "{error}");
            assert_eq!(error.to_string(), format!("a context of {context} tokens, expected 3 to {longest}"));
        }
        let error = failure(text(31), None, 16);
        assert_eq!(error.to_string(), "the text has 31 tokens; with a context of 16, at least 32 are needed");
        assert_eq!(all(Perplexity::of_tokens(model, text(32), None, options(16)).unwrap()).len(), 2);
        let outside = model.vocabulary() as u32;
        // The last token of a chunk is no input of the model.
        let mut last = text(32);
        last[31] = outside;
        for error in [failure(last, None, 16), failure(text(32), Some(outside), 16)] {
            let core = cera_core::Error::Token { token: outside, vocabulary: outside as usize };
            assert!(matches!(&error, PerplexityError::Model(ModelError::Core(e)) if *e == core), "{error}");
        }
    });
}

#[test]
fn a_failed_step_ends_the_estimates() {
    let mut toy = toy();
    toy.tensor_mut("output_norm.weight").data.fill(0xff);
    with_model(toy, 1, |model| {
        let mut perplexity = Perplexity::of_tokens(model, text(64), None, options(8)).unwrap();
        let error = perplexity.next().unwrap().unwrap_err();
        assert!(matches!(&error, PerplexityError::Model(ModelError::Core(_))), "{error}");
        assert!(perplexity.next().is_none());
    });
}

#[test]
fn texts_begin_with_bos_where_the_model_asks_for_it() {
    with_file(&fixtures::dir().join("arch/llama/model.gguf"), 2, |model| {
        let tokenizer = Tokenizer::from_gguf(model.file().meta(), &TokenizerOptions::default()).unwrap();
        assert!(tokenizer.adds_bos());
        let text = "In the beginning God created the heaven and the earth. <|eot_id|> ".repeat(6);
        let tokens = tokenizer.encode(&text, EncodeOptions::default()).unwrap();
        assert_eq!(Some(tokens[0]), tokenizer.bos());
        let of_text = all(Perplexity::new(model, &tokenizer, &text, options(32)).unwrap());
        let of_tokens = Perplexity::of_tokens(model, tokens, tokenizer.bos(), options(32));
        assert_eq!(of_text, all(of_tokens.unwrap()));
    });
}

/// The demo model, a download, or `None` without it: `xtask ci` always has it. Emulation takes too long.
fn demo_model() -> Option<PathBuf> {
    std::env::var_os("CERA_TEST_SMOLLM2").filter(|_| !cera_testkit::emulation::is_on()).map(PathBuf::from)
}

/// The estimates for the stored text.
fn genesis(path: &Path, chunks: Option<NonZero<usize>>) -> Vec<PerplexityEstimate> {
    let mut estimates = Vec::new();
    with_file(path, 2, |model| {
        let tokenizer = Tokenizer::from_gguf(model.file().meta(), &TokenizerOptions::default()).unwrap();
        let text = String::from_utf8(fixtures::bytes("text/genesis.txt")).unwrap();
        let options = PerplexityOptions { chunks, ..PerplexityOptions::default() };
        estimates = all(Perplexity::new(model, &tokenizer, &text, options).unwrap());
    });
    estimates
}

/// Within half a percent of llama.cpp's value.
fn agrees(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() <= 0.005
}

/// The values are llama.cpp's, as `tests/fixtures/README.md` has them.
#[test]
fn the_beginning_of_genesis_has_the_perplexity_of_llama_cpp() {
    let expected = [3.1584, 3.5586, 4.2701, 4.6528, 5.2959, 5.8003, 6.4520, 6.0011];
    let Some(path) = demo_model() else { return };
    let estimates = genesis(&path, NonZero::new(expected.len()));
    for (estimate, expected) in estimates.iter().zip(expected) {
        // The fewer tokens, the further may two roundings of the activations be apart.
        let bar = 0.01 * estimate.perplexity;
        assert!((estimate.perplexity - expected).abs() <= bar, "{estimate:?}, expected {expected}");
    }
    let last = estimates[expected.len() - 1];
    assert_eq!(last.tokens, 255 * expected.len());
    assert!(agrees(last.perplexity, expected[expected.len() - 1]), "{last:?}");
}

/// That the stored text, which has so many chunks, has this perplexity and this error within a hundredth of it.
fn check_genesis(path: &Path, chunks: usize, (perplexity, error): (f64, f64)) {
    let estimates = genesis(path, None);
    let last = estimates[estimates.len() - 1];
    assert_eq!((last.chunks, last.tokens), (chunks, chunks * 255), "{}", path.display());
    assert!(agrees(last.perplexity, perplexity), "{}: {last:?}", path.display());
    let found = last.standard_error.unwrap();
    assert!((found / error - 1.0).abs() <= 0.01, "{}: {last:?}", path.display());
}

/// The values are llama.cpp's, as `docs/perf/perplexity.md` has them.
#[test]
#[ignore = "minutes: cargo xtask test --full"]
fn genesis_has_the_perplexity_of_llama_cpp_in_formats_of_the_demo_model() {
    let Some(source) = demo_model() else { return };
    let requantized = |format| requantize::provide(&source, format, None);
    check_genesis(&source, 55, (11.4464, 0.2466));
    check_genesis(&requantized(Format::Q8_0), 55, (11.4982, 0.2477));
    check_genesis(&requantized(Format::Q4_0), 55, (14.7546, 0.3108));
}

/// As above. `CERA_TEST_GEMMA3` has the path of the model.
#[test]
#[ignore = "minutes: cargo xtask test --full"]
fn genesis_has_the_perplexity_of_llama_cpp_in_gemma_3() {
    if cera_testkit::emulation::is_on() {
        return;
    }
    let path = std::env::var_os("CERA_TEST_GEMMA3").expect("cargo xtask model gemma3 fetches the model");
    check_genesis(Path::new(&path), 54, (10.0705, 0.2199));
}
