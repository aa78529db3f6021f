//! Formats of 256 elements a block, with whole scales of 16 or 32 elements.

mod iq4_xs;
mod q2_k;
mod q3_k;
mod q4_k;
mod q6_k;

use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;

use super::by32::to_signed;
use super::records::{Record256, float, int};
use super::vectors::{AHEAD, Vector, Vectors, prefetch};
use super::{Blocks, Kernel, Sums, Unpack, Wide};

pub use iq4_xs::Iq4Xs;
pub use q2_k::Q2K;
pub use q3_k::Q3K;
pub use q4_k::{Q4K, Q5K};
pub use q6_k::Q6K;

/// How a format of 256 elements unpacks: `SCALES` whole scales, and whole minima in `MINIMA` pairs.
///
/// A weight is `d * scale * (code - OFFSET) - dmin * minimum`, with codes in `0..=MAX`.
pub trait Codes256<const SCALES: usize, const MINIMA: usize> {
    /// The format.
    const FORMAT: Format;
    /// What is taken off a code.
    const OFFSET: i32;
    /// The largest code.
    const MAX: i32;
    /// Whether blocks come from a cache. If not, they are fetched ahead.
    const CACHED: bool = false;
    /// A block of a strip.
    type Block: Pod;

    /// Vector `v` of the codes of group `group` of 32 elements: its bytes are those of elements `4v..4v + 4`.
    fn code<T: Vectors>(t: T, block: &Self::Block, group: usize, part: usize, v: usize) -> T::I;

    /// `code - OFFSET` as signed bytes.
    #[inline(always)]
    fn signed<T: Vectors>(t: T, block: &Self::Block, group: usize, part: usize, v: usize) -> T::I {
        to_signed(t, Self::code(t, block, group, part, v), Self::OFFSET)
    }

    /// The scale of the scales.
    fn d<T: Vectors>(t: T, block: &Self::Block, part: usize) -> T::F;

    /// The scales, each as an i32, for [`Codes256::scale`].
    fn scales<T: Vectors>(t: T, block: &Self::Block, part: usize) -> [T::I; SCALES];

    /// Scale `i`; `scales` are those of the same block and part.
    #[inline(always)]
    fn scale<T: Vectors>(
        _: T,
        (_block, _part): (&Self::Block, usize),
        scales: &[T::I; SCALES],
        i: usize,
    ) -> T::I {
        scales[i]
    }

    /// The minima of pieces `2i` and `2i + 1` as two i16, and the scale of the minima. If the tier is [`Vectors::SIGNED`],
    /// those of pieces `4i..4i + 4` as bytes, in half as many vectors.
    #[inline(always)]
    fn minima<T: Vectors>(t: T, _block: &Self::Block, _part: usize) -> ([T::I; MINIMA], T::F) {
        ([t.splat32(0); MINIMA], t.zero())
    }
}

/// The scales of a part of each of some blocks, as [`Codes256::scales`] gives them.
pub type ScalesOf<I, const SCALES: usize, const R: usize> = [[I; SCALES]; R];

/// How a tier forms the exact sums of products of formats of 256 elements.
pub trait Products256: Vectors {
    /// The kernel of a format's unpacked blocks.
    type Wide256<B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize>: Wide<Self, By256<B, SCALES, MINIMA>>;

    /// Adds group `group` of 32 elements of a part of each of some blocks to the sums of `scale * (code - OFFSET)` times
    /// the codes of the activations.
    fn add_group<
        B: Codes256<SCALES, MINIMA>,
        const SCALES: usize,
        const MINIMA: usize,
        const R: usize,
        const C: usize,
    >(
        self,
        blocks: &Blocks<'_, B::Block, R>,
        scales: (&ScalesOf<Self::I, SCALES, R>, usize),
        x: &[Record256; C],
        sums: &mut Sums<Self::I, R, C>,
    );

    /// The sums of whole minima, as [`Codes256::minima`] gives them, times the sums of the codes of their pieces.
    #[inline(always)]
    fn minima<const MINIMA: usize>(self, minima: &[Self::I; MINIMA], x: &Record256) -> Self::I {
        let pairs: &[_] = if MINIMA == 4 { &x.sums32 } else { &x.sums16 };
        let mut sum = self.splat32(0);
        for (&minima, &pair) in minima.iter().zip(pairs) {
            sum = self.dot2(sum, minima, self.splat32(int(pair)));
        }
        sum
    }
}

/// The kernel of a format of 256 elements a block.
pub struct By256<B, const SCALES: usize, const MINIMA: usize>(PhantomData<B>);

impl<T: Products256, B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize> Kernel<T>
    for By256<B, SCALES, MINIMA>
{
    const FORMAT: Format = B::FORMAT;
    type Block = B::Block;
    type Record = Record256;

    #[inline(always)]
    fn blocks<const R: usize, const C: usize>(
        t: T,
        blocks: Blocks<'_, B::Block, R>,
        x: &[Record256; C],
        acc: &mut Sums<T::F, R, C>,
    ) {
        let mut scales = [[t.splat32(0); SCALES]; R];
        unrolled!(r < R { scales[r] = B::scales(t, blocks[r].0, blocks[r].1); });
        let mut sums = [[t.splat32(0); C]; R];
        for group in 0..8 {
            if !B::CACHED {
                unrolled!(r < R { prefetch_eighth(t, blocks[r].0, group); });
            }
            t.add_group::<B, SCALES, MINIMA, R, C>(&blocks, (&scales, group), x, &mut sums);
        }
        unrolled!(r < R {
            let scales = Scales::of::<_, B, SCALES>(t, blocks[r].0, blocks[r].1);
            unrolled!(c < C { acc[r][c] = scales.link(t, sums[r][c], &x[c], acc[r][c]); });
        });
    }
}

