use cera_testkit::rng::Rng;
use proptest::prelude::*;

use super::{ConvArgs, ConvForm};
use crate::scalar::ops::conv;

/// Random numbers for `n` tokens: weights by channel and tap as a file has them, and `B`, `C`, `x`.
struct Case {
    channels: usize,
    taps: usize,
    by_channel: Vec<f32>,
    bcx: Vec<f32>,
}

impl Case {
    fn new(channels: usize, taps: usize, n: usize, seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        let mut normal = |len: usize| (0..len).map(|_| rng.normal()).collect::<Vec<_>>();
        Case { channels, taps, by_channel: normal(channels * taps), bcx: normal(3 * channels * n) }
    }

    fn tokens(&self) -> usize {
        self.bcx.len() / (3 * self.channels)
    }

    /// The definition in f64, from a sequence's first token.
    fn oracle(&self) -> Vec<f64> {
        let (c, taps) = (self.channels, self.taps);
        let at = |token: usize, part: usize, channel: usize| {
            f64::from(self.bcx[token * 3 * c + part * c + channel])
        };
        let mut out = Vec::new();
        for token in 0..self.tokens() {
            for channel in 0..c {
                let mut sum = 0.0;
                for back in 0..taps.min(token + 1) {
                    let weight = f64::from(self.by_channel[channel * taps + taps - 1 - back]);
                    sum += weight * at(token - back, 0, channel) * at(token - back, 2, channel);
                }
                out.push(at(token, 1, channel) * sum);
            }
        }
        out
    }

    /// Runs the operation over consecutive runs of tokens, each in tiles of at most `tile`, and gives the results and the
    /// last history.
    fn run(&self, runs: &[usize], tile: usize) -> (Vec<f32>, Vec<f32>) {
        let (c, taps) = (self.channels, self.taps);
        let weight: Vec<f32> = (0..taps * c).map(|i| self.by_channel[i % c * taps + i / c]).collect();
        let mut history = vec![0.0; (taps - 1) * c];
        let mut all = Vec::new();
        let mut start = 0;
        for &len in runs {
            let bcx = &self.bcx[start * 3 * c..(start + len) * 3 * c];
            let mut next = vec![f32::NAN; history.len()];
            for first in (0..len).step_by(tile.max(1)) {
                let end = len.min(first + tile);
                let mut out = vec![f32::NAN; (end - first) * c];
                conv(&mut ConvArgs {
                    form: ConvForm::Gated,
                    weight: &weight,
                    bias: None,
                    channels: c,
                    before: &history,
                    rows: &bcx[..end * 3 * c],
                    skip: first,
                    out: &mut out,
                    after: (end == len).then_some(&mut next[..]),
                });
                all.extend(out);
            }
            if len > 0 {
                history = next;
            }
            start += len;
        }
        (all, history)
    }
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn results_are_those_of_the_definition() {
    for (channels, taps, n) in [(1, 1, 4), (16, 3, 9), (17, 3, 2), (64, 4, 33), (40, 5, 7), (3, 2, 1)] {
        let case = Case::new(channels, taps, n, (channels * taps + n) as u64);
        let (got, _) = case.run(&[n], n);
        for (i, (&got, expected)) in got.iter().zip(case.oracle()).enumerate() {
            let near = (f64::from(got) - expected).abs() <= 1e-5 * (1.0 + expected.abs());
            assert!(near, "{channels} x {taps}, element {i}: {got} for {expected}");
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an oracle shares no code with what is tested")]
fn the_order_of_operations_is_the_stated_one() {
    let case = Case::new(5, 3, 1, 7);
    let (b, c, x) = (&case.bcx[..5], &case.bcx[5..10], &case.bcx[10..]);
    let weight = |tap: usize, channel: usize| case.by_channel[channel * 3 + tap];
    let weights: Vec<f32> = (0..15).map(|i| weight(i / 5, i % 5)).collect();
    let history: Vec<f32> = (0..10).map(|i| 0.3 + i as f32 / 7.0).collect();
    let mut out = [f32::NAN; 5];
    let mut next = [f32::NAN; 10];
    conv(&mut ConvArgs {
        form: ConvForm::Gated,
        weight: &weights,
        bias: None,
        channels: 5,
        before: &history,
        rows: &case.bcx,
        skip: 0,
        out: &mut out,
        after: Some(&mut next),
    });
    for i in 0..5 {
        let u = b[i] * x[i];
        let sum = weight(0, i).mul_add(history[i], 0.0);
        let sum = weight(1, i).mul_add(history[5 + i], sum);
        let expected = c[i] * weight(2, i).mul_add(u, sum);
        assert_eq!(out[i].to_bits(), expected.to_bits(), "channel {i}");
        assert_eq!((next[i], next[5 + i]), (history[5 + i], u), "channel {i}");
    }
}

proptest! {
    #[test]
    fn cuts_into_runs_and_tiles_change_no_bit(
        channels in 1usize..40,
        taps in 1usize..6,
        runs in prop::collection::vec(0usize..7, 1..6),
        tile in 1usize..8,
        seed: u64,
    ) {
        let n = runs.iter().sum();
        let case = Case::new(channels, taps, n, seed);
        let (whole, last) = case.run(&[n], n.max(1));
        let (cut, last_cut) = case.run(&runs, tile);
        prop_assert_eq!(bits(&whole), bits(&cut));
        prop_assert_eq!(bits(&last), bits(&last_cut));
    }
}
