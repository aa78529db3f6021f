//! Sums over vectors: sixteen lanes, then a tree.

use super::{LANES, Simd};

/// Reduces sixteen lanes by the tree 8-4-2-1: lane `i` takes lane `i + 8`, then `i + 4`, `i + 2`, `i + 1`.
#[inline(always)]
pub fn tree(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = join(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// The sum: element `i` goes to lane `i mod 16` in increasing `i`; missing elements of the last sixteen count as +0.
#[inline(always)]
pub fn of<S: Simd>(s: S, x: &[f32]) -> f32 {
    let (whole, rest) = x.as_chunks::<LANES>();
    let sum = whole.iter().fold(s.splat(0.0), |sum, x| s.add(sum, s.load(x)));
    s.reduce_add(if rest.is_empty() { sum } else { s.add(sum, s.load_part(rest)) })
}

/// The sum of squares: element `i` goes to lane `i mod 16` by FMA in increasing `i`; missing elements of the last
/// sixteen count as +0.
#[inline(always)]
pub fn squares<S: Simd>(s: S, x: &[f32]) -> f32 {
    let (whole, rest) = x.as_chunks::<LANES>();
    let mut acc = s.splat(0.0);
    for v in whole {
        let v = s.load(v);
        acc = s.fma(v, v, acc);
    }
    if !rest.is_empty() {
        let v = s.load_part(rest);
        acc = s.fma(v, v, acc);
    }
    s.reduce_add(acc)
}
