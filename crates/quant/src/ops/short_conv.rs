//! The gated short convolution.

use crate::num::{LANES, Simd};

/// Arguments of [`short_conv`].
#[derive(Debug)]
pub struct ShortConvArgs<'a> {
    /// The taps, the oldest token's first: `[taps, channels]`.
    pub weight: &'a [f32],
    /// Elements of a result.
    pub channels: usize,
    /// The products of the tokens before the first row, the oldest first: `[taps - 1, channels]`.
    pub before: &'a [f32],
    /// Consecutive tokens of a sequence: `[rows, 3, channels]`, the gate of the input, that of the output, and the input.
    pub rows: &'a [f32],
    /// How many of the rows come before the first result.
    pub skip: usize,
    /// The results: `[rows - skip, channels]`.
    pub out: &'a mut [f32],
    /// The products of the last tokens, as `before` is of those before, if they are wanted.
    pub after: Option<&'a mut [f32]>,
}

/// `out = c * conv(b * x)`: for each channel the product `u = b * x` of a token and those of the `taps - 1` tokens before it,
/// as a chain of FMAs from zero over the taps, the oldest token first; then times `c`.
///
/// Source: Liquid AI, "LFM2 Technical Report", 2025.
///
/// # Panics
/// If the lengths do not fit.
#[inline(always)]
pub fn short_conv<S: Simd>(s: S, args: &mut ShortConvArgs<'_>) {
    let channels = args.channels;
    let taps = args.weight.len() / channels.max(1);
    let rows = args.rows.len() / (3 * channels).max(1);
    assert!(channels > 0 && taps > 0 && args.weight.len() == taps * channels, "short_conv: weights");
    assert_eq!(args.rows.len(), rows * 3 * channels, "short_conv: elements of rows");
    assert_eq!(args.before.len(), (taps - 1) * channels, "short_conv: elements of before");
    assert!(
        args.skip <= rows && args.out.len() == (rows - args.skip) * channels,
        "short_conv: elements of out"
    );
    let inputs = Inputs { before: args.before, rows: args.rows, channels, kept: taps - 1 };
    for (i, out) in args.out.chunks_exact_mut(channels).enumerate() {
        let row = args.skip + i;
        for (j, out) in out.chunks_mut(LANES).enumerate() {
            let (from, len) = (j * LANES, out.len());
            let mut sum = s.splat(0.0);
            for tap in 0..taps {
                let weight = lanes(s, &args.weight[tap * channels + from..][..len]);
                sum = s.fma(weight, inputs.product(s, row + tap, (from, len)), sum);
            }
            let gate = lanes(s, &args.rows[(3 * row + 1) * channels + from..][..len]);
            s.store_part(s.mul(gate, sum), out);
        }
    }
    if let Some(after) = &mut args.after {
        assert_eq!(after.len(), (taps - 1) * channels, "short_conv: elements of after");
        for (i, after) in after.chunks_exact_mut(channels).enumerate() {
            for (j, after) in after.chunks_mut(LANES).enumerate() {
                let part = (j * LANES, after.len());
                s.store_part(inputs.product(s, rows + i, part), after);
            }
        }
    }
}

/// Up to sixteen elements.
#[inline(always)]
fn lanes<S: Simd>(s: S, x: &[f32]) -> S::F {
    match x.first_chunk::<LANES>() {
        Some(x) => s.load(x),
        None => s.load_part(x),
    }
}

/// The products of tokens, those before the rows first.
struct Inputs<'a> {
    before: &'a [f32],
    rows: &'a [f32],
    channels: usize,
    /// Tokens before the rows.
    kept: usize,
}

impl Inputs<'_> {
    /// Some elements of the product of token `i`.
    #[inline(always)]
    fn product<S: Simd>(&self, s: S, i: usize, (from, len): (usize, usize)) -> S::F {
        if i < self.kept {
            return lanes(s, &self.before[i * self.channels + from..][..len]);
        }
        let row = &self.rows[3 * (i - self.kept) * self.channels..][..3 * self.channels];
        let (gate, x) = (&row[from..][..len], &row[2 * self.channels + from..][..len]);
        s.mul(lanes(s, gate), lanes(s, x))
    }
}

#[cfg(test)]
mod tests;
