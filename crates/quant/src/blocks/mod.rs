//! The block layouts of the weight formats as they stand in files, exact dequantization, and quantizers.
