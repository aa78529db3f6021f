//! Formats of 256 elements a block.

use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_simd::matrix::by256::{By256, Codes256};
use cera_simd::matrix::records::Record256;
use cera_simd::matrix::vectors::{Vector, Vectors};
use cera_simd::matrix::{Blocks, Kernel, Sums, Wide};
use cera_simd::unrolled;

use super::{I8mm, pair};
use crate::asm;
use crate::neon::lanes::Lanes;
use crate::neon::vectors::{F, I};

/// The kernel of a format's unpacked blocks.
pub(crate) struct Pairs256<B, const SCALES: usize, const MINIMA: usize>(PhantomData<B>);

/// A block of a strip, unpacked: each vector twice, of the first two rows of every group and of the last two.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel256 {
    groups: [Group; 8],
    d: [Vector; 2],
    dmin: [Vector; 2],
    /// Eight of each row, as many as the format has.
    minima: [[Vector; 2]; 2],
}

/// 32 elements.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Group {
    /// One or two.
    scales: [[Vector; 2]; 2],
    /// Eight signed codes of each row.
    codes: [[Vector; 2]; 4],
}

/// The records of two tokens: a number of both, twice, and eight codes of both. Of the sums of pieces that have minima there
/// are the high and the low bytes.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pair {
    codes: [[[u8; 16]; 4]; 8],
    scale: [u8; 16],
    highs: [[u8; 16]; 2],
    lows: [[u8; 16]; 2],
    unused: [[u8; 16]; 11],
}

/// Half of a [`Pair`].
type Half = [u8; 384];

impl<B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize> Kernel<Lanes<I8mm>>
    for Pairs256<B, SCALES, MINIMA>
{
    const FORMAT: Format = B::FORMAT;
    type Block = Panel256;
    type Record = Half;

    #[inline(always)]
    fn blocks<const R: usize, const C: usize>(
        t: Lanes<I8mm>,
        blocks: Blocks<'_, Panel256, R>,
        x: &[Half; C],
        acc: &mut Sums<F, R, C>,
    ) {
        let mut sums = [[t.splat32(0); C]; R];
        for group in 0..8 {
            let (block, part) = blocks[0];
            let weights = asm::opaque(&block.groups[group]);
            add_group::<SCALES, R, C>(t, (weights, part), group, x, &mut sums);
        }
        let (block, part) = blocks[0];
        let d: [[I; R]; 2] = t.load_pairs(&block.d, part);
        unrolled!(c < C {
            let scale = t.as_f32(t.load16(&pair::<Pair, _, C>(x, c / 2 * 2).scale));
            unrolled!(r < R {
                let p = t.mul(t.as_f32(d[c % 2][r]), scale);
                acc[r][c] = t.fma(p, t.to_f32(sums[r][c]), acc[r][c]);
            });
        });
        if MINIMA > 0 {
            subtract_minima::<MINIMA, R, C>(t, (block, part), x, acc);
        }
    }

    #[inline(always)]
    fn finish<const R: usize, const C: usize>(t: Lanes<I8mm>, acc: &mut Sums<F, R, C>) {
        t.separate(acc);
    }
}

/// Subtracts the products of minima and sums, of parts that follow each other, from the chains.
#[inline(always)]
fn subtract_minima<const MINIMA: usize, const R: usize, const C: usize>(
    t: Lanes<I8mm>,
    (block, part): (&Panel256, usize),
    x: &[Half; C],
    acc: &mut Sums<F, R, C>,
) {
    let mut minima = [[[t.splat32(0); R]; 2]; 2];
    for (minima, vectors) in minima.iter_mut().zip(&block.minima[..MINIMA / 4]) {
        *minima = t.load_pairs(vectors, part);
    }
    let dmin: [[I; R]; 2] = t.load_pairs(&block.dmin, part);
    unrolled!(c < C {
        let pair: &Pair = pair(x, c / 2 * 2);
        let scale = t.as_f32(t.load16(&pair.scale));
        unrolled!(r < R {
            let mut sum = t.splat32(0);
            for (minima, high) in minima[..MINIMA / 4].iter().zip(&pair.highs) {
                sum = t.multiply(sum, minima[c % 2][r], t.load16(high));
            }
            sum = t.shl(sum, 8);
            for (minima, low) in minima[..MINIMA / 4].iter().zip(&pair.lows) {
                sum = t.multiply(sum, minima[c % 2][r], t.load16(low));
            }
            acc[r][c] = t.fnma(t.mul(t.as_f32(dmin[c % 2][r]), scale), t.to_f32(sum), acc[r][c]);
        });
    });
}

