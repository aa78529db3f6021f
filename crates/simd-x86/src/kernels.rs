//! What a tier exports, and the macros that stamp it out.

use cera_quant::args::GemmArgs;
use cera_quant::kv::AppendArgs;
use cera_quant::ops::{AddArgs, AttentionArgs, GatedArgs, RmsNormArgs, RopeArgs};

/// A matrix kernel.
///
/// # Safety
/// - The machine has every feature of the kernel's tier.
///
/// # Panics
/// If [`GemmArgs::check`] fails or the weights have another format than the kernel's.
pub type MatrixFn = for<'a> unsafe fn(&GemmArgs<'a>);

/// A quantizer of one column tile, as [`cera_quant::acts::quantize_tile`]: rows, elements per row, records.
///
/// # Safety
/// - The machine has every feature of the kernel's tier.
///
/// # Panics
/// If the lengths do not fit.
pub type QuantizeFn = unsafe fn(&[f32], usize, &mut [u8]);

/// The f32 operations of a tier, which have the bits of [`cera_quant::scalar::ops`].
///
/// # Safety
/// Each function asks that the machine has every feature of its tier.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "each field is the function of `cera_quant::scalar::ops` with its name")]
pub struct Ops {
    pub rms_norm: for<'a> unsafe fn(&mut RmsNormArgs<'a>),
    pub add: for<'a> unsafe fn(&mut AddArgs<'a>),
    pub gated: for<'a> unsafe fn(&mut GatedArgs<'a>),
    pub rope: for<'a> unsafe fn(&mut RopeArgs<'a>),
    pub attention_f32: for<'a> unsafe fn(&mut AttentionArgs<'a, f32>),
    pub attention_f16: for<'a> unsafe fn(&mut AttentionArgs<'a, u16>),
    pub append_f32: for<'a> unsafe fn(&mut AppendArgs<'a, f32>),
    pub append_f16: for<'a> unsafe fn(&mut AppendArgs<'a, u16>),
}

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
        use cera_quant::kv::{self, AppendArgs};
        use cera_quant::ops::{self, AddArgs, AttentionArgs, GatedArgs, RmsNormArgs, RopeArgs};

        f32_ops! { @stamp $gate, $lanes;
            rms_norm(RmsNormArgs<'_>) = ops::rms_norm;
            add(AddArgs<'_>) = ops::add;
            gated(GatedArgs<'_>) = ops::gated;
            rope(RopeArgs<'_>) = ops::rope;
            attention_f32(AttentionArgs<'_, f32>) = ops::attention;
            attention_f16(AttentionArgs<'_, u16>) = ops::attention;
            append_f32(AppendArgs<'_, f32>) = kv::append;
            append_f16(AppendArgs<'_, u16>) = kv::append;
        }
    };
    (@stamp $gate:ident, $lanes:ty; $($name:ident($args:ty) = $generic:path;)*) => {
        $gate! {
            $(fn $name(args: &mut $args) {
                // SAFETY: this function is called only where the machine has the features that it is compiled for.
                $generic(unsafe { <$lanes>::new() }, args);
            })*
        }

        /// The f32 operations of the tier.
        pub(super) const OPS: crate::Ops = crate::Ops { $($name,)* };
    };
}
