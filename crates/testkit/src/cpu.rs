//! What this CPU has, asked of the standard library: the engine's probe is what tests judge.

/// Whether this CPU has all of these features of x86-64.
///
/// # Panics
/// If a name is none of a feature that a tier needs.
#[cfg(target_arch = "x86_64")]
pub fn has_all(names: &[&str]) -> bool {
    use std::arch::is_x86_feature_detected;

    names.iter().all(|name| match *name {
        "avx" => is_x86_feature_detected!("avx"),
        "avx2" => is_x86_feature_detected!("avx2"),
        "fma" => is_x86_feature_detected!("fma"),
        "f16c" => is_x86_feature_detected!("f16c"),
        "avx512f" => is_x86_feature_detected!("avx512f"),
        "avx512bw" => is_x86_feature_detected!("avx512bw"),
        "avx512dq" => is_x86_feature_detected!("avx512dq"),
        "avx512vl" => is_x86_feature_detected!("avx512vl"),
        "avx512vbmi" => is_x86_feature_detected!("avx512vbmi"),
        "avx512vnni" => is_x86_feature_detected!("avx512vnni"),
        "avx512bf16" => is_x86_feature_detected!("avx512bf16"),
        other => panic!("no test knows the feature {other}"),
    })
}

/// Whether this CPU has all of these features of AArch64.
///
/// # Panics
/// If a name is none of a feature that a tier needs.
#[cfg(target_arch = "aarch64")]
pub fn has_all(names: &[&str]) -> bool {
    use std::arch::is_aarch64_feature_detected;

    names.iter().all(|name| match *name {
        "neon" => is_aarch64_feature_detected!("neon"),
        "dotprod" => is_aarch64_feature_detected!("dotprod"),
        "i8mm" => is_aarch64_feature_detected!("i8mm"),
        other => panic!("no test knows the feature {other}"),
    })
}

/// Whether this CPU has all of these features: `false` on architectures without tiers.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn has_all(_names: &[&str]) -> bool {
    false
}
