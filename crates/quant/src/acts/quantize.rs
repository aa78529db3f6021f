//! Filling activation records: the definition of every code and scale.

use super::{ActFormat, Q8x32, Q8x256};
use crate::QuantError;
use crate::num::{bf16_from_f32, flush_bf16};

/// The absolute bits of the f32 2^-100: a block of smaller magnitudes gets scale 0.
const TINY: u32 = (127 - 100) << 23;

/// The absolute bits of the f32 infinity.
const INFINITE: u32 = 0xff << 23;

/// The scale of a block and its codes.
///
/// With `amax` the largest magnitude: scale = amax / 127, code = x * (127 / amax) to the nearest integer, ties to even.
/// If `amax < 2^-100` the scale and all codes are 0; if an element is not finite the scale is NaN (bits `0x7fc00000`)
/// and all codes are 0.
///
/// No code leaves -127..=127: with `u = 2^-24` the inverse is at most `(127 / amax)(1 + u)`, so the exact product is at
/// most `127 (1 + u)`, less than a quarter of the distance `2^-17` from 127 to the next f32; it is rounded to 127 at
/// most. For `2^-100 <= amax < 2^128` quotients and scale are normal numbers, so that `u` bounds every rounding.
#[inline]
fn quantize_block<const N: usize>(x: &[f32; N], codes: &mut [i8; N]) -> f32 {
    let amax = x.iter().fold(0, |max, x| u32::max(max, x.to_bits() & 0x7fff_ffff));
    codes.fill(0);
    if amax < TINY {
        return 0.0;
    }
    if amax >= INFINITE {
        return f32::NAN;
    }
    let amax = f32::from_bits(amax);
    let inverse = 127.0 / amax;
    for (code, &x) in codes.iter_mut().zip(x) {
        *code = round_to_code(x * inverse);
    }
    amax / 127.0
}

/// The nearest integer, ties to even, of a value in -127..=127.
///
/// Adding 1.5 * 2^23 leaves no fraction bits, so that the addition itself rounds.
#[inline(always)]
fn round_to_code(x: f32) -> i8 {
    const MAGIC: f32 = 12_582_912.0;
    (x + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()) as i8
}

/// The sums of the codes at positions `2j` and `2j + 1` modulo 4.
#[inline]
fn pair_sums(codes: &[i8]) -> [i16; 2] {
    codes.as_chunks::<4>().0.iter().fold([0; 2], |[low, high], &[a, b, c, d]| {
        [low + i16::from(a) + i16::from(b), high + i16::from(c) + i16::from(d)]
    })
}

#[inline]
fn sum(codes: &[i8]) -> i16 {
    codes.iter().map(|&code| i16::from(code)).sum()
}

impl Q8x32 {
    /// The record of 32 elements.
    pub fn quantize(x: &[f32; 32]) -> Q8x32 {
        let mut codes = [0; 32];
        let scale = quantize_block(x, &mut codes);
        let sum = i32::from(sum(&codes));
        let scaled_sum = if scale.is_nan() { f32::NAN } else { scale * sum as f32 };
        Q8x32 { scale, sum, scaled_sum, pairs: pair_sums(&codes), codes }
    }
}

impl Q8x256 {
    /// The record of 256 elements.
    pub fn quantize(x: &[f32; 256]) -> Q8x256 {
        let mut codes = [0; 256];
        let scale = quantize_block(x, &mut codes);
        Q8x256 {
            scale,
            zeros: [0; 3],
            sums16: std::array::from_fn(|i| sum(&codes[16 * i..16 * (i + 1)])),
            sums32: std::array::from_fn(|i| sum(&codes[32 * i..32 * (i + 1)])),
            pairs16: std::array::from_fn(|i| pair_sums(&codes[16 * i..16 * (i + 1)])),
            codes,
        }
    }
}

/// The elements of one block; those past the end of the row are zeros.
#[inline]
fn padded<const N: usize>(x: &[f32]) -> [f32; N] {
    let mut block = [0.0; N];
    block[..x.len()].copy_from_slice(x);
    block
}

