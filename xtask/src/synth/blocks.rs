//! Random blocks of every format, with a given spread of the values.
//!
//! Codes are random bits. Scales are chosen so that the values have the wanted standard deviation, vary by a factor of three
//! between blocks, and where a format has minima these centre the values. Scales have both signs: the codes of most formats
//! have a mean, and with one sign it would grow from layer to layer until all tokens were alike and chose the same
//! experts.

use anyhow::Result;
use cera_quant::Format;
use cera_quant::blocks::{
    Block, BlockIq4Nl, BlockIq4Xs, BlockMxfp4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, F16Le, IQ4_NL_VALUES, MXFP4_VALUES, cast_blocks_mut,
};
use half::{bf16, f16};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// The smallest 6-bit sub-block scale that is used; the largest is 63.
const MIN_SCALE: u8 = 32;

/// Values in F32 with a standard deviation around a mean, both given.
pub(super) fn fill_around(center: f32, spread: f32, rng: &mut ChaCha8Rng, bytes: &mut [u8]) {
    rng.fill_bytes(bytes);
    floats(bytes, |random| (center + spread * random).to_le_bytes());
}

/// Fills `bytes`, whole blocks, with values of standard deviation `spread` around zero.
///
/// # Errors
/// If `bytes` is no whole number of blocks.
pub(super) fn fill(format: Format, spread: f32, rng: &mut ChaCha8Rng, bytes: &mut [u8]) -> Result<()> {
    rng.fill_bytes(bytes);
    match format {
        Format::F32 => floats(bytes, |random| (spread * random).to_le_bytes()),
        Format::F16 => floats(bytes, |random| f16::from_f32_const(spread * random).to_le_bytes()),
        Format::BF16 => floats(bytes, |random| bf16::from_f32_const(spread * random).to_le_bytes()),
        Format::Q4_0
        | Format::Q4_1
        | Format::Q5_0
        | Format::Q5_1
        | Format::Q8_0
        | Format::IQ4_NL
        | Format::MXFP4 => {
            fill_32(format, spread, rng, bytes)?;
        }
        Format::Q2_K | Format::Q3_K | Format::Q4_K | Format::Q5_K | Format::Q6_K | Format::IQ4_XS => {
            fill_256(format, spread, rng, bytes)?;
        }
    }
    Ok(())
}

/// Formats with blocks of 32.
fn fill_32(format: Format, spread: f32, rng: &mut ChaCha8Rng, bytes: &mut [u8]) -> Result<()> {
    match format {
        Format::Q4_0 => scaled(bytes, spread / rms(-8..=7), rng, |b: &mut BlockQ4_0, d, _| b.d = half(d))?,
        Format::Q5_0 => scaled(bytes, spread / rms(-16..=15), rng, |b: &mut BlockQ5_0, d, _| b.d = half(d))?,
        Format::Q4_1 => scaled(bytes, spread / deviation(0..=15), rng, |b: &mut BlockQ4_1, d, _| {
            (b.d, b.m) = (half(d), half(-d * mean(0..=15)));
        })?,
        Format::Q5_1 => scaled(bytes, spread / deviation(0..=31), rng, |b: &mut BlockQ5_1, d, _| {
            (b.d, b.m) = (half(d), half(-d * mean(0..=31)));
        })?,
        Format::Q8_0 => scaled(bytes, spread / rms(-127..=127), rng, |b: &mut BlockQ8_0, d, _| {
            b.d = half(d);
            b.qs = b.qs.map(|code| code.max(-127));
        })?,
        Format::IQ4_NL => {
            scaled(bytes, spread / rms(IQ4_NL_VALUES.map(i32::from)), rng, |b: &mut BlockIq4Nl, d, _| {
                b.d = half(d)
            })?;
        }
        // `2^(e - 128)` is the power of two next to `d`, on a logarithmic scale.
        _ => scaled(bytes, spread / rms(MXFP4_VALUES.map(i32::from)), rng, |b: &mut BlockMxfp4, d, _| {
            b.e = ((d.abs() * 2_f32.sqrt()).to_bits() >> 23) as u8 + 1;
        })?,
    }
    Ok(())
}

