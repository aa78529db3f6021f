//! The f32 operations.

use super::lanes::Lanes;

cera_simd::f32_ops!(neon_tier, Lanes);