/// Writes the record of one block.
#[inline]
fn write_record(format: ActFormat, x: &[f32], record: &mut [u8]) {
    match format {
        ActFormat::F32 => record.copy_from_slice(&x[0].to_le_bytes()),
        ActFormat::Bf16 => {
            let [even, odd] = padded(x).map(|x| flush_bf16(bf16_from_f32(x)));
            record.copy_from_slice(bytemuck::bytes_of(&[even.to_le(), odd.to_le()]));
        }
        ActFormat::Q8x32 => record.copy_from_slice(bytemuck::bytes_of(&Q8x32::quantize(&padded(x)))),
        ActFormat::Q8x256 => record.copy_from_slice(bytemuck::bytes_of(&Q8x256::quantize(&padded(x)))),
    }
}

/// Fills the records of token `token` in a column tile of `width` tokens.
///
/// Shapes: `x` is one row; `tile` has the bytes of `width` such rows. The bytes of other tokens are left alone, so the
/// tokens of a tile can be filled one by one, in any order.
///
/// # Errors
/// [`QuantError::ShapeMismatch`] if `tile` has another length, [`QuantError::OutOfRange`] if `token >= width`, and
/// those of [`ActFormat::bytes`].
pub fn quantize_token(
    format: ActFormat,
    x: &[f32],
    (token, width): (usize, usize),
    tile: &mut [u8],
) -> Result<(), QuantError> {
    check_bytes(format.bytes(width, x.len())?, tile.len())?;
    if token >= width {
        return Err(QuantError::OutOfRange { what: "token of a column tile", end: token + 1, len: width });
    }
    let size = format.record_bytes();
    let records = tile.chunks_exact_mut(size).skip(token).step_by(width);
    for (x, record) in x.chunks(format.block_len()).zip(records) {
        write_record(format, x, record);
    }
    Ok(())
}

/// Fills one column tile.
///
/// Shapes: `rows: [w, k]` row-major are the tokens of the tile, as many as it has; `out` has the bytes of `w` rows.
///
/// # Errors
/// [`QuantError::ShapeMismatch`] if `rows` is not a whole number of rows or `out` has another length, and those of
/// [`ActFormat::bytes`].
pub fn quantize_tile(format: ActFormat, rows: &[f32], k: usize, out: &mut [u8]) -> Result<(), QuantError> {
    let width = count_rows(rows, k)?;
    check_bytes(format.bytes(width, k)?, out.len())?;
    if k == 0 {
        return Ok(());
    }
    rows.chunks_exact(k).enumerate().try_for_each(|(token, x)| quantize_token(format, x, (token, width), out))
}

/// Fills all column tiles: the layout that [`ActsRef`](super::ActsRef) reads.
///
/// Shapes: `x: [n, k]` row-major, in tiles of `tile` tokens; `out` has [`ActFormat::bytes`] bytes. Tile `t` takes rows
/// `t * tile..` and has the bytes [`ActFormat::bytes`]`(tile, k) * t..`, so that workers can share the tiles and fill
/// each with [`quantize_tile`].
///
/// # Errors
/// [`QuantError::ShapeMismatch`] if `tile` is zero, `x` is not a whole number of rows or `out` has another length, and
/// those of [`ActFormat::bytes`].
pub fn quantize_acts(
    format: ActFormat,
    x: &[f32],
    k: usize,
    tile: usize,
    out: &mut [u8],
) -> Result<(), QuantError> {
    let n = count_rows(x, k)?;
    check_bytes(format.bytes(n, k)?, out.len())?;
    if tile == 0 {
        return Err(QuantError::ShapeMismatch { what: "tokens of a column tile", expected: 1, got: 0 });
    }
    if n == 0 {
        return Ok(());
    }
    let tile = tile.min(n);
    let bytes = format.bytes(tile, k)?;
    x.chunks(tile * k)
        .zip(out.chunks_mut(bytes))
        .try_for_each(|(rows, out)| quantize_tile(format, rows, k, out))
}

/// Rows of `k` elements; rows without elements cannot be counted and are none.
fn count_rows(x: &[f32], k: usize) -> Result<usize, QuantError> {
    let n = x.len().checked_div(k).unwrap_or(0);
    if n * k == x.len() {
        return Ok(n);
    }
    Err(QuantError::ShapeMismatch { what: "activations in whole rows", expected: n * k, got: x.len() })
}

fn check_bytes(expected: usize, got: usize) -> Result<(), QuantError> {
    if expected == got {
        return Ok(());
    }
    Err(QuantError::ShapeMismatch { what: "bytes of activations", expected, got })
}
