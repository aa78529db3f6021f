//! The scores of tokens, and their mean.

use cera_core::DefaultMode;

use super::PerplexityEstimate;
use crate::sampling::{distance, mass};

/// The negative log-probability of each target by its row of finite logits, computed by several threads.
///
/// Shapes: `logits: [targets, vocabulary]`, row-major; targets below the vocabulary.
pub(super) fn scores(logits: &[f32], targets: &[u32], threads: usize) -> Vec<f64> {
    let mut scores = vec![0.0; targets.len()];
    if targets.is_empty() {
        return scores;
    }
    let vocabulary = logits.len() / targets.len();
    let share = targets.len().div_ceil(threads.max(1));
    let parts = logits.chunks(share * vocabulary).zip(targets.chunks(share)).zip(scores.chunks_mut(share));
    std::thread::scope(|scope| {
        for ((logits, targets), scores) in parts {
            scope.spawn(move || {
                let _mode = DefaultMode::enter();
                for ((row, &target), out) in logits.chunks(vocabulary).zip(targets).zip(scores) {
                    *out = score(row, target);
                }
            });
        }
    });
    scores
}

/// The negative log-probability of a token by finite logits.
fn score(logits: &[f32], token: u32) -> f64 {
    let best = logits.iter().fold(f32::NEG_INFINITY, |best, &logit| if logit > best { logit } else { best });
    libm::log(mass(logits, best)) - distance(logits[token as usize], best)
}

/// The sums of scores and of their squares.
#[derive(Debug, Clone, Default)]
pub(super) struct Scores {
    count: usize,
    sum: f64,
    squares: f64,
}

impl Scores {
    pub(super) fn add(&mut self, score: f64) {
        self.count += 1;
        self.sum += score;
        self.squares += score * score;
    }

    /// The estimate after this many chunks.
    pub(super) fn estimate(&self, chunks: usize) -> PerplexityEstimate {
        let count = self.count as f64;
        let mean = self.sum / count;
        let perplexity = libm::exp(mean);
        // Of equal scores rounding can leave less than nothing.
        let variance = (self.squares / count - mean * mean).max(0.0);
        let standard_error = (self.count > 1).then(|| (variance / (count - 1.0)).sqrt() * perplexity);
        PerplexityEstimate { chunks, tokens: self.count, perplexity, standard_error }
    }
}
