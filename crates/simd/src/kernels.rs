//! The macros that write out what is repeated, and that stamp out what a tier exports.
//!
//! The crate that uses them depends on `cera_quant`, and its gates are those of `cera_quant::gated_tiers`.

/// The statements for every `$i` below `$n`, one after the other in the code: `R` groups, which are four at most, or `C`
/// tokens, which are ten. With a list of numbers they are for each of those, in this order.
///
/// A loop would do, if the compiler were sure to unroll it: sums in an array that a counter indexes are in memory.
#[macro_export]
macro_rules! unrolled {
    ($i:ident < R $body:block) => {
        const { assert!(R <= 4) };
        $crate::unrolled! { @below $i R $body 0 1 2 3 }
    };
    ($i:ident < C $body:block) => {
        const { assert!(C <= 10) };
        $crate::unrolled! { @below $i C $body 0 1 2 3 4 5 6 7 8 9 }
    };
    ($i:ident in [$($literal:literal)*] $body:block) => {
        $({
            let $i: usize = $literal;
            $body
        })*
    };
    (@below $i:ident $n:ident $body:block $($literal:literal)*) => {
        $(
            if const { $literal < $n } {
                let $i: usize = $literal;
                $body
            }
        )*
    };
}

/// Methods of a token of a tier that are one intrinsic on values each.
#[macro_export]
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
#[macro_export]
macro_rules! f32_ops {
    ($gate:ident, $lanes:ty) => {
        use cera_quant::kv::{self, AppendArgs, Q8Unit};
        use cera_quant::ops::{
            self, AddArgs, AddScaledArgs, AttentionArgs, GatedArgs, LayerNormArgs, MergeArgs, PointwiseArgs, RmsNormArgs, RopeArgs,
            RouteArgs, ConvArgs, DeltaRuleArgs, StateSpaceArgs,
        };

        $crate::f32_ops! { @stamp $gate, $lanes;
            rms_norm(RmsNormArgs<'_>) = ops::rms_norm;
            layer_norm(LayerNormArgs<'_>) = ops::layer_norm;
            add(AddArgs<'_>) = ops::add;
            add_scaled(AddScaledArgs<'_>) = ops::add_scaled;
            route(RouteArgs<'_>) = ops::route;
            gated(GatedArgs<'_>) = ops::gated;
            pointwise(PointwiseArgs<'_>) = ops::pointwise;
            conv(ConvArgs<'_>) = ops::conv;
            delta_rule(DeltaRuleArgs<'_>) = ops::delta_rule;
            state_space(StateSpaceArgs<'_>) = ops::state_space;
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
                // SAFETY: this function is called only where the machine has the features that it is compiled for.
                let lanes = unsafe { <$lanes>::new() };
                $crate::Machine::align_frame(lanes);
                // SAFETY: the caller makes the promises that the generic function asks for.
                unsafe { $generic(lanes, args) };
            })*
        }

        /// The f32 operations of the tier.
        pub(super) const OPS: cera_quant::kernels::Ops = cera_quant::kernels::Ops { $($name,)* };
    };
}

/// Functions of a tier that are generic over the matrix kernel. Each has the register tiles that it names: groups of
/// rows times tokens. Those behind `unpack` work on unpacked strips with the tile behind `or`, if many tokens meet them.
/// A module with the name of a function says the rows and tokens of its widest tile, or of that behind `or`.
#[macro_export]
macro_rules! matrix_functions {
    (
        $gate:ident, $lanes:ty;
        $($name:ident: $groups:tt x $tokens:tt;)*
        $(=> $unpack:ident { $($unpacking:ident: $r:tt x $c:tt or $many_r:literal x $many_c:literal;)* })?
    ) => {
        $gate! {
            fn tile<K: $crate::matrix::Kernel<$lanes>, const R: usize, const C: usize>(
                job: &$crate::matrix::Job<'_, '_>,
            ) {
                // SAFETY: this function is called only where the machine has the features that it is compiled for.
                $crate::matrix::tile::<$lanes, K, R, C>(unsafe { <$lanes>::new() }, job);
            }

            $(fn $name<K: $crate::matrix::Kernel<$lanes>>(args: &cera_quant::args::GemmArgs<'_>) {
                let tiles = $crate::matrix_functions!(@tiles $groups $tokens);
                // SAFETY: this function is called only where the machine has the features that it is compiled for, which
                // are what the tiles need.
                unsafe { $crate::matrix::run::<$lanes, K, _, _>(<$lanes>::new(), args, &tiles, None) }
            })*

            $(
                fn $unpack<K: $crate::matrix::Unpack<$lanes>>(strips: &[u8], out: &mut [u8]) {
                    // SAFETY: as in `tile`.
                    $crate::matrix::unpack::<$lanes, K>(unsafe { <$lanes>::new() }, strips, out);
                }

                fn arrange<K: $crate::matrix::Unpack<$lanes>, const C: usize>(
                    records: &[u8],
                    tokens: (usize, usize),
                    out: &mut [u8],
                ) {
                    // SAFETY: as in `tile`.
                    $crate::matrix::arrange::<$lanes, K, C>(unsafe { <$lanes>::new() }, records, tokens, out);
                }

                $(fn $unpacking<K: $crate::matrix::Unpack<$lanes>>(args: &cera_quant::args::GemmArgs<'_>) {
                    let unpacked = $crate::matrix::Unpacked {
                        unpack: $unpack::<K>,
                        block_bytes: size_of::<<K::Unpacked as $crate::matrix::Kernel<$lanes>>::Block>(),
                        arrange: match <K::Unpacked as $crate::matrix::Wide<$lanes, K>>::ARRANGES {
                            true => Some(arrange::<K, $many_c>),
                            false => None,
                        },
                        record_bytes: size_of::<<K::Unpacked as $crate::matrix::Kernel<$lanes>>::Record>(),
                        tile: tile::<K::Unpacked, $many_r, $many_c>,
                        shape: ($many_r, $many_c),
                    };
                    let tiles = $crate::matrix_functions!(@tiles $r $c);
                    // SAFETY: as above; what unpacks needs the same.
                    unsafe { $crate::matrix::run::<$lanes, K, _, _>(<$lanes>::new(), args, &tiles, Some(unpacked)) }
                })*
            )?
        }

        $($crate::matrix_functions! {
            @shape $lanes, $name $crate::matrix_functions!(@last $groups), $crate::matrix_functions!(@count $tokens)
        })*
        $($($crate::matrix_functions! { @shape $lanes, $unpacking $many_r, $many_c })*)?
    };
    (@shape $lanes:ty, $name:ident $groups:expr, $tokens:expr) => {
        mod $name {
            use super::*;

            pub(super) const TILE: (usize, usize) = (<$lanes as $crate::matrix::vectors::Vectors>::ROWS * $groups, $tokens);
        }
    };
    (@last [$last:literal]) => {
        $last
    };
    (@last [$first:literal $($literal:literal)*]) => {
        $crate::matrix_functions!(@last [$($literal)*])
    };
    (@count [$($literal:literal)*]) => {
        [$($literal),*].len()
    };
    (@tiles [$($r:literal)*] $c:tt) => {
        $crate::matrix::Tiles {
            groups: $crate::matrix_functions!(@last [$($r)*]),
            tiles: [$($crate::matrix_functions!(@row $r $c)),*],
        }
    };
    (@row $r:literal [$($c:literal)*]) => {
        [$(tile::<K, $r, $c> as $crate::matrix::Tile),*]
    };
}

/// The matrix kernels of a tier by format, from its [`matrix_functions`]: of all formats; of those that have blocks; or of
/// these only the ones for several tokens.
#[macro_export]
macro_rules! matrix_kernels {
    () => {
        $crate::matrix_kernels! { @blocks all
            F32: gemm_of_floats gemv, $crate::matrix::floats::ByElement<$crate::matrix::floats::F32>;
            F16: gemm_of_floats gemv, $crate::matrix::floats::ByElement<$crate::matrix::floats::F16>;
            BF16: gemm_of_pairs gemv, $crate::matrix::floats::ByElement<$crate::matrix::floats::Bf16>;
        }
    };
    (blocks) => {
        $crate::matrix_kernels! { @blocks all }
    };
    (gemm of blocks) => {
        $crate::matrix_kernels! { @blocks several }
    };
    (@blocks $which:ident $($floats:tt)*) => {
        $crate::matrix_kernels! { @$which
            $($floats)*
            Q4_0: gemm32 gemv, $crate::matrix::by32::By32<$crate::matrix::by32::Q4_0>;
            Q4_1: gemm32 gemv, $crate::matrix::by32::By32<$crate::matrix::by32::Q4_1>;
            Q5_0: gemm32 gemv, $crate::matrix::by32::By32<$crate::matrix::by32::Q5_0>;
            Q5_1: gemm32 gemv, $crate::matrix::by32::By32<$crate::matrix::by32::Q5_1>;
            Q8_0: gemm32 gemv, $crate::matrix::by32::By32<$crate::matrix::by32::Q8_0>;
            IQ4_NL: gemm32 gemv, $crate::matrix::by32::By32<$crate::matrix::by32::Iq4Nl>;
            MXFP4: gemm32 gemv, $crate::matrix::by32::By32<$crate::matrix::by32::Mxfp4>;
            Q2_K: gemm256 gemv, $crate::matrix::by256::By256<$crate::matrix::by256::Q2K, 16, 8>;
            Q3_K: gemm256 gemv, $crate::matrix::by256::By256<$crate::matrix::by256::Q3K, 16, 0>;
            Q4_K: gemm256 gemv, $crate::matrix::by256::By256<$crate::matrix::by256::Q4K, 8, 4>;
            Q5_K: gemm256 gemv, $crate::matrix::by256::By256<$crate::matrix::by256::Q5K, 8, 4>;
            Q6_K: gemm256 gemv, $crate::matrix::by256::By256<$crate::matrix::by256::Q6K, 16, 0>;
            IQ4_XS: gemm256 gemv, $crate::matrix::by256::By256<$crate::matrix::by256::Iq4Xs, 8, 0>;
        }
    };
    (@all $($format:ident: $gemm:ident $gemv:ident, $kernel:ty;)*) => {
        $crate::matrix_kernels! { @several $($format: $gemm $gemv, $kernel;)* }

        /// The kernel of a format for one token.
        // So that the kernels are compiled in this crate and not in those that ask for them.
        #[inline(never)]
        pub(super) fn gemv_of(format: cera_quant::Format) -> Option<cera_quant::kernels::MatrixFn> {
            match format {
                $(cera_quant::Format::$format => Some($gemv::<$kernel>),)*
                #[allow(unreachable_patterns, reason = "a tier may have all")]
                _ => None,
            }
        }

        /// The register tiles of a format that most of the work goes to, for several tokens and for one.
        pub(super) fn shapes_of(format: cera_quant::Format) -> [(usize, usize); 2] {
            [shape_of(format), match format {
                $(cera_quant::Format::$format => $gemv::TILE,)*
                #[allow(unreachable_patterns, reason = "a tier may have all")]
                _ => (0, 0),
            }]
        }
    };
    (@several $($format:ident: $gemm:ident $gemv:ident, $kernel:ty;)*) => {
        /// The kernel of a format for several tokens.
        // So that the kernels are compiled in this crate and not in those that ask for them.
        #[inline(never)]
        pub(super) fn gemm_of(format: cera_quant::Format) -> Option<cera_quant::kernels::MatrixFn> {
            match format {
                $(cera_quant::Format::$format => Some($gemm::<$kernel>),)*
                #[allow(unreachable_patterns, reason = "a tier may have all")]
                _ => None,
            }
        }

        /// The register tile of a format that most of the work for several tokens goes to.
        pub(super) fn shape_of(format: cera_quant::Format) -> (usize, usize) {
            match format {
                $(cera_quant::Format::$format => $gemm::TILE,)*
                #[allow(unreachable_patterns, reason = "a tier may have all")]
                _ => (0, 0),
            }
        }
    };
}

/// The quantizers of a tier.
#[macro_export]
macro_rules! quantizers {
    ($gate:ident, $lanes:ty) => {
        $gate! {
            fn q8x32(rows: &[f32], k: usize, out: &mut [u8]) {
                // SAFETY: this function is called only where the machine has the features that it is compiled for.
                $crate::acts::fill::<_, $crate::matrix::records::Record32, 32>(unsafe { <$lanes>::new() }, rows, k, out);
            }

            fn q8x256(rows: &[f32], k: usize, out: &mut [u8]) {
                // SAFETY: this function is called only where the machine has the features that it is compiled for.
                $crate::acts::fill::<_, $crate::matrix::records::Record256, 256>(unsafe { <$lanes>::new() }, rows, k, out);
            }

            fn bf16(rows: &[f32], k: usize, out: &mut [u8]) {
                // SAFETY: this function is called only where the machine has the features that it is compiled for.
                $crate::acts::fill_bf16(unsafe { <$lanes>::new() }, rows, k, out);
            }

            fn f32(rows: &[f32], k: usize, out: &mut [u8]) {
                $crate::acts::fill_f32(rows, k, out);
            }
        }

        /// The quantizer to an activation format.
        // So that the kernels are compiled in this crate and not in those that ask for them.
        #[inline(never)]
        pub(super) fn quantizer_of(format: cera_quant::acts::ActFormat) -> Option<cera_quant::kernels::QuantizeFn> {
            use cera_quant::acts::ActFormat;

            Some(match format {
                ActFormat::F32 => f32,
                ActFormat::Bf16 => bf16,
                ActFormat::Q8x32 => q8x32,
                ActFormat::Q8x256 => q8x256,
            })
        }
    };
}
