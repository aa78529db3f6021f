//! The kernels of the tier `avx512vnni`.

/// Calls `$f::<N, ...>(first column, ...)` for all columns below `$columns`, two at a time and a last odd one.
///
/// A loop would do, if the compiler were sure to unroll it: sums in an array that a counter indexes are in memory.
macro_rules! for_columns {
    ($columns:ident, $f:ident $args:tt) => {
        for_columns! { @each $columns, $f, [], $args, 0 2 4 6 8 10 }
    };
    ($columns:ident, $f:ident::<$($generic:ident),*> $args:tt) => {
        for_columns! { @each $columns, $f, [$($generic),*], $args, 0 2 4 6 8 10 }
    };
    (@each $columns:ident, $f:ident, $generics:tt, $args:tt, $($c:literal)*) => {
        const { assert!($columns <= 2 * [$($c),*].len()) };
        $(
            if $c + 2 <= $columns {
                for_columns!(@call $f, 2, $generics, $c, $args);
            } else if $c < $columns {
                for_columns!(@call $f, 1, $generics, $c, $args);
            }
        )*
    };
    (@call $f:ident, $n:literal, [$($generic:ident),*], $c:literal, ($($arg:expr),*)) => {
        $f::<$n $(, $generic)*>($c, $($arg),*)
    };
}

mod acts;
mod by256;
mod by32;
mod dot;
mod dots;
pub(crate) mod lanes;
mod matrix;
mod ops;
mod vectors;

use cera_quant::kernels::TierKernels;

/// The kernels of this tier's own.
pub(crate) const KERNELS: TierKernels = TierKernels {
    tile: matrix::TILE,
    gemm: matrix::gemm_of,
    gemv: matrix::gemv_of,
    quantize: acts::quantizer_of,
    ops: ops::OPS,
    dots: Some(dots::DOTS),
};
