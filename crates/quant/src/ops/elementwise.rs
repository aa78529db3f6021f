//! Element-wise operations, in place on their first operand.

use crate::num::{LANES, Simd, math};

/// Arguments of [`add`].
#[derive(Debug)]
pub struct AddArgs<'a> {
    /// The sum, in place.
    pub acc: &'a mut [f32],
    /// The addend.
    pub x: &'a [f32],
}

/// Arguments of [`gated`].
#[derive(Debug)]
pub struct GatedArgs<'a> {
    /// The activation of the gate.
    pub activation: Activation,
    /// The gate, and the result in its place.
    pub gate: &'a mut [f32],
    /// The factor.
    pub up: &'a [f32],
}

/// The activation of a gated feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x * sigmoid(x)`
    Silu,
    /// The GELU in its tanh form.
    GeluTanh,
}

#[inline(always)]
fn update<S: Simd>(s: S, acc: &mut [f32], x: &[f32], f: impl Fn(S::F, S::F) -> S::F) {
    assert_eq!(acc.len(), x.len(), "lengths of the operands");
    let ((acc, acc_rest), (x, x_rest)) = (acc.as_chunks_mut::<LANES>(), x.as_chunks::<LANES>());
    for (acc, x) in acc.iter_mut().zip(x) {
        s.store(f(s.load(acc), s.load(x)), acc);
    }
    if !x_rest.is_empty() {
        s.store_part(f(s.load_part(acc_rest), s.load_part(x_rest)), acc_rest);
    }
}

/// `acc = acc + x`
///
/// # Panics
/// If the operands differ in length.
#[inline(always)]
pub fn add<S: Simd>(s: S, args: &mut AddArgs<'_>) {
    update(s, args.acc, args.x, |a, x| s.add(a, x));
}

/// `gate = activation(gate) * up`
///
/// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
///
/// # Panics
/// If the operands differ in length.
#[inline(always)]
pub fn gated<S: Simd>(s: S, args: &mut GatedArgs<'_>) {
    match args.activation {
        Activation::Silu => update(s, args.gate, args.up, |g, u| s.mul(math::silu(s, g), u)),
        Activation::GeluTanh => update(s, args.gate, args.up, |g, u| s.mul(math::gelu_tanh(s, g), u)),
    }
}