/// A block of a format of 256 elements, unpacked.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Unpacked256 {
    d: Vector,
    dmin: Vector,
    /// As many as the format has.
    minima: [Vector; 8],
    /// As many as the format has.
    scales: [Vector; 16],
    groups: [[Vector; 8]; 8],
}

/// A format with its blocks unpacked.
pub struct Bytes<B, const SCALES: usize, const MINIMA: usize>(PhantomData<B>);

impl<B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize> Codes256<SCALES, MINIMA>
    for Bytes<B, SCALES, MINIMA>
{
    const FORMAT: Format = B::FORMAT;
    const OFFSET: i32 = B::OFFSET;
    const MAX: i32 = B::MAX;
    const CACHED: bool = true;
    type Block = Unpacked256;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Unpacked256, group: usize, part: usize, v: usize) -> T::I {
        assert!(!T::SIGNED, "the codes are signed");
        t.load(&block.groups[group][v], part)
    }

    #[inline(always)]
    fn signed<T: Vectors>(t: T, block: &Unpacked256, group: usize, part: usize, v: usize) -> T::I {
        let code = t.load(&block.groups[group][v], part);
        if T::SIGNED { code } else { to_signed(t, code, B::OFFSET) }
    }

    #[inline(always)]
    fn d<T: Vectors>(t: T, block: &Unpacked256, part: usize) -> T::F {
        t.as_f32(t.load(&block.d, part))
    }

    /// There is no need to have them all at once.
    #[inline(always)]
    fn scales<T: Vectors>(t: T, _: &Unpacked256, _: usize) -> [T::I; SCALES] {
        [t.splat32(0); SCALES]
    }

    #[inline(always)]
    fn scale<T: Vectors>(t: T, (block, part): (&Unpacked256, usize), _: &[T::I; SCALES], i: usize) -> T::I {
        t.load(&block.scales[i], part)
    }

    #[inline(always)]
    fn minima<T: Vectors>(t: T, block: &Unpacked256, part: usize) -> ([T::I; MINIMA], T::F) {
        let mut all = [t.splat32(0); MINIMA];
        for (pair, vector) in all.iter_mut().zip(&block.minima) {
            *pair = t.load(vector, part);
        }
        (all, t.as_f32(t.load(&block.dmin, part)))
    }
}

impl<T: Products256, B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize> Unpack<T>
    for By256<B, SCALES, MINIMA>
{
    type Unpacked = T::Wide256<B, SCALES, MINIMA>;
}

impl<T: Products256, B: Codes256<SCALES, MINIMA>, const SCALES: usize, const MINIMA: usize>
    Wide<T, By256<B, SCALES, MINIMA>> for By256<Bytes<B, SCALES, MINIMA>, SCALES, MINIMA>
{
    #[inline(always)]
    fn unpack(t: T, block: &B::Block, part: usize, out: &mut Unpacked256) {
        for (group, out) in out.groups.iter_mut().enumerate() {
            unrolled!(v in [0 4 1 5 2 6 3 7] {
                let signed = T::SIGNED;
                let code = if signed { B::signed(t, block, group, part, v) } else { B::code(t, block, group, part, v) };
                t.put(code, &mut out[v], part);
            });
        }
        t.put(t.bits(B::d(t, block, part)), &mut out.d, part);
        for (scale, out) in B::scales(t, block, part).into_iter().zip(&mut out.scales) {
            t.put(scale, out, part);
        }
        if MINIMA > 0 {
            let (minima, dmin) = B::minima(t, block, part);
            t.put(t.bits(dmin), &mut out.dmin, part);
            for (pair, out) in minima.into_iter().zip(&mut out.minima) {
                t.put(pair, out, part);
            }
        }
    }
}

/// The scale of the scales of a block, and the minima with theirs.
#[derive(Clone, Copy)]
struct Scales<I, F, const MINIMA: usize> {
    d: F,
    dmin: F,
    minima: [I; MINIMA],
}

impl<I: Copy, F: Copy, const MINIMA: usize> Scales<I, F, MINIMA> {
    #[inline(always)]
    fn of<T, B, const SCALES: usize>(t: T, block: &B::Block, part: usize) -> Self
    where
        T: Vectors<I = I, F = F>,
        B: Codes256<SCALES, MINIMA>,
    {
        let (minima, dmin) = B::minima(t, block, part);
        Scales { d: B::d(t, block, part), dmin, minima }
    }

    /// The two links of the chains: adds a block, of which `sum` are the exact products of scales and codes, to `acc`.
    #[inline(always)]
    fn link<T: Products256<I = I, F = F>>(&self, t: T, sum: I, x: &Record256, acc: F) -> F {
        let scale = t.splat(float(x.scale));
        let acc = t.fma(t.mul(self.d, scale), t.to_f32(sum), acc);
        if MINIMA == 0 {
            return acc;
        }
        const { assert!(matches!(MINIMA, 0 | 4 | 8), "minima are of 32 or of 16 elements") };
        t.fnma(t.mul(self.dmin, scale), t.to_f32(t.minima(&self.minima, x)), acc)
    }
}

/// Fetches bytes ahead for a kernel of packed strips, with every group of 32 elements an eighth of a block.
#[inline(always)]
fn prefetch_eighth<T: Vectors, B: Pod>(t: T, block: &B, group: usize) {
    let eighth = const { size_of::<B>() / 8 };
    prefetch(t, &bytemuck::bytes_of(block)[group * eighth..][..eighth], AHEAD);
}

/// Byte `i` of every i32, without a sign.
#[inline(always)]
fn byte<T: Vectors>(t: T, v: T::I, i: usize) -> T::I {
    t.and(t.shr(v, 8 * i as u32), t.splat32(0xff))
}
