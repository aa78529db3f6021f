//! The tiers of x86-64 and the CPU features that each needs.
//!
//! The gates `avx2_tier!`, `avx512vnni_tier!` and `avx512bf16_tier!` compile the functions inside of them for the whole
//! list of their tier ([`cera_quant::gated_tiers`]).

cera_quant::gated_tiers! { $
    /// What the tier `avx2` needs.
    AVX2, avx2_tier += ["avx", "avx2", "fma", "f16c"];
    /// What the tier `avx512vnni` needs.
    AVX512VNNI, avx512vnni_tier += ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512vnni"];
    /// What the tier `avx512bf16` needs.
    AVX512BF16, avx512bf16_tier += ["avx512bf16"];
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
