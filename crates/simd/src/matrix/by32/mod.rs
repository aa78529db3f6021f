//! Formats of 32 elements a block.

mod nibbles;
mod q5;
mod q8_0;

use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};
use cera_quant::Format;

use super::records::{Record32, float};
use super::vectors::{AHEAD, Vector, Vectors, prefetch};
use super::{Blocks, Kernel, Sums, Unpack, Wide};

pub use nibbles::{Iq4Nl, Mxfp4, Q4_0, Q4_1};
pub use q5::{Q5_0, Q5_1};
pub use q8_0::Q8_0;

/// How a format of 32 elements unpacks.
///
/// A weight is `scale * (code - OFFSET)`, plus the minimum where there are minima, with codes in `0..=MAX`.
pub trait Codes32 {
    /// The format.
    const FORMAT: Format;
    /// What is taken off a code.
    const OFFSET: i32;
    /// The largest code.
    const MAX: i32;
    /// Whether there are minima.
    const MINIMA: bool = false;
    /// Whether blocks come from a cache. If not, they are fetched ahead.
    const CACHED: bool = false;
    /// A block of a strip.
    type Block: Pod;

    /// Vector `v` of the codes of 32 elements: its bytes are those of elements `4v..4v + 4`.
    fn code<T: Vectors>(t: T, block: &Self::Block, part: usize, v: usize) -> T::I;

    /// `code - OFFSET` as signed bytes.
    #[inline(always)]
    fn signed<T: Vectors>(t: T, block: &Self::Block, part: usize, v: usize) -> T::I {
        to_signed(t, Self::code(t, block, part, v), Self::OFFSET)
    }

    /// The scale of every row.
    fn scale<T: Vectors>(t: T, block: &Self::Block, part: usize) -> T::F;

    /// The minimum of every row, if there are minima.
    #[inline(always)]
    fn minimum<T: Vectors>(t: T, _block: &Self::Block, _part: usize) -> T::F {
        t.zero()
    }
}

/// `code - OFFSET` as signed bytes.
#[inline(always)]
pub(super) fn to_signed<T: Vectors>(t: T, code: T::I, offset: i32) -> T::I {
    match offset {
        0 => code,
        128 => t.xor(code, t.splat8(0x80)),
        _ => t.sub8(code, t.splat8(offset as u8)),
    }
}

/// How a tier forms the exact sums of products of formats of 32 elements.
pub trait Products32: Vectors {
    /// The kernel of a format's unpacked blocks.
    type Wide32<B: Codes32>: Wide<Self, By32<B>>;

    /// The sums of `code - OFFSET` times the codes of the activations, of a part of each of some blocks with each record.
    fn products<B: Codes32, const R: usize, const C: usize>(
        self,
        blocks: &Blocks<'_, B::Block, R>,
        x: &[Record32; C],
    ) -> Sums<Self::I, R, C>;
}

/// The kernel of a format of 32 elements a block.
pub struct By32<B>(PhantomData<B>);

impl<T: Products32, B: Codes32> Kernel<T> for By32<B> {
    const FORMAT: Format = B::FORMAT;
    type Block = B::Block;
    type Record = Record32;

    #[inline(always)]
    fn blocks<const R: usize, const C: usize>(
        t: T,
        blocks: Blocks<'_, B::Block, R>,
        x: &[Record32; C],
        acc: &mut Sums<T::F, R, C>,
    ) {
        let sums = t.products::<B, R, C>(&blocks, x);
        unrolled!(r < R {
            let (block, part) = blocks[r];
            if !B::CACHED {
                prefetch(t, bytemuck::bytes_of(block), AHEAD);
            }
            let scales = Scales::of::<_, B>(t, block, part);
            unrolled!(c < C { acc[r][c] = scales.link(t, sums[r][c], &x[c], acc[r][c]); });
        });
    }
}

/// A block of a format of 32 elements, unpacked.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Unpacked32 {
    codes: [Vector; 8],
    /// Numbers of 32 bits.
    scale: Vector,
    /// As `scale`, if the format has minima.
    minimum: Vector,
}

/// A format with its blocks unpacked.
pub struct Bytes<B>(PhantomData<B>);

impl<B: Codes32> Codes32 for Bytes<B> {
    const FORMAT: Format = B::FORMAT;
    const OFFSET: i32 = B::OFFSET;
    const MAX: i32 = B::MAX;
    const MINIMA: bool = B::MINIMA;
    const CACHED: bool = true;
    type Block = Unpacked32;

    #[inline(always)]
    fn code<T: Vectors>(t: T, block: &Unpacked32, part: usize, v: usize) -> T::I {
        assert!(!T::SIGNED, "the codes are signed");
        t.load(&block.codes[v], part)
    }

    #[inline(always)]
    fn signed<T: Vectors>(t: T, block: &Unpacked32, part: usize, v: usize) -> T::I {
        let code = t.load(&block.codes[v], part);
        if T::SIGNED { code } else { to_signed(t, code, B::OFFSET) }
    }

    #[inline(always)]
    fn scale<T: Vectors>(t: T, block: &Unpacked32, part: usize) -> T::F {
        t.as_f32(t.load(&block.scale, part))
    }

    #[inline(always)]
    fn minimum<T: Vectors>(t: T, block: &Unpacked32, part: usize) -> T::F {
        t.as_f32(t.load(&block.minimum, part))
    }
}

impl<T: Products32, B: Codes32> Unpack<T> for By32<B> {
    type Unpacked = T::Wide32<B>;
}

impl<T: Products32, B: Codes32> Wide<T, By32<B>> for By32<Bytes<B>> {
    #[inline(always)]
    fn unpack(t: T, block: &B::Block, part: usize, out: &mut Unpacked32) {
        unrolled!(v in [0 4 1 5 2 6 3 7] {
            let code = if T::SIGNED { B::signed(t, block, part, v) } else { B::code(t, block, part, v) };
            t.put(code, &mut out.codes[v], part);
        });
        t.put(t.bits(B::scale(t, block, part)), &mut out.scale, part);
        if B::MINIMA {
            t.put(t.bits(B::minimum(t, block, part)), &mut out.minimum, part);
        }
    }
}

/// The scales of a block, and the minima.
#[derive(Clone, Copy)]
struct Scales<F> {
    scale: F,
    minimum: Option<F>,
}

impl<F: Copy> Scales<F> {
    #[inline(always)]
    fn of<T: Vectors<F = F>, B: Codes32>(t: T, block: &B::Block, part: usize) -> Scales<F> {
        Scales { scale: B::scale(t, block, part), minimum: B::MINIMA.then(|| B::minimum(t, block, part)) }
    }

    /// One link of the chains: adds a block, of which `sum` are the exact products of the codes, to `acc`.
    #[inline(always)]
    fn link<T: Vectors<F = F>>(&self, t: T, sum: T::I, x: &Record32, acc: F) -> F {
        let p = t.mul(self.scale, t.splat(float(x.scale)));
        let acc = t.fma(p, t.to_f32(sum), acc);
        match self.minimum {
            None => acc,
            Some(minimum) => t.fma(minimum, t.splat(float(x.scaled_sum)), acc),
        }
    }
}
