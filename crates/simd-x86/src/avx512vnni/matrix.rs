//! The matrix kernels, by format.

use cera_quant::Format;
use cera_quant::args::GemmArgs;

use super::lanes::Lanes;
use crate::MatrixFn;
use crate::matrix::by32::{self, By32};
use crate::matrix::by256::{self, By256};
use crate::matrix::{self, Job, Kernel, Tiles};

/// Tokens of the widest register tile.
pub(super) const TILE: usize = 10;

avx512vnni_tier! {
    fn tile<K: Kernel<Lanes>, const R: usize, const C: usize>(job: &Job<'_, '_>) {
        // SAFETY: this function is called only where the machine has the features that it is compiled for.
        matrix::tile::<Lanes, K, R, C>(unsafe { Lanes::new() }, job);
    }

    fn gemm<K: Kernel<Lanes>>(args: &GemmArgs<'_>) {
        let tiles: Tiles<1, TILE> = [[
            tile::<K, 1, 1>, tile::<K, 1, 2>, tile::<K, 1, 3>, tile::<K, 1, 4>, tile::<K, 1, 5>,
            tile::<K, 1, 6>, tile::<K, 1, 7>, tile::<K, 1, 8>, tile::<K, 1, 9>, tile::<K, 1, 10>,
        ]];
        // SAFETY: the tiles need what this function needs.
        unsafe { matrix::run::<Lanes, K, _, _>(args, &tiles) }
    }

    fn gemv<K: Kernel<Lanes>>(args: &GemmArgs<'_>) {
        let tiles: Tiles<4, 1> = [[tile::<K, 1, 1>], [tile::<K, 2, 1>], [tile::<K, 3, 1>], [tile::<K, 4, 1>]];
        // SAFETY: the tiles need what this function needs.
        unsafe { matrix::run::<Lanes, K, _, _>(args, &tiles) }
    }
}

macro_rules! kernels {
    ($($format:ident: $kernel:ty;)*) => {
        /// The kernel of a format for several tokens.
        pub(super) const fn gemm_of(format: Format) -> Option<MatrixFn> {
            match format {
                $(Format::$format => Some(gemm::<$kernel>),)*
                _ => None,
            }
        }

        /// The kernel of a format for one token.
        pub(super) const fn gemv_of(format: Format) -> Option<MatrixFn> {
            match format {
                $(Format::$format => Some(gemv::<$kernel>),)*
                _ => None,
            }
        }
    };
}

kernels! {
    Q4_0: By32<by32::Q4_0>;
    Q4_1: By32<by32::Q4_1>;
    Q5_0: By32<by32::Q5_0>;
    Q5_1: By32<by32::Q5_1>;
    Q8_0: By32<by32::Q8_0>;
    IQ4_NL: By32<by32::Iq4Nl>;
    MXFP4: By32<by32::Mxfp4>;
    Q2_K: By256<by256::Q2K, 16, 8>;
    Q3_K: By256<by256::Q3K, 16, 0>;
    Q4_K: By256<by256::Q4K, 8, 4>;
    Q5_K: By256<by256::Q5K, 8, 4>;
    Q6_K: By256<by256::Q6K, 16, 0>;
    IQ4_XS: By256<by256::Iq4Xs, 8, 0>;
}
