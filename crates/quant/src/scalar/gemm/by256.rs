//! Formats of 256 elements a block, with whole scales (and minima) of 16 or 32 elements.

use std::marker::PhantomData;

use super::{Rows, Weights, dots, link};
use crate::Format;
use crate::acts::Q8x256;
use crate::blocks::{
    Block, BlockIq4Xs, BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K, F16Le, IQ4_NL_VALUES, iq4_xs_scales,
    k_scales, q3_k_scales,
};
use crate::pack::Fields;

/// One whole number for every 16 elements of a block.
type Sixteenths = [i16; 16];

/// The codes and scales of a format of 256 elements a block.
pub(super) trait Codes256: Block {
    /// The fields of its packed form.
    const FIELDS: Fields = Fields::of_blocks(Self::FORMAT);

    /// The weight of a code, in units of the scales.
    fn value(code: u8) -> i16;

    /// The scales of a row; one of 32 elements stands twice.
    fn scales(block: &[u8], row: usize) -> Sixteenths;

    /// The scales of the minima, and the minima in the same way, for the formats that have them.
    #[inline(always)]
    fn minima(_block: &[u8]) -> Option<(Rows<f32>, Rows<Sixteenths>)> {
        None
    }
}

/// Numbers for 32 elements each as numbers for 16 each.
#[inline(always)]
fn twice<T: Copy + Into<i16>>(of32: [T; 8]) -> Sixteenths {
    std::array::from_fn(|i| of32[i / 2].into())
}

impl Codes256 for BlockQ2K {
    #[inline(always)]
    fn value(code: u8) -> i16 {
        i16::from(code)
    }

    #[inline(always)]
    fn scales(block: &[u8], row: usize) -> Sixteenths {
        Self::FIELDS.head::<16>(block, 2, row).map(|s| i16::from(s & 15))
    }

    #[inline(always)]
    fn minima(block: &[u8]) -> Option<(Rows<f32>, Rows<Sixteenths>)> {
        let dmin = std::array::from_fn(|row| F16Le(Self::FIELDS.head(block, 1, row)).to_f32());
        let scales: Rows<[u8; 16]> = std::array::from_fn(|row| Self::FIELDS.head(block, 2, row));
        Some((dmin, scales.map(|scales| scales.map(|s| i16::from(s >> 4)))))
    }
}

impl Codes256 for BlockQ3K {
    #[inline(always)]
    fn value(code: u8) -> i16 {
        i16::from(code) - 4
    }

    #[inline(always)]
    fn scales(block: &[u8], row: usize) -> Sixteenths {
        q3_k_scales(&Self::FIELDS.head(block, 1, row)).map(i16::from)
    }
}

/// What `Q4_K` and `Q5_K` share.
macro_rules! six_bit_scales {
    ($($block:ident)*) => {$(
        impl Codes256 for $block {
            #[inline(always)]
            fn value(code: u8) -> i16 {
                i16::from(code)
            }

            #[inline(always)]
            fn scales(block: &[u8], row: usize) -> Sixteenths {
                twice(k_scales(&Self::FIELDS.head(block, 2, row)).0)
            }

            #[inline(always)]
            fn minima(block: &[u8]) -> Option<(Rows<f32>, Rows<Sixteenths>)> {
                let dmin = std::array::from_fn(|row| F16Le(Self::FIELDS.head(block, 1, row)).to_f32());
                let scales = |row| k_scales(&Self::FIELDS.head(block, 2, row));
                Some((dmin, std::array::from_fn(|row| twice(scales(row).1))))
            }
        }
    )*};
}

six_bit_scales!(BlockQ4K BlockQ5K);

impl Codes256 for BlockQ6K {
    #[inline(always)]
    fn value(code: u8) -> i16 {
        i16::from(code) - 32
    }

    #[inline(always)]
    fn scales(block: &[u8], row: usize) -> Sixteenths {
        Self::FIELDS.head::<16>(block, 1, row).map(|s| i16::from(s.cast_signed()))
    }
}

impl Codes256 for BlockIq4Xs {
    #[inline(always)]
    fn value(code: u8) -> i16 {
        i16::from(IQ4_NL_VALUES[usize::from(code & 15)])
    }

    #[inline(always)]
    fn scales(block: &[u8], row: usize) -> Sixteenths {
        let high = u16::from_le_bytes(Self::FIELDS.head(block, 1, row));
        twice(iq4_xs_scales(high, &Self::FIELDS.head(block, 2, row)))
    }
}

/// The kernel over the codes of `B`.
pub(super) struct By256<B>(PhantomData<B>);

/// The codes of a row, each times its whole scale: their dot product with activation codes is `I = sum of sc * S`.
///
/// The products fit: the largest, of `Q6_K`, is 128 * 32, and `I` is at most 256 * 127 times that, less than 2^31.
#[inline(always)]
fn scaled_values<B: Codes256>(block: &[u8], row: usize) -> [i16; 256] {
    let scales = B::scales(block, row);
    let mut values = [0; 256];
    for (group, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let codes = B::FIELDS.codes(block, group, row).map(B::value);
        *values = std::array::from_fn(|l| codes[l] * scales[2 * group + l / 16]);
    }
    values
}

impl<B: Codes256> Weights for By256<B> {
    const FORMAT: Format = B::FORMAT;

    fn block(block: &[u8], records: &[u8], acc: &mut [Rows<f32>]) {
        let values: Rows<[i16; 256]> = std::array::from_fn(|row| scaled_values::<B>(block, row));
        let d: Rows<f32> = std::array::from_fn(|row| F16Le(B::FIELDS.head(block, 0, row)).to_f32());
        let minima = B::minima(block);
        for (record, acc) in records.chunks_exact(size_of::<Q8x256>()).zip(acc) {
            let x: Q8x256 = bytemuck::pod_read_unaligned(record);
            let sums = dots(&values, &x.codes.map(i16::from)).map(|sum| sum as f32);
            link(acc, &d.map(|d| d * x.scale), &sums);
            if let Some((dmin, minima)) = &minima {
                let sums = dots(minima, &x.sums16).map(|sum| sum as f32);
                link(acc, &dmin.map(|dmin| -(dmin * x.scale)), &sums);
            }
        }
    }
}
