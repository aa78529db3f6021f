//! The optional BLAS route: dequantized f32 products through a platform BLAS. Its bits are outside cera's promise of equal bits.
