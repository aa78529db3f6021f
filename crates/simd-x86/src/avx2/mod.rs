//! The kernels of the tier `avx2`.

pub(crate) mod lanes;
mod ops;

use crate::Ops;

/// The f32 operations.
pub const OPS: Ops = ops::OPS;
