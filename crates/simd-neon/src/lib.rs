//! AArch64 kernels: one module per tier, one file per kernel family. Compiles to nothing on other targets.
