//! The penalties on tokens of the last steps.

use std::collections::VecDeque;

use super::SamplingParams;

/// How many tokens of the window have memory from the beginning.
const RESERVED: usize = 4096;

/// The window of the last tokens and what it does to scores.
#[derive(Debug, Clone)]
pub(super) struct Penalties {
    repeat: f64,
    frequency: f64,
    presence: f64,
    window: usize,
    /// The tokens of the window, oldest first.
    recent: VecDeque<u32>,
    /// How often each token of the vocabulary is in the window.
    counts: Vec<u32>,
}

impl Penalties {
    /// The penalties of `params`, or `None` if they change nothing.
    pub(super) fn new(params: &SamplingParams, vocabulary: usize) -> Option<Penalties> {
        let neutral =
            params.repeat_penalty == 1.0 && params.frequency_penalty == 0.0 && params.presence_penalty == 0.0;
        if neutral || params.penalty_window == 0 {
            return None;
        }
        let window = params.penalty_window as usize;
        Some(Penalties {
            repeat: f64::from(params.repeat_penalty),
            frequency: f64::from(params.frequency_penalty),
            presence: f64::from(params.presence_penalty),
            window,
            recent: VecDeque::with_capacity(window.min(RESERVED)),
            counts: vec![0; vocabulary],
        })
    }

    /// Puts a token into the window; the oldest one leaves a full window. Tokens outside of the vocabulary take their
    /// place too, without effect on any score.
    pub(super) fn accept(&mut self, token: u32) {
        if self.recent.len() == self.window
            && let Some(oldest) = self.recent.pop_front()
            && let Some(count) = self.counts.get_mut(oldest as usize)
        {
            *count -= 1;
        }
        self.recent.push_back(token);
        if let Some(count) = self.counts.get_mut(token as usize) {
            *count += 1;
        }
    }

    /// Changes the scores of the tokens in the window.
    pub(super) fn apply(&self, scores: &mut [f64]) {
        for (score, &count) in scores.iter_mut().zip(&self.counts) {
            if count > 0 {
                let x = if *score > 0.0 { *score / self.repeat } else { *score * self.repeat };
                *score = x - (f64::from(count) * self.frequency + self.presence);
            }
        }
    }
}
