//! How the time to encode a text grows with its length.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use cera_models::gguf::{GgufFile, LoadMode};
use cera_models::tokenizer::{EncodeOptions, Tokenizer, TokenizerOptions};
use serde_json::{Value, json};

/// What texts repeat: a letter, white space, and a character of several bytes.
const UNITS: [&str; 4] = ["a", " ", "\n", "\u{1f999}"];
/// Characters of the shorter text; the longer one has twice as many.
const LENGTH: usize = 100_000;
/// Times of which the best counts.
const ROUNDS: usize = 5;

/// The largest ratio of the time for the longer text to that for the shorter one, and the text that has it.
pub(crate) fn measure(model: &Path) -> Result<Value> {
    let file = GgufFile::open(model, LoadMode::Map)?;
    let tokenizer = Tokenizer::from_gguf(file.meta(), &TokenizerOptions::default())?;
    let mut worst = (0.0, "");
    for unit in UNITS {
        let texts = [unit.repeat(LENGTH), unit.repeat(2 * LENGTH)];
        let mut best = [Duration::MAX; 2];
        for _ in 0..ROUNDS {
            for (text, best) in texts.iter().zip(&mut best) {
                let start = Instant::now();
                std::hint::black_box(tokenizer.encode(text, EncodeOptions::default())?);
                *best = start.elapsed().min(*best);
            }
        }
        let ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
        if ratio > worst.0 {
            worst = (ratio, unit);
        }
    }
    Ok(json!({ "ratio": worst.0, "unit": worst.1, "length": LENGTH }))
}
