//! Normalisation.

use crate::num::{LANES, Simd, sum};

/// Arguments of [`rms_norm`].
#[derive(Debug)]
pub struct RmsNormArgs<'a> {
    /// Rows of `weight.len()` elements.
    pub x: &'a [f32],
    /// One weight per element of a row.
    pub weight: &'a [f32],
    /// Added to the mean of the squares.
    pub eps: f32,
    /// As many elements as `x`.
    pub out: &'a mut [f32],
}

/// `out = (x * inv) * weight` with `inv = 1 / sqrt(sum(x^2) / n + eps)`, for each row of `n` elements.
///
/// Shapes: `x, out: [rows, n]`, `weight: [n]`.
///
/// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
///
/// # Panics
/// If `x` and `out` differ in length.
#[inline(always)]
pub fn rms_norm<S: Simd>(s: S, args: &mut RmsNormArgs<'_>) {
    let n = args.weight.len();
    assert_eq!(args.x.len(), args.out.len(), "rms_norm: lengths of x and out");
    for (x, out) in args.x.chunks_exact(n).zip(args.out.chunks_exact_mut(n)) {
        let inv = 1.0 / (sum::squares(s, x) / n as f32 + args.eps).sqrt();
        let inv = s.splat(inv);
        let ((x, x_rest), (w, w_rest)) = (x.as_chunks::<LANES>(), args.weight.as_chunks::<LANES>());
        let (out, out_rest) = out.as_chunks_mut::<LANES>();
        for ((x, w), out) in x.iter().zip(w).zip(out) {
            s.store(s.mul(s.mul(s.load(x), inv), s.load(w)), out);
        }
        if !x_rest.is_empty() {
            s.store_part(s.mul(s.mul(s.load_part(x_rest), inv), s.load_part(w_rest)), out_rest);
        }
    }
}

/// Arguments of [`layer_norm`].
#[derive(Debug)]
pub struct LayerNormArgs<'a> {
    /// Rows of `weight.len()` elements.
    pub x: &'a [f32],
    /// One weight per element of a row.
    pub weight: &'a [f32],
    /// One addend per element of a row.
    pub bias: &'a [f32],
    /// Added to the variance.
    pub eps: f32,
    /// As many elements as `x`.
    pub out: &'a mut [f32],
}

/// `out = ((x - mean) * inv) * weight + bias` with `inv = 1 / sqrt(sum((x - mean)^2) / n + eps)`, for each row of `n` elements.
///
/// The mean is the sum over sixteen lanes, divided by `n`; products and the last sum are rounded each.
///
/// Shapes: `x, out: [rows, n]`, `weight, bias: [n]`.
///
/// Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.
///
/// # Panics
/// If the lengths do not fit.
#[inline(always)]
pub fn layer_norm<S: Simd>(s: S, args: &mut LayerNormArgs<'_>) {
    let n = args.weight.len();
    assert_eq!(args.x.len(), args.out.len(), "layer_norm: lengths of x and out");
    assert_eq!(args.bias.len(), n, "layer_norm: biases");
    for (x, out) in args.x.chunks_exact(n).zip(args.out.chunks_exact_mut(n)) {
        let mean = s.splat(sum::of(s, x) / n as f32);
        for (x, out) in x.chunks(LANES).zip(out.chunks_mut(LANES)) {
            s.store_part(s.sub(s.load_part(x), mean), out);
        }
        let inv = s.splat(1.0 / (sum::squares(s, out) / n as f32 + args.eps).sqrt());
        let weights = args.weight.chunks(LANES).zip(args.bias.chunks(LANES));
        for (out, (weight, bias)) in out.chunks_mut(LANES).zip(weights) {
            let scaled = s.mul(s.mul(s.load_part(out), inv), s.load_part(weight));
            s.store_part(s.add(scaled, s.load_part(bias)), out);
        }
    }
}
