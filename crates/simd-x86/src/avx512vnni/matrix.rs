//! The matrix kernels, by format.

use cera_quant::Format;
use cera_quant::args::GemmArgs;
use cera_quant::kernels::MatrixFn;

use super::lanes::Lanes;
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

matrix_kernels! {}
