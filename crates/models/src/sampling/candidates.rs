//! The tokens that are left in a step, and the filters on them.

use std::cmp::Ordering;

use cera_quant::num::{LANES, Scalar, Simd as _, math};

/// The first piece that top-p puts in order; it doubles until the pieces reach the probability.
const FIRST_PIECE: usize = 256;

/// A token that can still be chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Finite.
    pub(super) score: f64,
    pub(super) id: u32,
    /// `exp` of the distance to the best score, which has 1.
    pub(super) weight: f32,
}

/// Best first: the higher score, the lower id among equals. Total over candidates.
fn rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
}

/// The highest logit, negative infinity if there is none, and whether any is NaN: those are passed over.
pub(super) fn highest(logits: &[f32]) -> (f32, bool) {
    let mut best = [f32::NEG_INFINITY; LANES];
    let mut nan = [false; LANES];
    let (whole, rest) = logits.as_chunks::<LANES>();
    let mut last = [f32::NEG_INFINITY; LANES];
    last[..rest.len()].copy_from_slice(rest);
    for logits in whole.iter().chain([&last]) {
        for i in 0..LANES {
            best[i] = if logits[i] > best[i] { logits[i] } else { best[i] };
            nan[i] |= logits[i].is_nan();
        }
    }
    (best.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a }), nan.contains(&true))
}

/// The lowest id of a logit that equals `logit`.
pub(super) fn first(logits: &[f32], logit: f32) -> Option<usize> {
    const PART: usize = 512;
    let holds = |part: &[f32]| part.iter().fold(false, |any, &x| any | (x == logit));
    let part = PART * logits.chunks(PART).position(holds)?;
    logits[part..].iter().position(|&x| x == logit).map(|at| part + at)
}

/// Fills `pool` with the best `k` of the scores that are above negative infinity, in no order if there were more than
/// `k`, else in the order of ids.
pub(super) fn best(scores: impl ExactSizeIterator<Item = f64>, k: usize, pool: &mut Vec<Candidate>) {
    pool.clear();
    if k == 0 {
        return;
    }
    // Twice `k` are collected before the lower half is dropped: linear in the number of scores for every `k`.
    let room = k.saturating_mul(2).min(scores.len().max(1));
    pool.reserve(room);
    let mut bar = f64::NEG_INFINITY;
    for (id, score) in scores.enumerate() {
        // A later token of the same score ranks lower than the one that set the bar.
        if score > bar {
            pool.push(Candidate { score, id: id as u32, weight: 0.0 });
            if pool.len() == room && room > k {
                bar = keep(pool, k);
            }
        }
    }
    if pool.len() > k {
        keep(pool, k);
    }
}

/// Keeps the best `k` of more than `k >= 1`; the score of the last of them.
fn keep(pool: &mut Vec<Candidate>, k: usize) -> f64 {
    let (_, last, _) = pool.select_nth_unstable_by(k - 1, rank);
    let bar = last.score;
    pool.truncate(k);
    bar
}

/// Sorts best first.
pub(super) fn sort_by_rank(pool: &mut [Candidate]) {
    pool.sort_unstable_by(rank);
}

/// Sorts by id.
pub(super) fn sort_by_id(pool: &mut [Candidate]) {
    pool.sort_unstable_by_key(|candidate| candidate.id);
}

/// Sets all weights to `exp((score - best) / temperature)`.
pub(super) fn weigh(pool: &mut [Candidate], temperature: f64) {
    let best = pool.iter().fold(f64::NEG_INFINITY, |best, c| if c.score > best { c.score } else { best });
    for chunk in pool.chunks_mut(LANES) {
        let mut x = [0.0; LANES];
        for (x, candidate) in x.iter_mut().zip(&*chunk) {
            *x = ((candidate.score - best) / temperature) as f32;
        }
        let weights = math::exp(Scalar, Scalar.load(&x));
        for (candidate, weight) in chunk.iter_mut().zip(Scalar.to_array(weights)) {
            candidate.weight = weight;
        }
    }
}

/// The sum of the weights in the order of the pool.
pub(super) fn total(pool: &[Candidate]) -> f64 {
    pool.iter().map(|candidate| f64::from(candidate.weight)).sum()
}

/// Keeps the fewest of the best whose weights reach `top_p` of all. `pool` is sorted by id, and stays so.
pub(super) fn top_p(pool: &mut Vec<Candidate>, top_p: f32) {
    let target = total(pool) * f64::from(top_p);
    let (mut sum, mut done, mut end) = (0.0, 0, FIRST_PIECE);
    'pieces: while done < pool.len() {
        end = end.min(pool.len());
        if end < pool.len() {
            pool[done..].select_nth_unstable_by(end - done, rank);
        }
        sort_by_rank(&mut pool[done..end]);
        while done < end {
            sum += f64::from(pool[done].weight);
            done += 1;
            if sum >= target {
                break 'pieces;
            }
        }
        end *= 2;
    }
    pool.truncate(done);
    sort_by_id(pool);
}

/// Keeps those of at least `min_p` of the best weight, which is 1.
pub(super) fn min_p(pool: &mut Vec<Candidate>, min_p: f32) {
    pool.retain(|candidate| candidate.weight >= min_p);
}

/// The candidate at `point`, which is in 0..1, of the weights laid end to end. `None` if there is no candidate.
pub(super) fn at(pool: &[Candidate], point: f64) -> Option<u32> {
    let target = total(pool) * point;
    let mut sum = 0.0;
    for candidate in pool {
        sum += f64::from(candidate.weight);
        if sum > target {
            return Some(candidate.id);
        }
    }
    // The product was rounded up to the total: the last one that has a share.
    pool.iter().rev().find(|candidate| candidate.weight > 0.0).map(|candidate| candidate.id)
}

/// The sum of `exp(logit - best)` in the order of ids.
pub(crate) fn mass(logits: &[f32], best: f32) -> f64 {
    let mut sum = 0.0;
    for chunk in logits.chunks(LANES) {
        let mut x = [f32::NEG_INFINITY; LANES];
        for (x, &logit) in x.iter_mut().zip(chunk) {
            *x = distance(logit, best) as f32;
        }
        for weight in Scalar.to_array(math::exp(Scalar, Scalar.load(&x))) {
            sum += f64::from(weight);
        }
    }
    sum
}

/// `logit - best`, which no f32 pair can overflow.
pub(crate) fn distance(logit: f32, best: f32) -> f64 {
    f64::from(logit) - f64::from(best)
}
