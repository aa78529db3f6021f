//! Rotary position embedding.

use crate::num::{LANES, Simd};

/// Which elements of a head are rotated together, of the first `2p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RopePairs {
    /// Elements `i` and `i + p` (the NEOX layout).
    Half,
    /// Elements `2i` and `2i + 1` (the NORM layout of llama files).
    Interleaved,
}

/// Arguments of [`rope`].
#[derive(Debug)]
pub struct RopeArgs<'a> {
    /// The heads of one token, in place: a whole number of `head_dim` elements.
    pub x: &'a mut [f32],
    /// Elements per head.
    pub head_dim: usize,
    /// Which elements form a pair.
    pub pairs: RopePairs,
    /// The cosine of the angle of each pair, `p <= head_dim / 2` of them; later elements of a head stay as they are.
    pub cos: &'a [f32],
    /// The sine of the angle of each pair.
    pub sin: &'a [f32],
}

/// The cosine and sine of each pair's angle at a position, times `magnitude`: the angle is one f32 product, `position *
/// inv_freq`; its cosine and sine are taken and multiplied in f64 and rounded.
///
/// # Panics
/// If the lengths differ.
pub fn rope_table(position: usize, inv_freq: &[f32], magnitude: f32, (cos, sin): (&mut [f32], &mut [f32])) {
    assert!(inv_freq.len() == cos.len() && cos.len() == sin.len(), "rope_table: lengths differ");
    for ((&f, cos), sin) in inv_freq.iter().zip(cos).zip(sin) {
        let (angle, magnitude) = (f64::from(position as f32 * f), f64::from(magnitude));
        (*cos, *sin) = ((libm::cos(angle) * magnitude) as f32, (libm::sin(angle) * magnitude) as f32);
    }
}

#[inline(always)]
fn rotate<S: Simd>(s: S, (a, b): (S::F, S::F), (c, sn): (S::F, S::F)) -> (S::F, S::F) {
    (s.fma(a, c, s.neg(s.mul(b, sn))), s.fma(b, c, s.mul(a, sn)))
}

/// Rotates the pairs of every head: `a' = fma(a, c, -(b * s))`, `b' = fma(b, c, a * s)`.
///
/// Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
///
/// # Panics
/// If `cos` and `sin` differ in length or have more pairs than a head.
#[inline(always)]
pub fn rope<S: Simd>(s: S, args: &mut RopeArgs<'_>) {
    let p = args.cos.len();
    assert!(p == args.sin.len() && 2 * p <= args.head_dim, "rope: {p} pairs in heads of {}", args.head_dim);
    for head in args.x.chunks_exact_mut(args.head_dim) {
        match args.pairs {
            RopePairs::Half => {
                let (a, b) = head[..2 * p].split_at_mut(p);
                rotate_half(s, a, b, args.cos, args.sin);
            }
            RopePairs::Interleaved => rotate_interleaved(s, &mut head[..2 * p], args.cos, args.sin),
        }
    }
}

#[inline(always)]
fn rotate_half<S: Simd>(s: S, a: &mut [f32], b: &mut [f32], cos: &[f32], sin: &[f32]) {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks_mut::<LANES>(), b.as_chunks_mut::<LANES>());
    let ((cos, cos_rest), (sin, sin_rest)) = (cos.as_chunks::<LANES>(), sin.as_chunks::<LANES>());
    for (((a, b), c), sn) in a.iter_mut().zip(b).zip(cos).zip(sin) {
        let (x, y) = rotate(s, (s.load(a), s.load(b)), (s.load(c), s.load(sn)));
        s.store(x, a);
        s.store(y, b);
    }
    if !a_rest.is_empty() {
        let pair = (s.load_part(a_rest), s.load_part(b_rest));
        let (x, y) = rotate(s, pair, (s.load_part(cos_rest), s.load_part(sin_rest)));
        s.store_part(x, a_rest);
        s.store_part(y, b_rest);
    }
}

#[inline(always)]
fn rotate_interleaved<S: Simd>(s: S, x: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (x, x_rest) = x.as_chunks_mut::<{ 2 * LANES }>();
    let ((cos, cos_rest), (sin, sin_rest)) = (cos.as_chunks::<LANES>(), sin.as_chunks::<LANES>());
    for ((x, cos), sin) in x.iter_mut().zip(cos).zip(sin) {
        rotate_lanes(s, x, s.load(cos), s.load(sin));
    }
    if !x_rest.is_empty() {
        let mut all = [0.0; 2 * LANES];
        all[..x_rest.len()].copy_from_slice(x_rest);
        rotate_lanes(s, &mut all, s.load_part(cos_rest), s.load_part(sin_rest));
        x_rest.copy_from_slice(&all[..x_rest.len()]);
    }
}

/// Rotates sixteen neighbouring pairs.
#[inline(always)]
fn rotate_lanes<S: Simd>(s: S, x: &mut [f32; 2 * LANES], cos: S::F, sin: S::F) {
    let (mut a, mut b) = ([0.0; LANES], [0.0; LANES]);
    for i in 0..LANES {
        (a[i], b[i]) = (x[2 * i], x[2 * i + 1]);
    }
    let (ra, rb) = rotate(s, (s.load(&a), s.load(&b)), (cos, sin));
    s.store(ra, &mut a);
    s.store(rb, &mut b);
    for i in 0..LANES {
        (x[2 * i], x[2 * i + 1]) = (a[i], b[i]);
    }
}
