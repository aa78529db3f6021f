//! Generators of weights as they stand in files, for tests of kernels.

use std::ops::Range;

use cera_quant::Format;

use crate::rng::Rng;

/// What the scales of generated blocks look like. The codes are random bits, unless stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Scales of both signs and moderate size; plain floats of moderate size.
    Sane,
    /// As [`Kind::Sane`], with this value in all bytes of the codes and of the whole sub-block scales.
    Fill(u8),
    /// As [`Kind::Sane`], with the least and the largest codes next to each other, under random sub-block scales.
    Extreme,
    /// Every scale by itself sane, subnormal, a zero of either sign, or as large as a half can be. Plain floats
    /// likewise, though not as large.
    Mixed,
    /// Subnormal half-precision scales of both signs; plain floats are subnormals or close to them.
    Subnormal,
    /// Scales, or plain floats, that are negative zeros; exponents 0 for `MXFP4`.
    NegativeZero,
}

impl Kind {
    /// Every kind, with the fills that give the extreme codes of some format.
    pub const ALL: [Kind; 9] = [
        Kind::Sane,
        Kind::Fill(0),
        Kind::Fill(0xff),
        Kind::Fill(0x80),
        Kind::Fill(0x7f),
        Kind::Extreme,
        Kind::Mixed,
        Kind::Subnormal,
        Kind::NegativeZero,
    ];
}

/// The bytes of a block at which its half-precision scales and minima start.
const fn halves(format: Format) -> &'static [usize] {
    match format {
        Format::Q4_0 | Format::Q5_0 | Format::Q8_0 | Format::IQ4_NL | Format::IQ4_XS => &[0],
        Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K => &[0, 2],
        Format::Q2_K => &[80, 82],
        Format::Q3_K => &[108],
        Format::Q6_K => &[208],
        Format::MXFP4 | Format::F32 | Format::F16 | Format::BF16 => &[],
    }
}

/// The bytes of a block that hold whole sub-block scales, or the bits of them.
const fn sub_scales(format: Format) -> Range<usize> {
    match format {
        Format::Q2_K => 0..16,
        Format::Q3_K => 96..108,
        Format::Q4_K | Format::Q5_K => 4..16,
        Format::Q6_K => 192..208,
        Format::IQ4_XS => 2..8,
        _ => 0..0,
    }
}

/// Bytes of which every piece is a least or a largest code of some format.
const EXTREMES: [u8; 8] = [0, 0xff, 0x80, 0x7f, 0x0f, 0xf0, 0x33, 0xcc];

/// Bits of a half of the kind.
fn half(kind: Kind, rng: &mut Rng) -> u16 {
    let sign = (rng.below(2) as u16) << 15;
    match kind {
        Kind::Mixed => match rng.below(5) {
            0 => sign,
            1 => half(Kind::Subnormal, rng),
            2 => sign | 0x7bff,
            _ => half(Kind::Sane, rng),
        },
        // 2^-9 to 2^-2.
        Kind::Sane | Kind::Fill(_) | Kind::Extreme => sign | ((6 << 10) + rng.below(7 << 10) as u16),
        Kind::Subnormal => sign | (1 + rng.below(1023)) as u16,
        Kind::NegativeZero => 0x8000,
    }
}

/// A float of the kind with `mantissa` stored bits under an exponent of 8 bits.
fn wide(kind: Kind, mantissa: u32, rng: &mut Rng) -> u32 {
    let sign = (rng.below(2) as u32) << (8 + mantissa);
    let fraction = rng.bits() as u32 & ((1 << mantissa) - 1);
    let exponent = |exponent: usize| (exponent as u32) << mantissa;
    match kind {
        Kind::Mixed => match rng.below(5) {
            0 => sign,
            1 => wide(Kind::Subnormal, mantissa, rng),
            2 => sign | exponent(141) | fraction,
            _ => wide(Kind::Sane, mantissa, rng),
        },
        Kind::Sane | Kind::Fill(_) | Kind::Extreme => sign | exponent(118 + rng.below(10)) | fraction,
        Kind::Subnormal => sign | exponent(rng.pick(&[0, 0, 1, 70, 71, 72, 73])) | fraction,
        Kind::NegativeZero => 1 << (8 + mantissa),
    }
}

/// `m` rows of `k` elements, as in a file.
///
/// # Panics
/// If `k` is not a whole number of blocks.
pub fn rows(format: Format, (m, k): (usize, usize), kind: Kind, rng: &mut Rng) -> Vec<u8> {
    let row = format.row_bytes(k).unwrap_or_else(|| panic!("{k} elements are no {format} blocks"));
    let mut bytes = match kind {
        Kind::Fill(byte) => vec![byte; m * row],
        Kind::Extreme => (0..m * row).map(|_| rng.pick(&EXTREMES)).collect(),
        _ => rng.bytes(m * row),
    };
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        match format {
            Format::F32 => block.copy_from_slice(&wide(kind, 23, rng).to_le_bytes()),
            Format::BF16 => block.copy_from_slice(&(wide(kind, 7, rng) as u16).to_le_bytes()),
            Format::F16 => block.copy_from_slice(&half(kind, rng).to_le_bytes()),
            Format::MXFP4 => {
                block[0] = match kind {
                    Kind::Subnormal => rng.below(3) as u8,
                    Kind::NegativeZero => 0,
                    Kind::Mixed => rng.pick(&[0, 1, 2, 118, 127, 141]),
                    _ => 118 + rng.below(10) as u8,
                }
            }
            _ => {}
        }
        if kind == Kind::Extreme {
            let range = sub_scales(format);
            let scales = rng.bytes(range.len());
            block[range].copy_from_slice(&scales);
        }
        for &at in halves(format) {
            block[at..at + 2].copy_from_slice(&half(kind, rng).to_le_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
