//! The f32 operations.

use super::lanes::Lanes;

f32_ops!(avx2_tier, Lanes);
