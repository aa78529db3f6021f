//! Routing: the choice of experts for a token.

use std::cmp::Ordering;
use std::ops::Range;

use crate::num::{LANES, Scalar, Simd, math, sum};

/// How experts are chosen and weighed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routing {
    /// What the logits are turned into.
    pub scores: Scores,
    /// How many experts are chosen.
    pub chosen: usize,
    /// Limits the choice to some groups of neighbouring experts.
    pub groups: Option<RoutingGroups>,
    /// Divides the weights by their sum, to which this is added first.
    pub renormalise: Option<f32>,
    /// The factor of the weights.
    pub scale: f32,
}

/// The scores of experts: what they are chosen and weighed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scores {
    /// The softmax of all logits.
    Softmax,
    /// The sigmoid of each logit.
    Sigmoid,
    /// The logits choose; the weights are the softmax of the chosen ones.
    ChosenSoftmax,
}

/// Groups of neighbouring experts, of which only some are chosen from: those with the largest sums of their two largest
/// scores.
///
/// Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 2.1.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutingGroups {
    /// Groups.
    pub count: usize,
    /// Groups that are chosen from.
    pub chosen: usize,
}

impl Routing {
    /// Whether so many experts can be chosen among `experts`.
    pub fn fits(&self, experts: usize) -> bool {
        let groups = self.groups.unwrap_or(RoutingGroups { count: 1, chosen: 1 });
        let even = groups.count > 0 && experts.is_multiple_of(groups.count);
        let within = (1..=groups.count).contains(&groups.chosen);
        even && within && self.chosen > 0 && self.chosen <= experts / groups.count * groups.chosen
    }
}

/// What [`route`] works in.
#[derive(Debug, Clone, Default)]
pub struct RouteScratch {
    scores: Vec<f32>,
    /// What experts are chosen by.
    biased: Vec<f32>,
    groups: Vec<(f32, usize)>,
    candidates: Vec<usize>,
}

impl RouteScratch {
    /// Without memory.
    pub const fn new() -> RouteScratch {
        RouteScratch { scores: Vec::new(), biased: Vec::new(), groups: Vec::new(), candidates: Vec::new() }
    }
}

/// Arguments of [`route`].
#[derive(Debug)]
pub struct RouteArgs<'a> {
    /// How experts are chosen.
    pub routing: Routing,
    /// One number per expert.
    pub logits: &'a [f32],
    /// Added to the scores for the choice alone: one number per expert.
    pub bias: Option<&'a [f32]>,
    /// The experts chosen, as whole numbers in increasing order, then their weights.
    pub out: &'a mut [f32],
    /// What it works in.
    pub scratch: &'a mut RouteScratch,
}

/// Chooses experts for one token.
///
/// The scores are `p / l` with `p = exp(x - max)` and `l` the sum of `p` over 16 lanes, `sigmoid(x)`, or the logits. Among the
/// experts of the groups chosen from, those with the largest `score + bias` are chosen; of equals, and of equal groups, the
/// first. A weight is the score, or for [`Scores::ChosenSoftmax`] `p / l` over the chosen experts with `l` summed in
/// increasing order; divided by their sum in that order where [`Routing::renormalise`] asks for it; times the scale.
///
/// Source: Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer", 2017.
///
/// # Panics
/// If the lengths do not fit, or so many experts cannot be chosen ([`Routing::fits`]).
#[inline(always)]
pub fn route<S: Simd>(s: S, args: &mut RouteArgs<'_>) {
    let RouteArgs { routing, logits, bias, out, scratch } = args;
    let (experts, chosen) = (logits.len(), routing.chosen);
    assert!(routing.fits(experts), "route: {chosen} of {experts} experts");
    assert_eq!(out.len(), 2 * chosen, "route: elements of out");
    scratch.scores.clear();
    scratch.scores.extend_from_slice(logits);
    match routing.scores {
        Scores::Softmax => softmax(s, &mut scratch.scores),
        Scores::Sigmoid => each(s, &mut scratch.scores, |s, x| math::sigmoid(s, x)),
        Scores::ChosenSoftmax => {}
    }
    let (ids, weights) = out.split_at_mut(chosen);
    choose(*bias, routing, scratch);
    for ((id, weight), &expert) in ids.iter_mut().zip(weights.iter_mut()).zip(&scratch.candidates) {
        (*id, *weight) = (expert as f32, scratch.scores[expert]);
    }
    weigh(routing, weights);
}

