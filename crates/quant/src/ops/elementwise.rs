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

/// An operation on two values.
trait Binary: Copy {
    fn apply<S: Simd>(self, s: S, acc: S::F, x: S::F) -> S::F;
}

#[derive(Clone, Copy)]
struct Sum;

impl Binary for Sum {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, acc: S::F, x: S::F) -> S::F {
        s.add(acc, x)
    }
}

#[derive(Clone, Copy)]
struct SiluGate;

impl Binary for SiluGate {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, gate: S::F, up: S::F) -> S::F {
        s.mul(math::silu(s, gate), up)
    }
}

#[derive(Clone, Copy)]
struct GeluTanhGate;

impl Binary for GeluTanhGate {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, gate: S::F, up: S::F) -> S::F {
        s.mul(math::gelu_tanh(s, gate), up)
    }
}

#[inline(always)]
fn update<S: Simd>(s: S, acc: &mut [f32], x: &[f32], op: impl Binary) {
    assert_eq!(acc.len(), x.len(), "lengths of the operands");
    let ((acc, acc_rest), (x, x_rest)) = (acc.as_chunks_mut::<LANES>(), x.as_chunks::<LANES>());
    for (acc, x) in acc.iter_mut().zip(x) {
        s.store(op.apply(s, s.load(acc), s.load(x)), acc);
    }
    if !x_rest.is_empty() {
        s.store_part(op.apply(s, s.load_part(acc_rest), s.load_part(x_rest)), acc_rest);
    }
}

/// `acc = acc + x`
///
/// # Panics
/// If the operands differ in length.
#[inline(always)]
pub fn add<S: Simd>(s: S, args: &mut AddArgs<'_>) {
    update(s, args.acc, args.x, Sum);
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
        Activation::Silu => update(s, args.gate, args.up, SiluGate),
        Activation::GeluTanh => update(s, args.gate, args.up, GeluTanhGate),
    }
}
