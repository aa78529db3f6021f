//! The optional BLAS route: dequantized f32 products through a platform BLAS.
//!
//! Its results are outside of cera's promise of equal bits: a BLAS sums in an order of its own. The Cargo feature `blas` of
//! `cera-core` compiles it in. It has no kernels yet, so that a build with the feature runs what one without it runs.
