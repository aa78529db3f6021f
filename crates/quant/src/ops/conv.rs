//! Causal depthwise convolutions over the tokens of a sequence.

use crate::num::{LANES, Simd, math};

/// What stands before and after the sum over the taps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConvForm {
    /// Nothing: the input is the row, the result the sum.
    Plain,
    /// The input is the row, the result `silu(sum)`.
    Silu,
    /// A row is `b`, `c`, `x`: the input is `b * x`, the result `c * sum`.
    ///
    /// Source: Liquid AI, "LFM2 Technical Report", 2025.
    Gated,
}

impl ConvForm {
    /// How many times as wide as a result a row is.
    pub const fn parts(self) -> usize {
        match self {
            ConvForm::Plain | ConvForm::Silu => 1,
            ConvForm::Gated => 3,
        }
    }
}

/// Arguments of [`conv`].
#[derive(Debug)]
pub struct ConvArgs<'a> {
    /// What stands before and after the sum over the taps.
    pub form: ConvForm,
    /// The taps, the oldest token's first: `[taps, channels]`.
    pub weight: &'a [f32],
    /// An addend per channel.
    pub bias: Option<&'a [f32]>,
    /// Elements of a result.
    pub channels: usize,
    /// The inputs of the tokens before the first row, the oldest first: `[taps - 1, channels]`.
    pub before: &'a [f32],
    /// Consecutive tokens of a sequence: `[rows, parts, channels]`.
    pub rows: &'a [f32],
    /// How many of the rows come before the first result.
    pub skip: usize,
    /// The results: `[rows - skip, channels]`.
    pub out: &'a mut [f32],
    /// The inputs of the last tokens, as `before` is of those before, if they are wanted.
    pub after: Option<&'a mut [f32]>,
}

/// For each channel the input of a token and those of the `taps - 1` tokens before it, as a chain of FMAs from zero over
/// the taps, the oldest token first; then the bias is added; the [form](ConvForm) says what the input is and what becomes of
/// the sum.
///
/// # Panics
/// If the lengths do not fit.
#[inline(always)]
pub fn conv<S: Simd>(s: S, args: &mut ConvArgs<'_>) {
    match args.form {
        ConvForm::Plain => convolve(s, Plain, args),
        ConvForm::Silu => convolve(s, Silu, args),
        ConvForm::Gated => convolve(s, Gated, args),
    }
}

/// Some of the channels: the first and how many, at most sixteen.
type Part = (usize, usize);

/// A [`ConvForm`] as code.
trait Form: Copy {
    /// The input of a token.
    fn input<S: Simd>(self, s: S, row: &[f32], part: Part) -> S::F;
    /// The result of a token.
    fn result<S: Simd>(self, s: S, sum: S::F, row: &[f32], part: Part) -> S::F;
}

#[derive(Clone, Copy)]
struct Plain;

impl Form for Plain {
    #[inline(always)]
    fn input<S: Simd>(self, s: S, row: &[f32], part: Part) -> S::F {
        lanes(s, row, part)
    }

    #[inline(always)]
    fn result<S: Simd>(self, _s: S, sum: S::F, _row: &[f32], _part: Part) -> S::F {
        sum
    }
}

#[derive(Clone, Copy)]
struct Silu;

impl Form for Silu {
    #[inline(always)]
    fn input<S: Simd>(self, s: S, row: &[f32], part: Part) -> S::F {
        lanes(s, row, part)
    }

    #[inline(always)]
    fn result<S: Simd>(self, s: S, sum: S::F, _row: &[f32], _part: Part) -> S::F {
        math::silu(s, sum)
    }
}

#[derive(Clone, Copy)]
struct Gated;

impl Form for Gated {
    #[inline(always)]
    fn input<S: Simd>(self, s: S, row: &[f32], (from, len): Part) -> S::F {
        let x = 2 * (row.len() / 3) + from;
        s.mul(lanes(s, row, (from, len)), lanes(s, row, (x, len)))
    }

    #[inline(always)]
    fn result<S: Simd>(self, s: S, sum: S::F, row: &[f32], (from, len): Part) -> S::F {
        s.mul(lanes(s, row, (row.len() / 3 + from, len)), sum)
    }
}

#[inline(always)]
fn convolve<S: Simd>(s: S, form: impl Form, args: &mut ConvArgs<'_>) {
    let (channels, width) = (args.channels, args.form.parts() * args.channels);
    let taps = args.weight.len() / channels.max(1);
    let rows = args.rows.len() / width.max(1);
    assert!(channels > 0 && taps > 0 && args.weight.len() == taps * channels, "conv: weights");
    assert!(args.bias.is_none_or(|bias| bias.len() == channels), "conv: biases");
    assert_eq!(args.rows.len(), rows * width, "conv: elements of rows");
    assert_eq!(args.before.len(), (taps - 1) * channels, "conv: elements of before");
    assert!(args.skip <= rows && args.out.len() == (rows - args.skip) * channels, "conv: elements of out");
    let inputs = Inputs { form, before: args.before, rows: args.rows, channels, width, kept: taps - 1 };
    for (i, out) in args.out.chunks_exact_mut(channels).enumerate() {
        let row = args.skip + i;
        for (j, out) in out.chunks_mut(LANES).enumerate() {
            let part = (j * LANES, out.len());
            let mut sum = s.splat(0.0);
            for tap in 0..taps {
                let weight = lanes(s, &args.weight[tap * channels..], part);
                sum = s.fma(weight, inputs.of(s, row + tap, part), sum);
            }
            if let Some(bias) = args.bias {
                sum = s.add(sum, lanes(s, bias, part));
            }
            s.store_part(form.result(s, sum, &args.rows[row * width..][..width], part), out);
        }
    }
    if let Some(after) = &mut args.after {
        assert_eq!(after.len(), (taps - 1) * channels, "conv: elements of after");
        for (i, after) in after.chunks_exact_mut(channels).enumerate() {
            for (j, after) in after.chunks_mut(LANES).enumerate() {
                let part = (j * LANES, after.len());
                s.store_part(inputs.of(s, rows + i, part), after);
            }
        }
    }
}

/// Some elements of a row.
#[inline(always)]
fn lanes<S: Simd>(s: S, row: &[f32], (from, len): Part) -> S::F {
    let x = &row[from..][..len];
    match x.first_chunk::<LANES>() {
        Some(x) => s.load(x),
        None => s.load_part(x),
    }
}

/// The inputs of tokens, those before the rows first.
struct Inputs<'a, F> {
    form: F,
    before: &'a [f32],
    rows: &'a [f32],
    channels: usize,
    /// Elements of a row.
    width: usize,
    /// Tokens before the rows.
    kept: usize,
}

impl<F: Form> Inputs<'_, F> {
    /// Some elements of the input of token `i`.
    #[inline(always)]
    fn of<S: Simd>(&self, s: S, i: usize, part: Part) -> S::F {
        if i < self.kept {
            return lanes(s, &self.before[i * self.channels..], part);
        }
        self.form.input(s, &self.rows[(i - self.kept) * self.width..][..self.width], part)
    }
}

#[cfg(test)]
mod tests;
