//! From f32 to blocks, with the choices of the formats' definition.
//!
//! Only additions, products, divisions and comparisons of f32 are used, in a fixed order: the bytes are the same on
//! every machine.

use std::array;

use super::layout::{Block, BlockQ4_0, BlockQ4_1, BlockQ8_0, F16Le, cast_blocks_mut};
use super::row_bytes;
use crate::{Format, QuantError};

/// Quantizes a row of `F32`, `F16`, `BF16`, `Q4_0`, `Q4_1` or `Q8_0`.
///
/// Shapes: `src` the elements of whole blocks, `out` the bytes of as many.
///
/// Numeric contract: with `D` the scale before it is rounded to f16,
///
/// - `Q4_0`: `D` is the element of largest magnitude (the first of several) over -8, the code `x / D + 8` rounded half
///   up and at most 15. An element is off by at most `|D| / 2`, or `|D|` where it is opposite in sign to that element.
/// - `Q4_1`: `D` is the range over 15, `m` the least element; an element is off by at most `D / 2`.
/// - `Q8_0`: `D` is the largest magnitude over 127; codes are rounded half away from zero, and off by at most `D / 2`.
/// - `F16`, `BF16`: to nearest, ties to even. Infinities stay, NaN stays NaN. `F32` keeps its bits.
///
/// To the bounds of the block formats come the rounding of scale and minimum to f16 and of `x / D` (as `x * (1 / D)`).
/// A scale too small for f16 is zero.
///
/// # Errors
/// - [`QuantError::NoQuantizer`] for the other formats;
/// - [`QuantError::PartialBlock`] if `src` is not a whole number of blocks, [`QuantError::ShapeMismatch`] if `out` has
///   not as many;
/// - [`QuantError::Unrepresentable`] at the first block with an element that is not finite (block formats) or that is
///   beyond the range of the format. `out` holds the blocks before it then, and the others unchanged.
///
/// Source: ggml-org/ggml, `quantize_row_q4_0_ref` and its siblings.
pub fn quantize_row(format: Format, src: &[f32], out: &mut [u8]) -> Result<(), QuantError> {
    let quantizer: fn(&[f32], &mut [u8]) -> Result<(), QuantError> = match format {
        Format::F32 => |src, out| elements(Format::F32, src, out, |x| Some(x.to_le_bytes())),
        Format::F16 => |src, out| elements(Format::F16, src, out, to_f16),
        Format::BF16 => |src, out| elements(Format::BF16, src, out, to_bf16),
        Format::Q4_0 => blocks::<BlockQ4_0, _>,
        Format::Q4_1 => blocks::<BlockQ4_1, _>,
        Format::Q8_0 => blocks::<BlockQ8_0, _>,
        _ => return Err(QuantError::NoQuantizer { format }),
    };
    let expected = row_bytes(format, src.len())?;
    if out.len() != expected {
        return Err(QuantError::ShapeMismatch { what: "bytes of a row", expected, got: out.len() });
    }
    quantizer(src, out)
}

fn elements<const N: usize>(
    format: Format,
    src: &[f32],
    out: &mut [u8],
    convert: impl Fn(f32) -> Option<[u8; N]>,
) -> Result<(), QuantError> {
    for (index, (&value, bytes)) in src.iter().zip(out.as_chunks_mut().0).enumerate() {
        *bytes = convert(value).ok_or(QuantError::Unrepresentable { format, index, value })?;
    }
    Ok(())
}

/// The nearest half, or `None` if a finite value is beyond the range.
fn to_f16(x: f32) -> Option<[u8; 2]> {
    let half = half::f16::from_f32_const(x);
    (half.is_finite() || !x.is_finite()).then(|| half.to_le_bytes())
}

/// The nearest bf16, or `None` if a finite value is beyond the range.
fn to_bf16(x: f32) -> Option<[u8; 2]> {
    let half = half::bf16::from_f32_const(x);
    (half.is_finite() || !x.is_finite()).then(|| half.to_le_bytes())
}

