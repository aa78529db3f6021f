//! From blocks to f32, exactly as the formats define it: multiply, then add, each rounded to f32.

use std::array;

use super::codes::{IQ4_NL_VALUES, MXFP4_VALUES, e8m0_half, iq4_xs_scales, k_scales, q3_k_scales};
use super::layout::{
    Block, BlockIq4Nl, BlockIq4Xs, BlockMxfp4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, F16Le, cast_blocks,
};
use super::{bit, nibble, pair, row_bytes};
use crate::{Format, QuantError};

/// A block that can be expanded to its `N` weights.
///
/// Numeric contract: the formula in the documentation of the block, the scale times the sub-block scale first, then
/// times the code, then plus or minus the minimum. Each operation is one in f32. Nothing else is rounded.
pub trait Dequantize<const N: usize>: Block {
    /// The weights of the block, in the order of the row.
    fn dequantize(&self) -> [f32; N];
}

/// The weights of a row of any format.
///
/// Shapes: `src` bytes of whole blocks, `out` their elements.
/// Numeric contract: as [`Dequantize`]. `F32`, `F16` and `BF16` are converted exactly.
///
/// # Errors
/// [`QuantError::PartialBlock`] if `out` is not a whole number of blocks, [`QuantError::ShapeMismatch`] if `src` has
/// not as many. `out` is not written then.
pub fn dequantize_row(format: Format, src: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    let expected = row_bytes(format, out.len())?;
    if src.len() != expected {
        return Err(QuantError::ShapeMismatch { what: "bytes of a row", expected, got: src.len() });
    }
    match format {
        Format::F32 => elements(src, out, f32::from_le_bytes),
        Format::F16 => elements(src, out, |bytes| F16Le(bytes).to_f32()),
        Format::BF16 => elements(src, out, |[low, high]: [u8; 2]| f32::from_le_bytes([0, 0, low, high])),
        Format::Q4_0 => blocks::<BlockQ4_0, _>(src, out)?,
        Format::Q4_1 => blocks::<BlockQ4_1, _>(src, out)?,
        Format::Q5_0 => blocks::<BlockQ5_0, _>(src, out)?,
        Format::Q5_1 => blocks::<BlockQ5_1, _>(src, out)?,
        Format::Q8_0 => blocks::<BlockQ8_0, _>(src, out)?,
        Format::Q2_K => blocks::<BlockQ2K, _>(src, out)?,
        Format::Q3_K => blocks::<BlockQ3K, _>(src, out)?,
        Format::Q4_K => blocks::<BlockQ4K, _>(src, out)?,
        Format::Q5_K => blocks::<BlockQ5K, _>(src, out)?,
        Format::Q6_K => blocks::<BlockQ6K, _>(src, out)?,
        Format::IQ4_NL => blocks::<BlockIq4Nl, _>(src, out)?,
        Format::IQ4_XS => blocks::<BlockIq4Xs, _>(src, out)?,
        Format::MXFP4 => blocks::<BlockMxfp4, _>(src, out)?,
    }
    Ok(())
}

fn elements<const N: usize>(src: &[u8], out: &mut [f32], convert: impl Fn([u8; N]) -> f32) {
    for (y, &bytes) in out.iter_mut().zip(src.as_chunks().0) {
        *y = convert(bytes);
    }
}

fn blocks<B: Dequantize<N>, const N: usize>(src: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    const { assert!(B::FORMAT.block_len() == N) };
    for (y, block) in out.as_chunks_mut().0.iter_mut().zip(cast_blocks::<B>(src)?) {
        *y = block.dequantize();
    }
    Ok(())
}

impl Dequantize<32> for BlockQ4_0 {
    fn dequantize(&self) -> [f32; 32] {
        let d = self.d.to_f32();
        array::from_fn(|e| d * (f32::from(nibble(self.qs[e % 16], e / 16)) - 8.0))
    }
}

impl Dequantize<32> for BlockQ4_1 {
    fn dequantize(&self) -> [f32; 32] {
        let (d, m) = (self.d.to_f32(), self.m.to_f32());
        array::from_fn(|e| d * f32::from(nibble(self.qs[e % 16], e / 16)) + m)
    }
}

impl Dequantize<32> for BlockQ5_0 {
    fn dequantize(&self) -> [f32; 32] {
        let d = self.d.to_f32();
        array::from_fn(|e| d * (f32::from(five_bits(&self.qh, &self.qs, e)) - 16.0))
    }
}

impl Dequantize<32> for BlockQ5_1 {
    fn dequantize(&self) -> [f32; 32] {
        let (d, m) = (self.d.to_f32(), self.m.to_f32());
        array::from_fn(|e| d * f32::from(five_bits(&self.qh, &self.qs, e)) + m)
    }
}

