//! Scalar matrix kernels over packed weights, for every weight format.
//!
//! These functions define the results of every matrix kernel: section 3 of `docs/numerics.md` in code. Each output
//! element is one chain of fused multiply-adds over the blocks of its row, in increasing order; what lies inside of a
//! block is whole numbers. A matrix times one token is the same function as a matrix times many.
//!
//! Shapes: those of [`GemmArgs`], for the strips and column tiles that the arguments name.

mod by256;
mod by32;
mod floats;

use by32::By32;
use by256::By256;

use crate::Format;
use crate::acts::ActFormat;
use crate::args::GemmArgs;
use crate::blocks::{
    BlockIq4Nl, BlockIq4Xs, BlockMxfp4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0,
};
use crate::num::fma;
use crate::pack::{Layout, STRIP_ROWS, strip_block_bytes};

/// Columns that share one unpacking of a block.
const COLUMNS: usize = 16;

/// One value for each row of a strip.
type Rows<T> = [T; STRIP_ROWS];

/// A matrix kernel.
pub type GemmFn = fn(&GemmArgs<'_>);

/// What a kernel knows about its weight format.
trait Weights {
    const FORMAT: Format;

    /// Adds the products of one block of a strip with the records of the same block of some tokens, which lie side by
    /// side, to `acc`: one [`Rows`] a token.
    fn block(block: &[u8], records: &[u8], acc: &mut [Rows<f32>]);
}

/// The kernel of a weight format.
fn run<W: Weights>(args: &GemmArgs<'_>) {
    if let Err(error) = args.check() {
        panic!("{error}");
    }
    assert_eq!((args.w.format(), args.w.layout()), (W::FORMAT, Layout::Strip16x4), "weights of this kernel");
    for strip in args.strips.clone() {
        for tile in args.tiles.clone() {
            let (width, _) = args.x.tile_records(tile);
            for first in (0..width).step_by(COLUMNS) {
                columns::<W>(args, strip, tile, first);
            }
        }
    }
}

/// Computes one strip for up to [`COLUMNS`] tokens of a column tile, from its token `first` on.
fn columns<W: Weights>(args: &GemmArgs<'_>, strip: usize, tile: usize, first: usize) {
    let (width, records) = args.x.tile_records(tile);
    let count = COLUMNS.min(width - first);
    let size = const { ActFormat::of(W::FORMAT).record_bytes() };
    let mut acc = [[0.0; STRIP_ROWS]; COLUMNS];
    let acc = &mut acc[..count];
    let blocks = args.w.strip(strip).chunks_exact(const { strip_block_bytes(W::FORMAT) });
    for (block, records) in blocks.zip(records.chunks_exact(width * size)) {
        W::block(block, &records[first * size..(first + count) * size], acc);
    }
    let row = strip * STRIP_ROWS;
    let rows = STRIP_ROWS.min(args.w.m() - row);
    for (column, acc) in acc.iter().enumerate() {
        args.out.store(tile * args.x.tile() + first + column, row, &acc[..rows]);
    }
}

/// The exact dot products of the values of 16 rows with the codes of a token.
#[inline(never)]
fn dots<const N: usize>(values: &Rows<[i16; N]>, codes: &[i16; N]) -> Rows<i32> {
    values.each_ref().map(|values| {
        values.iter().zip(codes).map(|(&value, &code)| i32::from(value) * i32::from(code)).sum()
    })
}

/// One link of the chains of 16 rows: `acc = fma(a, b, acc)`.
#[inline(never)]
fn link(acc: &mut Rows<f32>, a: &Rows<f32>, b: &Rows<f32>) {
    for row in 0..STRIP_ROWS {
        acc[row] = fma(a[row], b[row], acc[row]);
    }
}

macro_rules! kernels {
    ($($name:ident, $format:ident: $weights:ty;)*) => {
        $(
            #[doc = concat!("The kernel of [`Format::", stringify!($format), "`].")]
            ///
            /// # Panics
            /// If [`GemmArgs::check`] fails or the weights have another format.
            pub fn $name(args: &GemmArgs<'_>) {
                run::<$weights>(args);
            }
        )*

        /// The kernel of a weight format.
        pub const fn by_format(format: Format) -> GemmFn {
            match format {
                $(Format::$format => $name,)*
            }
        }
    };
}

kernels! {
    f32, F32: floats::F32;
    f16, F16: floats::F16;
    bf16, BF16: floats::Bf16;
    q4_0, Q4_0: By32<BlockQ4_0>;
    q4_1, Q4_1: By32<BlockQ4_1>;
    q5_0, Q5_0: By32<BlockQ5_0>;
    q5_1, Q5_1: By32<BlockQ5_1>;
    q8_0, Q8_0: By32<BlockQ8_0>;
    q2_k, Q2_K: By256<BlockQ2K>;
    q3_k, Q3_K: By256<BlockQ3K>;
    q4_k, Q4_K: By256<BlockQ4K>;
    q5_k, Q5_K: By256<BlockQ5K>;
    q6_k, Q6_K: By256<BlockQ6K>;
    iq4_nl, IQ4_NL: By32<BlockIq4Nl>;
    iq4_xs, IQ4_XS: By256<BlockIq4Xs>;
    mxfp4, MXFP4: By32<BlockMxfp4>;
}
