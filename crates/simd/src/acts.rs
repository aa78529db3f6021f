//! Filling activation records, written once for the quantizers of every tier.

use bytemuck::{Pod, Zeroable};
use cera_quant::num::flush_bf16;

use crate::Machine;
use crate::matrix::records::{Record32, Record256, Word};

/// The absolute bits of the f32 2^-100: a block of smaller magnitudes gets scale 0.
const TINY: u32 = (127 - 100) << 23;

/// The absolute bits of the f32 infinity.
const INFINITE: u32 = 0xff << 23;

/// The bits of the smallest bf16 magnitude that [`flush_bf16`] keeps.
pub const BF16_KEEP: u16 = 72 << 7;

const _: () = {
    assert!(flush_bf16(BF16_KEEP) == BF16_KEEP && flush_bf16(BF16_KEEP - 1) == 0);
};

/// A record of `N` elements.
pub trait Record<const N: usize>: Pod {
    /// The record of a block that gets this scale and no codes.
    fn blank(scale: f32) -> Self;
}

impl Record<32> for Record32 {
    #[inline(always)]
    fn blank(scale: f32) -> Record32 {
        let scale = scale.to_le_bytes();
        Record32 { scale, scaled_sum: scale, ..Record32::zeroed() }
    }
}

impl Record<256> for Record256 {
    #[inline(always)]
    fn blank(scale: f32) -> Record256 {
        Record256 { scale: scale.to_le_bytes(), ..Record256::zeroed() }
    }
}

/// The instructions of a tier for the maximum of a block.
pub trait Largest: Machine {
    /// The largest of the absolute bits.
    fn largest_bits<const N: usize>(self, x: &[f32; N]) -> u32;
}

/// The instructions of a tier for records `R` of `N` elements.
pub trait Quantize<R: Record<N>, const N: usize>: Largest {
    /// The record of a block with this scale, whose codes are its elements times `inverse`, rounded to nearest even.
    fn quantize(self, x: &[f32; N], scale: f32, inverse: f32) -> R;
}

/// Fills the records of a column tile: `rows` are its tokens, of `k` elements each.
///
/// # Panics
/// If the lengths do not fit.
#[inline(always)]
pub fn fill<S: Quantize<R, N>, R: Record<N>, const N: usize>(s: S, rows: &[f32], k: usize, out: &mut [u8]) {
    s.align_frame();
    let width = width(rows, k);
    let records: &mut [R] = bytemuck::cast_slice_mut(out);
    assert_eq!(records.len(), width * k.div_ceil(N), "records of activations");
    for token in 0..width {
        let (whole, rest) = rows[token * k..][..k].as_chunks::<N>();
        for (b, x) in whole.iter().enumerate() {
            records[b * width + token] = record(s, x);
        }
        if !rest.is_empty() {
            let mut x = [0.0; N];
            x[..rest.len()].copy_from_slice(rest);
            records[whole.len() * width + token] = record(s, &x);
        }
    }
}

#[inline(always)]
fn record<S: Quantize<R, N>, R: Record<N>, const N: usize>(s: S, x: &[f32; N]) -> R {
    let bits = s.largest_bits(x);
    let amax = f32::from_bits(bits);
    match bits {
        ..TINY => R::blank(0.0),
        INFINITE.. => R::blank(f32::NAN),
        _ => s.quantize(x, amax / 127.0, 127.0 / amax),
    }
}

/// The instructions of a tier for bf16.
pub trait Round: Machine {
    /// Each element rounded to bf16, and flushed.
    fn round(self, x: &[f32; 32]) -> [Word; 16];
}

/// Fills the pairs of a column tile, as [`fill`].
///
/// # Panics
/// If the lengths do not fit.
#[inline(always)]
pub fn fill_bf16<S: Round>(s: S, rows: &[f32], k: usize, out: &mut [u8]) {
    s.align_frame();
    let width = width(rows, k);
    let records: &mut [Word] = bytemuck::cast_slice_mut(out);
    assert_eq!(records.len(), width * k.div_ceil(2), "pairs of activations");
    for token in 0..width {
        for (b, part) in rows[token * k..][..k].chunks(32).enumerate() {
            let mut x = [0.0; 32];
            x[..part.len()].copy_from_slice(part);
            let pairs = s.round(&x);
            for (i, &pair) in pairs[..part.len().div_ceil(2)].iter().enumerate() {
                records[(16 * b + i) * width + token] = pair;
            }
        }
    }
}

/// Fills the elements of a column tile, as [`fill`].
///
/// # Panics
/// If the lengths do not fit.
#[inline(always)]
pub fn fill_f32(rows: &[f32], k: usize, out: &mut [u8]) {
    let width = width(rows, k);
    let records: &mut [Word] = bytemuck::cast_slice_mut(out);
    assert_eq!(records.len(), width * k, "activations");
    if width == 0 {
        return;
    }
    for (b, records) in records.chunks_exact_mut(width).enumerate() {
        for (record, x) in records.iter_mut().zip(rows[b..].iter().step_by(k)) {
            *record = x.to_le_bytes();
        }
    }
}

/// Rows of `k` elements; rows without elements are none.
#[inline(always)]
fn width(rows: &[f32], k: usize) -> usize {
    let width = rows.len().checked_div(k).unwrap_or(0);
    assert_eq!(width * k, rows.len(), "activations in whole rows");
    width
}
