//! One list of CPU features per tier, for detection and for code generation alike.

/// Declares a chain of tiers, each adding CPU features to the tier before it.
///
/// For every entry `LIST, gate += ["feature", ...];` this defines
/// - `pub const LIST: &[&str]`: every feature the tier needs, those of the tiers before it included, in the spelling of
///   `#[target_feature]`; a probe checks these;
/// - `macro_rules! gate`: puts `#[target_feature(enable = ...)]` for exactly that list on each function inside of it.
///
/// So a kernel cannot use a feature that detection does not check. The gates have textual scope: the module that
/// declares the chain is `#[macro_use]` and comes first. The leading `$` is how one macro writes another.
///
/// ```ignore
/// cera_quant::gated_tiers! { $
///     /// The narrow tier.
///     NARROW, narrow_tier += ["avx2", "fma"];
///     /// The wide tier.
///     WIDE, wide_tier += ["avx512f"];
/// }
///
/// wide_tier! {
///     /// A function that may use AVX2, FMA and AVX-512F.
///     pub fn sum(x: &[f32]) -> f32 { x.iter().sum() }
/// }
/// ```
#[macro_export]
macro_rules! gated_tiers {
    (@chain $d:tt [$($had:literal),*]) => {};
    (@chain $d:tt [$($had:literal),*]
        $(#[$doc:meta])* $list:ident, $gate:ident += [$($new:literal),+ $(,)?]; $($rest:tt)*
    ) => {
        $(#[$doc])*
        pub const $list: &[&str] = &[$($had,)* $($new),+];

        #[allow(unused_macros, reason = "where the tier is not compiled, only its list is used")]
        macro_rules! $gate {
            ($d($d item:item)*) => {
                $d(
                    $(#[target_feature(enable = $had)])*
                    $(#[target_feature(enable = $new)])+
                    $d item
                )*
            };
        }

        $crate::gated_tiers!(@chain $d [$($had,)* $($new),+] $($rest)*);
    };
    ($d:tt $($chain:tt)+) => {
        $crate::gated_tiers!(@chain $d [] $($chain)+);
    };
}