/// `x = f(x)` for each element.
#[inline(always)]
fn each<S: Simd>(s: S, x: &mut [f32], f: impl Fn(S, S::F) -> S::F) {
    let (x, rest) = x.as_chunks_mut::<LANES>();
    for x in x {
        s.store(f(s, s.load(x)), x);
    }
    if !rest.is_empty() {
        s.store_part(f(s, s.load_part(rest)), rest);
    }
}

#[inline(always)]
fn softmax<S: Simd>(s: S, x: &mut [f32]) {
    let max = s.splat(largest(x));
    each(s, x, |s, x| math::exp(s, s.sub(x, max)));
    let sum = s.splat(sum::of(s, x));
    each(s, x, |s, p| s.div(p, sum));
}

fn largest(x: &[f32]) -> f32 {
    x.iter().fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max })
}

/// The larger number first; of equals the lower index.
fn by_score(scores: &[f32]) -> impl Fn(&usize, &usize) -> Ordering {
    |&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b))
}

/// Leaves the chosen experts among the candidates, in increasing order.
fn choose(bias: Option<&[f32]>, routing: &Routing, scratch: &mut RouteScratch) {
    let RouteScratch { scores, biased, groups, candidates } = scratch;
    biased.clear();
    match bias {
        // A zero has one sign here, so that equals are equals.
        Some(bias) => {
            assert_eq!(bias.len(), scores.len(), "route: elements of the bias");
            biased.extend(scores.iter().zip(bias).map(|(score, bias)| score + bias + 0.0));
        }
        None => biased.extend(scores.iter().map(|score| score + 0.0)),
    }
    candidates.clear();
    match routing.groups {
        Some(limits) if limits.chosen < limits.count => {
            let len = scores.len() / limits.count;
            let members = |group: usize| -> Range<usize> { group * len..(group + 1) * len };
            groups.clear();
            groups.extend((0..limits.count).map(|group| (best_two(&biased[members(group)]), group)));
            groups.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            candidates.extend(groups[..limits.chosen].iter().flat_map(|&(_, group)| members(group)));
        }
        _ => candidates.extend(0..scores.len()),
    }
    if routing.chosen < candidates.len() {
        candidates.select_nth_unstable_by(routing.chosen - 1, by_score(biased));
        candidates.truncate(routing.chosen);
    }
    candidates.sort_unstable();
}

/// The sum of the two largest numbers.
fn best_two(scores: &[f32]) -> f32 {
    let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &score in scores {
        if score > first {
            (first, second) = (score, first);
        } else if score > second {
            second = score;
        }
    }
    // A group of one has no second.
    if scores.len() < 2 { first } else { first + second }
}

fn weigh(routing: &Routing, weights: &mut [f32]) {
    let total = |weights: &[f32]| weights.iter().fold(0.0, |sum, weight| sum + weight);
    if routing.scores == Scores::ChosenSoftmax {
        let max = largest(weights);
        each(Scalar, weights, |s, x| math::exp(s, s.sub(x, s.splat(max))));
        let all = total(weights);
        weights.iter_mut().for_each(|weight| *weight /= all);
    }
    if let Some(eps) = routing.renormalise {
        let all = total(weights) + eps;
        weights.iter_mut().for_each(|weight| *weight /= all);
    }
    if routing.scale != 1.0 {
        weights.iter_mut().for_each(|weight| *weight *= routing.scale);
    }
}

#[cfg(test)]
mod tests;
