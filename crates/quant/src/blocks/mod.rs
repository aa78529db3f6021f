//! The block layouts of the weight formats as they stand in files, exact dequantization, and quantizers.

mod codes;
mod dequant;
mod layout;
mod quantize;

pub use codes::{IQ4_NL_VALUES, MXFP4_VALUES, e8m0_half, iq4_xs_scales, k_scales, q3_k_scales};
pub use dequant::{Dequantize, dequantize_row};
pub use layout::{
    Block, BlockIq4Nl, BlockIq4Xs, BlockMxfp4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, F16Le, cast_blocks, cast_blocks_mut,
};
pub(crate) use quantize::quantize_q8_0;
pub use quantize::quantize_row;

use crate::{Format, QuantError};

/// Bytes of a row of `k` elements.
fn row_bytes(format: Format, k: usize) -> Result<usize, QuantError> {
    let block = format.block_len();
    if !k.is_multiple_of(block) {
        return Err(QuantError::PartialBlock { format, k, block });
    }
    format.row_bytes(k).ok_or(QuantError::TooLarge { what: "row", m: 1, k })
}

/// Half `half` (0 or 1) of a byte.
#[inline(always)]
const fn nibble(byte: u8, half: usize) -> u8 {
    (byte >> (4 * half)) & 15
}

/// Bits `2 * i` and `2 * i + 1` of a byte.
#[inline(always)]
const fn pair(byte: u8, i: usize) -> u8 {
    (byte >> (2 * i)) & 3
}

/// Bit `i` of a byte.
#[inline(always)]
const fn bit(byte: u8, i: usize) -> u8 {
    (byte >> i) & 1
}

#[cfg(test)]
mod tests;
