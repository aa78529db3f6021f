//! The f32 operations.

use super::lanes::Lanes;

f32_ops!(avx512vnni_tier, Lanes);
