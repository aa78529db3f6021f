//! Formats of 32 elements a block.

use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;
use cera_simd::matrix::by32::{By32, Codes32};
use cera_simd::matrix::records::Record32;
use cera_simd::matrix::vectors::{Vector, Vectors};
use cera_simd::matrix::{Blocks, Kernel, Sums, Wide};
use cera_simd::unrolled;

use super::{I8mm, pair};
use crate::neon::lanes::Lanes;
use crate::neon::vectors::{F, I};

/// The kernel of a format's unpacked blocks.
pub(crate) struct Pairs32<B>(PhantomData<B>);

/// A block of a strip, unpacked: each vector twice, of the first two rows of every group and of the last two.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Panel32 {
    /// Eight signed codes of each row.
    codes: [[Vector; 2]; 4],
    scale: [Vector; 2],
    /// If the format has minima.
    minimum: [Vector; 2],
}

/// The records of two tokens: a number of both, twice, and eight codes of both.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pair {
    scale: [u8; 16],
    scaled_sum: [u8; 16],
    codes: [[[u8; 16]; 2]; 2],
}

/// Half of a [`Pair`].
type Half = [u8; 48];

impl<B: Codes32> Kernel<Lanes<I8mm>> for Pairs32<B> {
    const FORMAT: Format = B::FORMAT;
    type Block = Panel32;
    type Record = Half;

    #[inline(always)]
    fn blocks<const R: usize, const C: usize>(
        t: Lanes<I8mm>,
        blocks: Blocks<'_, Panel32, R>,
        x: &[Half; C],
        acc: &mut Sums<F, R, C>,
    ) {
        let (block, part) = blocks[0];
        let mut sums = [[t.splat32(0); C]; R];
        unrolled!(k in [0 1 2 3] {
            let mut tokens = [t.splat32(0); C];
            unrolled!(c < C {
                if c % 2 == 0 {
                    tokens[c] = t.load16(&pair::<Pair, _, C>(x, c).codes[k / 2][k % 2]);
                }
            });
            let rows: [[I; R]; 2] = t.load_pairs(&block.codes[k], part);
            unrolled!(r < R {
                unrolled!(c < C { sums[r][c] = t.multiply(sums[r][c], rows[c % 2][r], tokens[c / 2 * 2]); });
            });
        });
        let scales: [[I; R]; 2] = t.load_pairs(&block.scale, part);
        let minima: [[I; R]; 2] = t.load_pairs(&block.minimum, part);
        unrolled!(c < C {
            let pair: &Pair = pair(x, c / 2 * 2);
            let scale = t.as_f32(t.load16(&pair.scale));
            unrolled!(r < R {
                let p = t.mul(t.as_f32(scales[c % 2][r]), scale);
                acc[r][c] = t.fma(p, t.to_f32(sums[r][c]), acc[r][c]);
                if B::MINIMA {
                    let sums = t.as_f32(t.load16(&pair.scaled_sum));
                    acc[r][c] = t.fma(t.as_f32(minima[c % 2][r]), sums, acc[r][c]);
                }
            });
        });
    }

    #[inline(always)]
    fn finish<const R: usize, const C: usize>(t: Lanes<I8mm>, acc: &mut Sums<F, R, C>) {
        t.separate(acc);
    }
}

impl<B: Codes32> Wide<Lanes<I8mm>, By32<B>> for Pairs32<B> {
    const ARRANGES: bool = true;

    #[inline(always)]
    fn unpack(t: Lanes<I8mm>, block: &B::Block, part: usize, out: &mut Panel32) {
        unrolled!(k in [0 2 1 3] {
            let (a, b) = (B::signed(t, block, part, 2 * k), B::signed(t, block, part, 2 * k + 1));
            t.put_pairs(t.zip_words(a, b), &mut out.codes[k], part);
        });
        t.put_twice(t.bits(B::scale(t, block, part)), &mut out.scale, part);
        if B::MINIMA {
            t.put_twice(t.bits(B::minimum(t, block, part)), &mut out.minimum, part);
        }
    }

    #[inline(always)]
    fn arrange<const C: usize>(t: Lanes<I8mm>, x: &[Record32; C]) -> [Half; C] {
        let mut all = [[0; 48]; C];
        for ([a, b], out) in x.as_chunks::<2>().0.iter().zip(all.as_chunks_mut::<2>().0) {
            let out: &mut Pair = bytemuck::from_bytes_mut(out.as_flattened_mut());
            t.put_numbers(a.scale, b.scale, &mut out.scale);
            t.put_numbers(a.scaled_sum, b.scaled_sum, &mut out.scaled_sum);
            let halves = a.codes.as_chunks::<4>().0.iter().zip(b.codes.as_chunks::<4>().0);
            for ((a, b), out) in halves.zip(&mut out.codes) {
                t.put_codes(a, b, out);
            }
        }
        all
    }
}
