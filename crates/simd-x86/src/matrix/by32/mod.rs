//! Formats of 32 elements a block.

mod nibbles;
mod q5;
mod q8_0;

use std::marker::PhantomData;

use bytemuck::Pod;
use cera_quant::Format;

use super::records::{Record32, float};
use super::vectors::Vectors;

pub(crate) use nibbles::{Iq4Nl, Mxfp4, Q4_0, Q4_1};
pub(crate) use q5::{Q5_0, Q5_1};
pub(crate) use q8_0::Q8_0;

/// How many bytes ahead of the block that it works on a kernel for one token fetches: one stream reaches the bandwidth
/// of the memory with this many under way. Measured by `examples/peak.rs`.
pub(crate) const AHEAD: usize = 16 << 10;

/// How a format of 32 elements unpacks.
///
/// A weight is `scale * (code - OFFSET)`, plus the minimum where there are minima, with codes in `0..=MAX`.
pub(crate) trait Codes32 {
    /// The format.
    const FORMAT: Format;
    /// What is taken off a code.
    const OFFSET: i32;
    /// The largest code.
    const MAX: i32;
    /// A block of a strip.
    type Block: Pod;

    /// The codes of 32 elements: bytes of vector `t` are those of elements `4t..4t + 4`.
    fn codes<T: Vectors>(t: T, block: &Self::Block, part: usize) -> [T::I; 8];

    /// `code - OFFSET` as signed bytes, for formats with an offset of 128.
    #[inline(always)]
    fn signed<T: Vectors>(t: T, block: &Self::Block, part: usize) -> [T::I; 8] {
        let mut codes = Self::codes(t, block, part);
        for code in &mut codes {
            *code = t.xor(*code, t.splat8(0x80));
        }
        codes
    }

    /// The scale of every row.
    fn scale<T: Vectors>(t: T, block: &Self::Block, part: usize) -> T::F;

    /// The minimum of every row.
    #[inline(always)]
    fn minimum<T: Vectors>(_: T, _block: &Self::Block, _part: usize) -> Option<T::F> {
        None
    }
}

/// The kernel of a format of 32 elements a block.
pub(crate) struct By32<B>(PhantomData<B>);

/// The scales of a block, and the minima.
#[derive(Clone, Copy)]
pub(crate) struct Scales<F> {
    scale: F,
    minimum: Option<F>,
}

impl<F: Copy> Scales<F> {
    #[inline(always)]
    pub(crate) fn of<T: Vectors<F = F>, B: Codes32>(t: T, block: &B::Block, part: usize) -> Scales<F> {
        Scales { scale: B::scale(t, block, part), minimum: B::minimum(t, block, part) }
    }

    /// One link of the chains: adds a block, of which `sum` are the exact products of the codes, to `acc`.
    #[inline(always)]
    pub(crate) fn link<T: Vectors<F = F>>(&self, t: T, sum: T::I, x: &Record32, acc: F) -> F {
        let p = t.mul(self.scale, t.splat(float(x.scale)));
        let acc = t.fma(p, t.to_f32(sum), acc);
        match self.minimum {
            None => acc,
            Some(minimum) => t.fma(minimum, t.splat(float(x.scaled_sum)), acc),
        }
    }
}