/// Adds a group of 32 elements, of parts that follow each other, to the sums of products of scales and codes.
#[inline(always)]
fn add_group<const SCALES: usize, const R: usize, const C: usize>(
    t: Lanes<I8mm>,
    (weights, part): (&Group, usize),
    group: usize,
    x: &[Half; C],
    sums: &mut Sums<I, R, C>,
) {
    // Vectors of a piece with a scale of its own.
    let piece = const { if SCALES == 8 { 4 } else { 2 } };
    let mut products = [[t.splat32(0); C]; R];
    unrolled!(k in [0 1 2 3] {
        if k % piece == 0 {
            products = [[t.splat32(0); C]; R];
        }
        let mut tokens = [t.splat32(0); C];
        unrolled!(c < C {
            if c % 2 == 0 {
                tokens[c] = t.load16(&pair::<Pair, _, C>(x, c).codes[group][k]);
            }
        });
        let rows: [[I; R]; 2] = t.load_pairs(&weights.codes[k], part);
        unrolled!(r < R {
            unrolled!(c < C {
                products[r][c] = t.multiply(products[r][c], rows[c % 2][r], tokens[c / 2 * 2]);
            });
        });
        if k % piece == piece - 1 {
            let scales: [[I; R]; 2] = t.load_pairs(&weights.scales[k / piece], part);
            unrolled!(r < R {
                unrolled!(c < C { sums[r][c] = t.add_scaled(sums[r][c], products[r][c], scales[c % 2][r]); });
            });
        }
    });
}

impl<B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize>
    Wide<Lanes<I8mm>, By256<B, SCALES, MINIMA>> for Pairs256<B, SCALES, MINIMA>
{
    const ARRANGES: bool = true;

    #[inline(always)]
    fn unpack(t: Lanes<I8mm>, block: &B::Block, part: usize, out: &mut Panel256) {
        for (group, out) in out.groups.iter_mut().enumerate() {
            unrolled!(k in [0 2 1 3] {
                let a = B::signed(t, block, group, part, 2 * k);
                let b = B::signed(t, block, group, part, 2 * k + 1);
                t.put_pairs(t.zip_words(a, b), &mut out.codes[k], part);
            });
        }
        t.put_twice(t.bits(B::d(t, block, part)), &mut out.d, part);
        let scales = B::scales(t, block, part);
        for (scales, out) in scales.chunks_exact(SCALES / 8).zip(&mut out.groups) {
            for (&scale, out) in scales.iter().zip(&mut out.scales) {
                t.put_twice(scale, out, part);
            }
        }
        if MINIMA > 0 {
            let (minima, dmin) = B::minima(t, block, part);
            t.put_twice(t.bits(dmin), &mut out.dmin, part);
            let vectors = minima[..MINIMA / 2].as_chunks::<2>().0;
            for (&[a, b], out) in vectors.iter().zip(&mut out.minima) {
                t.put_pairs(t.zip_words(a, b), out, part);
            }
        }
    }

    #[inline(always)]
    fn arrange<const C: usize>(t: Lanes<I8mm>, x: &[Record256; C]) -> [Half; C] {
        let mut all = [[0; 384]; C];
        for ([a, b], out) in x.as_chunks::<2>().0.iter().zip(all.as_chunks_mut::<2>().0) {
            let out: &mut Pair = bytemuck::from_bytes_mut(out.as_flattened_mut());
            t.put_numbers(a.scale, b.scale, &mut out.scale);
            if MINIMA > 0 {
                let ([high_a, low_a], low_at) = t.split_sums::<MINIMA>(a);
                let ([high_b, low_b], _) = t.split_sums::<MINIMA>(b);
                let (high, low) = (t.zip_halves(high_a, high_b), t.zip_halves(low_a, low_b));
                t.put16(high[0], &mut out.highs[0]);
                t.put16(high[1], &mut out.highs[1]);
                t.put16(low[low_at / 2], &mut out.lows[0]);
                t.put16(low[1], &mut out.lows[1]);
            }
            for ((a, b), out) in a.codes.iter().zip(&b.codes).zip(&mut out.codes) {
                let halves = a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0);
                for ((a, b), out) in halves.zip(out.as_chunks_mut::<2>().0) {
                    t.put_codes(a, b, out);
                }
            }
        }
        all
    }
}
