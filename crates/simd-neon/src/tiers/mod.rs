//! The tiers of AArch64 and the CPU features that each needs.
//!
//! The gates `neon_tier!`, `dotprod_tier!` and `i8mm_tier!` compile the functions inside of them for the whole list of
//! their tier ([`cera_quant::gated_tiers`]).

cera_quant::gated_tiers! { $
    /// What the tier `neon` needs.
    NEON, neon_tier += ["neon"];
    /// What the tier `neon-dotprod` needs.
    NEON_DOTPROD, dotprod_tier += ["dotprod"];
    /// What the tier `neon-i8mm` needs.
    NEON_I8MM, i8mm_tier += ["i8mm"];
}

#[cfg(all(test, target_arch = "aarch64"))]
mod tests;