/// Formats with blocks of 256.
fn fill_256(format: Format, spread: f32, rng: &mut ChaCha8Rng, bytes: &mut [u8]) -> Result<()> {
    let wide = rms(i32::from(MIN_SCALE)..=63);
    match format {
        Format::Q2_K => {
            scaled(bytes, spread / (deviation(0..=3) * rms(8..=15)), rng, |b: &mut BlockQ2K, d, _| {
                (b.d, b.dmin) = (half(d), half(d * mean(0..=3)));
                b.scales = b.scales.map(|byte| (byte & 7 | 8) * 0x11);
            })?
        }
        Format::Q3_K => {
            scaled(bytes, spread / (rms(-4..=3) * rms(-32..=31)), rng, |b: &mut BlockQ3K, d, _| {
                b.d = half(d);
            })?
        }
        Format::Q4_K => {
            scaled(bytes, spread / (deviation(0..=15) * wide), rng, |b: &mut BlockQ4K, d, rng| {
                (b.d, b.dmin, b.scales) = (half(d), half(d * mean(0..=15)), k_scales(rng));
            })?
        }
        Format::Q5_K => {
            scaled(bytes, spread / (deviation(0..=31) * wide), rng, |b: &mut BlockQ5K, d, rng| {
                (b.d, b.dmin, b.scales) = (half(d), half(d * mean(0..=31)), k_scales(rng));
            })?
        }
        Format::Q6_K => scaled(bytes, spread / (rms(-32..=31) * wide), rng, |b: &mut BlockQ6K, d, _| {
            b.d = half(d);
            b.scales = b.scales.map(|code| if code < 0 { -(code & 31 | 32) } else { code & 31 | 32 });
        })?,
        _ => {
            let unit = spread / (rms(IQ4_NL_VALUES.map(i32::from)) * rms(-32..=31));
            scaled(bytes, unit, rng, |b: &mut BlockIq4Xs, d, _| b.d = half(d))?;
        }
    }
    Ok(())
}

/// Calls `set` for every block with a scale near `unit`.
fn scaled<B: Block>(
    bytes: &mut [u8],
    unit: f32,
    rng: &mut ChaCha8Rng,
    set: impl Fn(&mut B, f32, &mut ChaCha8Rng),
) -> Result<()> {
    // Uniform factors from 0.5 to 1.5 have a root mean square of 1.0408.
    for block in cast_blocks_mut(bytes)? {
        let random = rng.next_u32();
        let factor = 0.5 + unit_interval(random);
        // The lowest bit has no part in the factor.
        let sign = if random & 1 == 0 { 1.0 } else { -1.0 };
        set(block, sign * unit * factor / 1.0408, rng);
    }
    Ok(())
}

/// Replaces random bytes by floats out of the function, which is given values of standard deviation 1 around zero.
fn floats<const N: usize>(bytes: &mut [u8], make: impl Fn(f32) -> [u8; N]) {
    for chunk in bytes.as_chunks_mut::<N>().0 {
        let random = chunk.iter().fold(0, |bits, &byte| bits << 8 | u32::from(byte)) << (32 - 8 * N);
        *chunk = make((2.0 * unit_interval(random) - 1.0) * 3_f32.sqrt());
    }
}

/// Eight scales and the equal minima, six bits each, as Q4_K and Q5_K pack them: byte `j` of the first four the scale `j`
/// and above it the upper bits of scale `j + 4`, the next four likewise for the minima, the last four the low bits of
/// scale and minimum `j + 4`.
fn k_scales(rng: &mut ChaCha8Rng) -> [u8; 12] {
    let random = rng.next_u64().to_le_bytes();
    let scales = random.map(|byte| MIN_SCALE | byte & 31);
    let mut packed = [0; 12];
    for j in 0..4 {
        let (low, high) = (scales[j], scales[j + 4]);
        packed[j] = low | (high >> 4) << 6;
        packed[j + 4] = packed[j];
        packed[j + 8] = (high & 15) * 0x11;
    }
    packed
}

fn half(value: f32) -> F16Le {
    F16Le::from_f32(value)
}

/// Uniform in 0..1, from random bits.
fn unit_interval(bits: u32) -> f32 {
    (bits >> 8) as f32 / 16_777_216.0
}

fn mean(codes: impl IntoIterator<Item = i32>) -> f32 {
    let (sum, count) = codes.into_iter().fold((0, 0), |(sum, count), code| (sum + code, count + 1));
    sum as f32 / count as f32
}

/// Root mean square.
fn rms(codes: impl IntoIterator<Item = i32>) -> f32 {
    mean(codes.into_iter().map(|code| code * code)).sqrt()
}

/// Standard deviation.
fn deviation(codes: std::ops::RangeInclusive<i32>) -> f32 {
    let (mean, rms) = (mean(codes.clone()), rms(codes));
    (rms * rms - mean * mean).sqrt()
}
