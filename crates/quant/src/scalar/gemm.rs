//! Scalar matrix kernels over packed weights, for every weight format.
