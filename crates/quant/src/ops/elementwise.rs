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

/// Arguments of [`add_scaled`].
#[derive(Debug)]
pub struct AddScaledArgs<'a> {
    /// The sum, in place.
    pub acc: &'a mut [f32],
    /// The addend.
    pub x: &'a [f32],
    /// Its factor.
    pub factor: f32,
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

/// Arguments of [`pointwise`].
#[derive(Debug)]
pub struct PointwiseArgs<'a> {
    /// The function.
    pub function: Pointwise,
    /// Its argument, and the result in its place.
    pub x: &'a mut [f32],
}

/// A function of one element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pointwise {
    /// `factor * x`
    Scale(f32),
    /// `cap * tanh(x / cap)`: [`math::soft_cap`].
    SoftCap(f32),
    /// `1 / (1 + exp(-x))`: [`math::sigmoid`].
    Sigmoid,
    /// The GELU: [`math::gelu_erf`].
    Gelu,
}

/// The activation of a gated feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x * sigmoid(x)`
    Silu,
    /// The GELU in its tanh form.
    GeluTanh,
    /// `g * sigmoid(1.702 g)` with `g = min(x, 7)`, and one more than the factor, which is clamped to -7..=7 before.
    ///
    /// Source: OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025.
    ClampedSilu,
    /// `sigmoid(x)`
    Sigmoid,
}

/// An operation on one value.
trait Unary: Copy {
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F;
}

#[derive(Clone, Copy)]
struct Scaled(f32);

impl Unary for Scaled {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        s.mul(x, s.splat(self.0))
    }
}

#[derive(Clone, Copy)]
struct Capped(f32);

impl Unary for Capped {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        math::soft_cap(s, x, self.0)
    }
}

#[derive(Clone, Copy)]
struct Sigmoid;

impl Unary for Sigmoid {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        math::sigmoid(s, x)
    }
}

#[derive(Clone, Copy)]
struct Gelu;

impl Unary for Gelu {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        math::gelu_erf(s, x)
    }
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
struct ScaledSum(f32);

impl Binary for ScaledSum {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, acc: S::F, x: S::F) -> S::F {
        s.fma(s.splat(self.0), x, acc)
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
struct SigmoidGate;

impl Binary for SigmoidGate {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, gate: S::F, up: S::F) -> S::F {
        s.mul(math::sigmoid(s, gate), up)
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

#[derive(Clone, Copy)]
struct ClampedSiluGate;

impl ClampedSiluGate {
    const ALPHA: f32 = 1.702;
    const LIMIT: f32 = 7.0;
}

impl Binary for ClampedSiluGate {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, gate: S::F, up: S::F) -> S::F {
        let limit = s.splat(Self::LIMIT);
        let below = |x: S::F| s.select(s.lt(limit, x), limit, x);
        let (gate, up) = (below(gate), s.max(below(up), s.neg(limit)));
        let weight = math::sigmoid(s, s.mul(gate, s.splat(Self::ALPHA)));
        s.mul(s.mul(gate, weight), s.add(up, s.splat(1.0)))
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

/// `x = function(x)`
#[inline(always)]
pub fn pointwise<S: Simd>(s: S, args: &mut PointwiseArgs<'_>) {
    match args.function {
        Pointwise::Scale(factor) => replace(s, args.x, Scaled(factor)),
        Pointwise::SoftCap(cap) => replace(s, args.x, Capped(cap)),
        Pointwise::Sigmoid => replace(s, args.x, Sigmoid),
        Pointwise::Gelu => replace(s, args.x, Gelu),
    }
}

#[inline(always)]
fn replace<S: Simd>(s: S, x: &mut [f32], op: impl Unary) {
    let (x, rest) = x.as_chunks_mut::<LANES>();
    for x in x {
        s.store(op.apply(s, s.load(x)), x);
    }
    if !rest.is_empty() {
        s.store_part(op.apply(s, s.load_part(rest)), rest);
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

/// `acc = fma(factor, x, acc)`
///
/// # Panics
/// If the operands differ in length.
#[inline(always)]
pub fn add_scaled<S: Simd>(s: S, args: &mut AddScaledArgs<'_>) {
    update(s, args.acc, args.x, ScaledSum(args.factor));
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
        Activation::ClampedSilu => update(s, args.gate, args.up, ClampedSiluGate),
        Activation::Sigmoid => update(s, args.gate, args.up, SigmoidGate),
    }
}
