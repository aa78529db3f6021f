//! The block layouts of the weight formats as they stand in files, exact dequantization, and quantizers.

mod codes;
mod layout;

pub use codes::{IQ4_NL_VALUES, MXFP4_VALUES, e8m0_half, iq4_xs_scales, k_scales, q3_k_scales};
pub use layout::{
    Block, BlockIq4Nl, BlockIq4Xs, BlockMxfp4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, F16Le, cast_blocks, cast_blocks_mut,
};
