//! The macros that stamp out what a tier exports.

/// Methods of a token of a tier that are one intrinsic on values each.
macro_rules! by_intrinsics {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $intrinsic:expr;)*) => {$(
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name(self, $($arg: $ty),*) -> $ret {
            // SAFETY: the intrinsic takes values, and the token `self` proves that the machine has it.
            #[allow(clippy::macro_metavars_in_unsafe)]
            unsafe { $intrinsic($($arg),*) }
        }
    )*};
}

/// The f32 operations of a tier: each is the generic one on the lanes of the tier, compiled for the tier.
macro_rules! f32_ops {
    ($gate:ident, $lanes:ty) => {
        use cera_quant::kv::{self, AppendArgs, Q8Unit};
        use cera_quant::ops::{self, AddArgs, AttentionArgs, GatedArgs, MergeArgs, RmsNormArgs, RopeArgs};

        f32_ops! { @stamp $gate, $lanes;
            rms_norm(RmsNormArgs<'_>) = ops::rms_norm;
            add(AddArgs<'_>) = ops::add;
            gated(GatedArgs<'_>) = ops::gated;
            rope(RopeArgs<'_>) = ops::rope;
            attention_f32(AttentionArgs<'_, f32>) = ops::attention;
            attention_f16(AttentionArgs<'_, u16>) = ops::attention;
            attention_q8_0(AttentionArgs<'_, Q8Unit>) = ops::attention_q8_0;
            merge_attention(MergeArgs<'_>) = ops::merge_attention;
            append_f32(AppendArgs<'_, f32>) = kv::append;
            append_f16(AppendArgs<'_, u16>) = kv::append;
            append_q8_0(AppendArgs<'_, Q8Unit>) = kv::append_q8_0;
        }
    };
    (@stamp $gate:ident, $lanes:ty; $($name:ident($args:ty) = $generic:path;)*) => {
        $gate! {
            $(fn $name(args: &mut $args) {
                crate::frame::align();
                // SAFETY: this function is called only where the machine has the features that it is compiled for,
                // and its caller makes the promises that the generic one asks for.
                unsafe { $generic(<$lanes>::new(), args) };
            })*
        }

        /// The f32 operations of the tier.
        pub(super) const OPS: cera_quant::kernels::Ops = cera_quant::kernels::Ops { $($name,)* };
    };
}

/// Functions of a tier that are generic over the matrix kernel. Each has the register tiles that it names: groups of
/// rows times tokens. Those behind `unpack` work on unpacked strips with the tile behind `or`, if many tokens meet them.
/// A module with the name of a function says the rows and tokens of its widest tile, or of that behind `or`.
macro_rules! matrix_functions {
    (
        $gate:ident, $lanes:ty;
        $($name:ident: $groups:tt x $tokens:tt;)*
        $(=> $unpack:ident { $($unpacking:ident: $r:tt x $c:tt or $many_r:literal x $many_c:literal;)* })?
    ) => {
        $gate! {
            fn tile<K: Kernel<$lanes>, const R: usize, const C: usize>(job: &Job<'_, '_>) {
                // SAFETY: this function is called only where the machine has the features that it is compiled for.
                matrix::tile::<$lanes, K, R, C>(unsafe { <$lanes>::new() }, job);
            }

            $(fn $name<K: Kernel<$lanes>>(args: &GemmArgs<'_>) {
                // SAFETY: the tiles need what this function needs.
                unsafe { matrix::run::<$lanes, K, _, _>(args, &matrix_functions!(@tiles $groups $tokens), None) }
            })*

            $(
                fn $unpack<K: matrix::Unpack<$lanes>>(strips: &[u8], out: &mut [u8]) {
                    // SAFETY: as in `tile`.
                    matrix::unpack::<$lanes, K>(unsafe { <$lanes>::new() }, strips, out);
                }

                $(fn $unpacking<K: matrix::Unpack<$lanes>>(args: &GemmArgs<'_>) {
                    let unpacked = matrix::Unpacked {
                        unpack: $unpack::<K>,
                        block_bytes: size_of::<<K::Unpacked as Kernel<$lanes>>::Block>(),
                        tile: tile::<K::Unpacked, $many_r, $many_c>,
                        shape: ($many_r, $many_c),
                    };
                    let tiles = matrix_functions!(@tiles $r $c);
                    // SAFETY: the tiles need what this function needs, and so does what unpacks.
                    unsafe { matrix::run::<$lanes, K, _, _>(args, &tiles, Some(unpacked)) }
                })*
            )?
        }

        $(matrix_functions! {
            @shape $lanes, $name matrix_functions!(@count $groups), matrix_functions!(@count $tokens)
        })*
        $($(matrix_functions! { @shape $lanes, $unpacking $many_r, $many_c })*)?
    };
    (@shape $lanes:ty, $name:ident $groups:expr, $tokens:expr) => {
        mod $name {
            use super::*;

            pub(super) const TILE: (usize, usize) = (<$lanes as Vectors>::ROWS * $groups, $tokens);
        }
    };
    (@count [$($literal:literal)*]) => {
        [$($literal),*].len()
    };
    (@tiles [$($r:literal)*] $c:tt) => {
        [$(matrix_functions!(@row $r $c)),*]
    };
    (@row $r:literal [$($c:literal)*]) => {
        [$(tile::<K, $r, $c> as Tile),*]
    };
}

/// The matrix kernels of a tier by format, from its [`matrix_functions`].
macro_rules! matrix_kernels {
    () => {
        matrix_kernels! { @all
            F32: gemm_of_floats gemv_of_floats, ByElement<floats::F32>;
            F16: gemm_of_floats gemv_of_floats, ByElement<floats::F16>;
            BF16: gemm_of_pairs gemv_of_floats, ByElement<floats::Bf16>;
            Q4_0: gemm32 gemv, By32<by32::Q4_0>;
            Q4_1: gemm32 gemv, By32<by32::Q4_1>;
            Q5_0: gemm32 gemv, By32<by32::Q5_0>;
            Q5_1: gemm32 gemv, By32<by32::Q5_1>;
            Q8_0: gemm32 gemv, By32<by32::Q8_0>;
            IQ4_NL: gemm32 gemv, By32<by32::Iq4Nl>;
            MXFP4: gemm32 gemv, By32<by32::Mxfp4>;
            Q2_K: gemm256 gemv, By256<by256::Q2K, 16, 8>;
            Q3_K: gemm256 gemv, By256<by256::Q3K, 16, 0>;
            Q4_K: gemm256 gemv, By256<by256::Q4K, 8, 4>;
            Q5_K: gemm256 gemv, By256<by256::Q5K, 8, 4>;
            Q6_K: gemm256 gemv, By256<by256::Q6K, 16, 0>;
            IQ4_XS: gemm256 gemv, By256<by256::Iq4Xs, 8, 0>;
        }
    };
    (@all $($format:ident: $gemm:ident $gemv:ident, $kernel:ty;)*) => {
        /// The kernel of a format for several tokens.
        pub(super) fn gemm_of(format: Format) -> Option<MatrixFn> {
            Some(match format {
                $(Format::$format => $gemm::<$kernel>,)*
            })
        }

        /// The kernel of a format for one token.
        pub(super) fn gemv_of(format: Format) -> Option<MatrixFn> {
            Some(match format {
                $(Format::$format => $gemv::<$kernel>,)*
            })
        }

        /// The widest register tiles of these.
        pub(super) fn shapes_of(format: Format) -> [(usize, usize); 2] {
            match format {
                $(Format::$format => [$gemm::TILE, $gemv::TILE],)*
            }
        }
    };
}

/// The quantizers of a tier.
macro_rules! quantizers {
    ($gate:ident, $lanes:ty) => {
        $gate! {
            fn q8x32(rows: &[f32], k: usize, out: &mut [u8]) {
                // SAFETY: this function is called only where the machine has the features that it is compiled for.
                acts::fill::<_, Record32, 32>(unsafe { <$lanes>::new() }, rows, k, out);
            }

            fn q8x256(rows: &[f32], k: usize, out: &mut [u8]) {
                // SAFETY: this function is called only where the machine has the features that it is compiled for.
                acts::fill::<_, Record256, 256>(unsafe { <$lanes>::new() }, rows, k, out);
            }

            fn bf16(rows: &[f32], k: usize, out: &mut [u8]) {
                // SAFETY: this function is called only where the machine has the features that it is compiled for.
                acts::fill_bf16(unsafe { <$lanes>::new() }, rows, k, out);
            }

            fn f32(rows: &[f32], k: usize, out: &mut [u8]) {
                acts::fill_f32(rows, k, out);
            }
        }

        /// The quantizer to an activation format.
        pub(super) fn quantizer_of(format: ActFormat) -> Option<QuantizeFn> {
            Some(match format {
                ActFormat::F32 => f32,
                ActFormat::Bf16 => bf16,
                ActFormat::Q8x32 => q8x32,
                ActFormat::Q8x256 => q8x256,
            })
        }
    };
}