/// The code of element `e` of `Q5_0` and `Q5_1`.
#[inline(always)]
fn five_bits(qh: &[u8; 4], qs: &[u8; 16], e: usize) -> u8 {
    nibble(qs[e % 16], e / 16) | bit(qh[e / 8], e % 8) << 4
}

impl Dequantize<32> for BlockQ8_0 {
    fn dequantize(&self) -> [f32; 32] {
        let d = self.d.to_f32();
        self.qs.map(|q| d * f32::from(q))
    }
}

impl Dequantize<256> for BlockQ2K {
    fn dequantize(&self) -> [f32; 256] {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let scales = self.scales.map(|s| d * f32::from(s & 15));
        let minima = self.scales.map(|s| dmin * f32::from(s >> 4));
        array::from_fn(|e| {
            let q = pair(self.qs[32 * (e / 128) + e % 32], e / 32 % 4);
            scales[e / 16] * f32::from(q) - minima[e / 16]
        })
    }
}

impl Dequantize<256> for BlockQ3K {
    fn dequantize(&self) -> [f32; 256] {
        let d = self.d.to_f32();
        let scales = q3_k_scales(&self.scales).map(|s| d * f32::from(s));
        array::from_fn(|e| {
            let low = pair(self.qs[32 * (e / 128) + e % 32], e / 32 % 4);
            let q = low | bit(self.hmask[e % 32], e / 32) << 2;
            scales[e / 16] * (f32::from(q) - 4.0)
        })
    }
}

impl Dequantize<256> for BlockQ4K {
    fn dequantize(&self) -> [f32; 256] {
        let (scales, minima) = scaled(self.d, self.dmin, &self.scales);
        array::from_fn(|e| {
            let q = nibble(self.qs[32 * (e / 64) + e % 32], e / 32 % 2);
            scales[e / 32] * f32::from(q) - minima[e / 32]
        })
    }
}

impl Dequantize<256> for BlockQ5K {
    fn dequantize(&self) -> [f32; 256] {
        let (scales, minima) = scaled(self.d, self.dmin, &self.scales);
        array::from_fn(|e| {
            let low = nibble(self.qs[32 * (e / 64) + e % 32], e / 32 % 2);
            let q = low | bit(self.qh[e % 32], e / 32) << 4;
            scales[e / 32] * f32::from(q) - minima[e / 32]
        })
    }
}

/// The scales and minima of `Q4_K` and `Q5_K` in f32.
fn scaled(d: F16Le, dmin: F16Le, bytes: &[u8; 12]) -> ([f32; 8], [f32; 8]) {
    let (d, dmin) = (d.to_f32(), dmin.to_f32());
    let (scales, minima) = k_scales(bytes);
    (scales.map(|s| d * f32::from(s)), minima.map(|m| dmin * f32::from(m)))
}

impl Dequantize<256> for BlockQ6K {
    fn dequantize(&self) -> [f32; 256] {
        let d = self.d.to_f32();
        let scales = self.scales.map(|s| d * f32::from(s));
        array::from_fn(|e| {
            let low = nibble(self.ql[64 * (e / 128) + e % 64], e / 64 % 2);
            let q = low | pair(self.qh[32 * (e / 128) + e % 32], e / 32 % 4) << 4;
            scales[e / 16] * (f32::from(q) - 32.0)
        })
    }
}

impl Dequantize<32> for BlockIq4Nl {
    fn dequantize(&self) -> [f32; 32] {
        let d = self.d.to_f32();
        array::from_fn(|e| d * coded(&IQ4_NL_VALUES, nibble(self.qs[e % 16], e / 16)))
    }
}

impl Dequantize<256> for BlockIq4Xs {
    fn dequantize(&self) -> [f32; 256] {
        let d = self.d.to_f32();
        let scales =
            iq4_xs_scales(u16::from_le_bytes(self.scales_h), &self.scales_l).map(|s| d * f32::from(s));
        array::from_fn(|e| {
            let q = nibble(self.qs[16 * (e / 32) + e % 16], e / 16 % 2);
            scales[e / 32] * coded(&IQ4_NL_VALUES, q)
        })
    }
}

impl Dequantize<32> for BlockMxfp4 {
    fn dequantize(&self) -> [f32; 32] {
        let d = e8m0_half(self.e);
        array::from_fn(|e| d * coded(&MXFP4_VALUES, nibble(self.qs[e % 16], e / 16)))
    }
}

/// The weight of a code, in units of the scale.
#[inline(always)]
fn coded(values: &[i8; 16], code: u8) -> f32 {
    f32::from(values[usize::from(code & 15)])
}
