//! From scores to weights.

use std::ops::Range;

use super::scratch::Weights;
use crate::num::{LANES, Simd, math};

/// `p = exp(score - max)` in place of the scores of the visible lanes, which are capped before if `soft_cap` says so, and 0
/// in the other lanes of their sixteens; gives the maximum and the sum of the weights, minus infinity and 0 if nothing is
/// visible.
#[inline(always)]
pub(super) fn weigh<S: Simd>(
    s: S,
    visible: Range<usize>,
    soft_cap: Option<f32>,
    p: &mut Weights,
) -> (f32, f32) {
    if visible.is_empty() {
        return (f32::NEG_INFINITY, 0.0);
    }
    let groups = visible.start / LANES..visible.end.div_ceil(LANES);
    if let Some(cap) = soft_cap {
        for scores in &mut p[groups.clone()] {
            s.store(math::soft_cap(s, s.load(scores), cap), scores);
        }
    }
    for edge in [groups.start, groups.end - 1] {
        hide(edge * LANES, &visible, &mut p[edge]);
    }
    let p = &mut p[groups];
    let mut max = s.splat(f32::NEG_INFINITY);
    for scores in p.iter() {
        max = s.max(s.load(scores), max);
    }
    let max = s.reduce_max(max);
    let mut sum = s.splat(0.0);
    for p in p {
        let weight = math::exp(s, s.sub(s.load(p), s.splat(max)));
        sum = s.add(sum, weight);
        s.store(weight, p);
    }
    (max, s.reduce_add(sum))
}

/// Minus infinity in place of the scores of lanes from `base` that are not visible.
#[inline(always)]
fn hide(base: usize, visible: &Range<usize>, scores: &mut [f32; LANES]) {
    if base < visible.start || base + LANES > visible.end {
        for (i, score) in scores.iter_mut().enumerate() {
            if !visible.contains(&(base + i)) {
                *score = f32::NEG_INFINITY;
            }
        }
    }
}
