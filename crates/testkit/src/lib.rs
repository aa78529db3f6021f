//! Test support: a GGUF writer that can lie, fixture readers and generators, and plain loops to compare kernels with.

pub mod alloc;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub mod clock;
pub mod cpu;
pub mod emulation;
pub mod fixtures;
pub mod float_mode;
pub mod gemm;
pub mod gguf;
pub mod hostile;
pub mod measure;
pub mod oracle;
pub mod parity;
pub mod rng;
pub mod toy;
pub mod weights;
