//! Formats of 32 elements a block.

use std::marker::PhantomData;

use super::{Rows, Weights, dots, link};
use crate::Format;
use crate::acts::Q8x32;
use crate::blocks::{
    Block, BlockIq4Nl, BlockMxfp4, BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, F16Le,
    IQ4_NL_VALUES, MXFP4_VALUES, e8m0_half,
};
use crate::pack::Fields;

/// The codes and scales of a format of 32 elements a block.
pub(super) trait Codes32: Block {
    /// The fields of its packed form.
    const FIELDS: Fields = Fields::of_blocks(Self::FORMAT);

    /// The weight of a code, in units of the scale.
    fn value(code: u8) -> i16;

    /// The scale of a row.
    #[inline(always)]
    fn scale(block: &[u8], row: usize) -> f32 {
        F16Le(Self::FIELDS.head(block, 0, row)).to_f32()
    }

    /// The minima, for the formats that have them.
    #[inline(always)]
    fn minima(_block: &[u8]) -> Option<Rows<f32>> {
        None
    }
}

impl Codes32 for BlockQ4_0 {
    #[inline(always)]
    fn value(code: u8) -> i16 {
        i16::from(code) - 8
    }
}

impl Codes32 for BlockQ4_1 {
    #[inline(always)]
    fn value(code: u8) -> i16 {
        i16::from(code)
    }

    #[inline(always)]
    fn minima(block: &[u8]) -> Option<Rows<f32>> {
        Some(std::array::from_fn(|row| F16Le(Self::FIELDS.head(block, 1, row)).to_f32()))
    }
}

impl Codes32 for BlockQ5_0 {
    #[inline(always)]
    fn value(code: u8) -> i16 {
        i16::from(code) - 16
    }
}

impl Codes32 for BlockQ5_1 {
    #[inline(always)]
    fn value(code: u8) -> i16 {
        i16::from(code)
    }

    #[inline(always)]
    fn minima(block: &[u8]) -> Option<Rows<f32>> {
        Some(std::array::from_fn(|row| F16Le(Self::FIELDS.head(block, 1, row)).to_f32()))
    }
}

impl Codes32 for BlockQ8_0 {
    #[inline(always)]
    fn value(code: u8) -> i16 {
        i16::from(code.cast_signed())
    }
}

impl Codes32 for BlockIq4Nl {
    #[inline(always)]
    fn value(code: u8) -> i16 {
        i16::from(IQ4_NL_VALUES[usize::from(code & 15)])
    }
}

impl Codes32 for BlockMxfp4 {
    #[inline(always)]
    fn value(code: u8) -> i16 {
        i16::from(MXFP4_VALUES[usize::from(code & 15)])
    }

    #[inline(always)]
    fn scale(block: &[u8], row: usize) -> f32 {
        let [exponent] = Self::FIELDS.head(block, 0, row);
        e8m0_half(exponent)
    }
}

/// The kernel over the codes of `B`.
pub(super) struct By32<B>(PhantomData<B>);

impl<B: Codes32> Weights for By32<B> {
    const FORMAT: Format = B::FORMAT;

    fn block(block: &[u8], records: &[u8], acc: &mut [Rows<f32>]) {
        let values: Rows<[i16; 32]> = std::array::from_fn(|row| B::FIELDS.codes(block, 0, row).map(B::value));
        let scales: Rows<f32> = std::array::from_fn(|row| B::scale(block, row));
        let minima = B::minima(block);
        for (record, acc) in records.chunks_exact(size_of::<Q8x32>()).zip(acc) {
            let x: Q8x32 = bytemuck::pod_read_unaligned(record);
            let sums = dots(&values, &x.codes.map(i16::from)).map(|sum| sum as f32);
            link(acc, &scales.map(|scale| scale * x.scale), &sums);
            if let Some(minima) = minima {
                link(acc, &minima, &[x.scaled_sum; 16]);
            }
        }
    }
}