/// A block that can be made of its `N` weights.
trait Quantize<const N: usize>: Block {
    /// The block, or `None` if a scale or minimum is beyond the range. All of `x` is finite.
    fn quantize(x: &[f32; N]) -> Option<Self>;
}

fn blocks<B: Quantize<N>, const N: usize>(src: &[f32], out: &mut [u8]) -> Result<(), QuantError> {
    const { assert!(B::FORMAT.block_len() == N) };
    for (b, (x, block)) in src.as_chunks::<N>().0.iter().zip(cast_blocks_mut::<B>(out)?).enumerate() {
        let fail =
            |e: usize| QuantError::Unrepresentable { format: B::FORMAT, index: b * N + e, value: x[e] };
        if let Some(e) = x.iter().position(|x| !x.is_finite()) {
            return Err(fail(e));
        }
        *block = B::quantize(x).ok_or_else(|| fail(extreme(x)))?;
    }
    Ok(())
}

/// The position of the largest magnitude, the first of several.
fn extreme<const N: usize>(x: &[f32; N]) -> usize {
    (1..N).fold(0, |best, e| if x[e].abs() > x[best].abs() { e } else { best })
}

/// The nearest half, or `None` beyond the range.
fn half(x: f32) -> Option<F16Le> {
    to_f16(x).filter(|_| x.is_finite()).map(F16Le)
}

/// `1 / d`, or zero where that is not finite: such a scale is zero as a half.
fn inverse(d: f32) -> f32 {
    let inverse = 1.0 / d;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// Codes of four bits, from their positions in the block to bytes.
fn nibbles(code: impl Fn(usize) -> u8) -> [u8; 16] {
    array::from_fn(|j| code(j) | code(16 + j) << 4)
}

impl Quantize<32> for BlockQ4_0 {
    fn quantize(x: &[f32; 32]) -> Option<BlockQ4_0> {
        // The sum makes a negative zero positive: a block of zeros has one form.
        let d = (x[extreme(x)] + 0.0) / -8.0;
        let scale = inverse(d);
        let qs = nibbles(|e| ((x[e] * scale + 8.5) as u8).min(15));
        Some(BlockQ4_0 { d: half(d)?, qs })
    }
}

impl Quantize<32> for BlockQ4_1 {
    fn quantize(x: &[f32; 32]) -> Option<BlockQ4_1> {
        let min = x.iter().fold(f32::INFINITY, |a, &b| if b < a { b } else { a });
        let max = x.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
        let d = (max - min) / 15.0;
        let scale = inverse(d);
        let qs = nibbles(|e| (((x[e] - min) * scale + 0.5) as u8).min(15));
        Some(BlockQ4_1 { d: half(d)?, m: half(min)?, qs })
    }
}

impl Quantize<32> for BlockQ8_0 {
    fn quantize(x: &[f32; 32]) -> Option<BlockQ8_0> {
        let (d, qs) = q8_0(x);
        Some(BlockQ8_0 { d: half(d)?, qs })
    }
}

/// The scale of a block of finite elements before it is rounded, and its codes.
fn q8_0(x: &[f32; 32]) -> (f32, [i8; 32]) {
    let d = x[extreme(x)].abs() / 127.0;
    let scale = inverse(d);
    (d, x.map(|x| round_half_away(x * scale)))
}

/// The bits of the f16 scale of a block of `Q8_0`, and its codes. A scale beyond f16 is infinite; if an element is not
/// finite the scale is NaN and the codes are 0.
pub(crate) fn quantize_q8_0(x: &[f32; 32]) -> (u16, [i8; 32]) {
    if x.iter().all(|x| x.is_finite()) {
        let (d, codes) = q8_0(x);
        (half::f16::from_f32_const(d).to_bits(), codes)
    } else {
        (half::f16::NAN.to_bits(), [0; 32])
    }
}

/// The nearest integer, ties away from zero. The fraction of a number in the range of `i8` is exact.
fn round_half_away(x: f32) -> i8 {
    let whole = x as i8;
    let fraction = x - f32::from(whole);
    whole + i8::from(fraction >= 0.5) - i8::from(fraction <= -0.5)
}
