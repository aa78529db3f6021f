//! The plainest loops that can be right: whole numbers and chains over the bytes of the file, element by element.
//!
//! Nothing here goes through the packed form, the activation records or the fused multiply-add of the crate.

use cera_quant::Format;
use cera_quant::blocks::dequantize_row;

/// One rounding, by the standard library.
#[allow(clippy::disallowed_methods)]
fn fma(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

fn half(bytes: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// The bytes of a block that hold the half-precision scale, and those of the minimum or its scale.
fn scales_at(format: Format) -> (usize, Option<usize>) {
    match format {
        Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K => (0, Some(2)),
        Format::Q2_K => (80, Some(82)),
        Format::Q3_K => (108, None),
        Format::Q6_K => (208, None),
        _ => (0, None),
    }
}

/// The scale of a block, and its minimum or the scale of its minima.
fn scales(format: Format, block: &[u8]) -> (f32, Option<f32>) {
    if format == Format::MXFP4 {
        return (libm::ldexp(1.0, i32::from(block[0]) - 128) as f32, None);
    }
    let (d, m) = scales_at(format);
    (half(block, d), m.map(|m| half(block, m)))
}

/// The block with the scale `d`, and the minimum, or the scale of the minima, `m`. `MXFP4` gets the scale 1.
///
/// # Panics
/// For formats without blocks.
pub fn with_scales(format: Format, block: &[u8], d: f32, m: f32) -> Vec<u8> {
    assert!(format.block_len() > 1, "{format} has no scales");
    let mut block = block.to_vec();
    match format {
        Format::MXFP4 => block[0] = 128,
        _ => {
            let (d_at, m_at) = scales_at(format);
            block[d_at..d_at + 2].copy_from_slice(&half::f16::from_f32(d).to_le_bytes());
            if let Some(m_at) = m_at {
                block[m_at..m_at + 2].copy_from_slice(&half::f16::from_f32(m).to_le_bytes());
            }
        }
    }
    block
}

/// The weights of a block if its scale were `d` and its minimum, or the scale of its minima, `m`: whole numbers.
///
/// # Panics
/// If they are not whole or `block` is no block.
pub fn whole(format: Format, block: &[u8], d: f32, m: f32) -> Vec<i64> {
    let mut w = vec![f32::NAN; format.block_len()];
    dequantize_row(format, &with_scales(format, block, d, m), &mut w).expect("a block");
    assert!(w.iter().all(|w| w.fract() == 0.0));
    w.iter().map(|&w| w as i64).collect()
}

/// The scale and the codes of a block of activations.
pub fn quantize(x: &[f32]) -> (f32, Vec<i64>) {
    if x.iter().any(|x| !x.is_finite()) {
        return (f32::NAN, vec![0; x.len()]);
    }
    let amax = x.iter().fold(0.0, |max: f32, x| max.max(x.abs()));
    if f64::from(amax) < libm::ldexp(1.0, -100) {
        return (0.0, vec![0; x.len()]);
    }
    let inverse = 127.0 / amax;
    (amax / 127.0, x.iter().map(|x| (x * inverse).round_ties_even() as i64).collect())
}

fn dot(a: &[i64], b: &[i64]) -> i64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A bf16 as the kernels see it: rounded to nearest even, small magnitudes flushed.
pub fn bf16(x: f32) -> f32 {
    let x = half::bf16::from_f32(x).to_f32();
    if f64::from(x.abs()) < libm::ldexp(1.0, -55) { 0.0 } else { x }
}

/// The result of one row of weights, as in the file, and one token, which has as many elements.
///
/// # Panics
/// If the row is not whole blocks.
pub fn chain(format: Format, row: &[u8], x: &[f32]) -> f32 {
    let mut acc = 0.0;
    let blocks = || row.chunks_exact(format.block_bytes()).zip(x.chunks_exact(format.block_len()));
    match (format, format.block_len()) {
        (Format::BF16, _) => {
            let mut w = vec![f32::NAN; x.len()];
            dequantize_row(format, row, &mut w).expect("floats");
            for (w, x) in w.chunks(2).zip(x.chunks(2)) {
                for (&w, &x) in w.iter().zip(x).rev() {
                    acc = fma(bf16(w), bf16(x), acc);
                }
            }
        }
        (_, 1) => {
            let mut w = vec![f32::NAN; x.len()];
            dequantize_row(format, row, &mut w).expect("floats");
            for (&w, &x) in w.iter().zip(x) {
                acc = fma(w, x, acc);
            }
        }
        (_, 32) => {
            for (block, x) in blocks() {
                let ((d, m), (x_scale, codes)) = (scales(format, block), quantize(x));
                acc = fma(d * x_scale, dot(&whole(format, block, 1.0, 0.0), &codes) as f32, acc);
                if let Some(m) = m {
                    acc = fma(m, x_scale * codes.iter().sum::<i64>() as f32, acc);
                }
            }
        }
        _ => {
            for (block, x) in blocks() {
                let ((d, dmin), (x_scale, codes)) = (scales(format, block), quantize(x));
                acc = fma(d * x_scale, dot(&whole(format, block, 1.0, 0.0), &codes) as f32, acc);
                if let Some(dmin) = dmin {
                    // The weights are the negative minima.
                    let j = -dot(&whole(format, block, 0.0, 1.0), &codes);
                    acc = fma(-(dmin * x_scale), j as f32, acc);
                }
            }
        }
    }
    acc
}
