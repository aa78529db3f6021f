//! Ops and their operands.

use cera_quant::ops::{Activation, Pointwise};

use super::{
    AttentionInfo, Columns, ConvInfo, DeltaInfo, MatrixId, RopeId, RouteId, StateSpaceInfo, ValueId, VectorId,
};

/// An op and its operands.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Rows of a matrix by token id.
    Embed {
        /// The embedding.
        table: MatrixId,
    },
    /// RMS normalisation of each row, or of each head of it.
    RmsNorm {
        /// Rows.
        x: ValueId,
        /// One weight per element of what is normalised.
        weight: VectorId,
        /// Added to the mean of the squares.
        eps: f32,
    },
    /// Layer normalisation of each row.
    LayerNorm {
        /// Rows.
        x: ValueId,
        /// One weight per element of a row.
        weight: VectorId,
        /// One addend per element of a row.
        bias: VectorId,
        /// Added to the variance.
        eps: f32,
    },
    /// `x . w^T + bias`.
    Linear {
        /// Activations.
        x: ValueId,
        /// Weights.
        weight: MatrixId,
        /// One addend per row of the weights.
        bias: Option<VectorId>,
    },
    /// `x . w^T + bias` with the matrix of a stack that each row's expert is.
    ExpertLinear {
        /// Activations: one row per slot, or per token for all experts chosen for it.
        x: ValueId,
        /// Weights, one matrix per expert.
        weight: MatrixId,
        /// One addend per row of the weights of every expert.
        bias: Option<VectorId>,
        /// The choice of experts.
        route: RouteId,
    },
    /// `x . w^T` of every head with the matrix of a stack that is its own.
    HeadLinear {
        /// Activations of all heads.
        x: ValueId,
        /// Weights, one matrix per head.
        weight: MatrixId,
    },
    /// Chooses experts for every token: [`cera_quant::ops::route`].
    Route {
        /// One number per expert.
        logits: ValueId,
        /// The choice.
        route: RouteId,
    },
    /// For each token the sum of what its experts gave, times their weights.
    Combine {
        /// One row per slot.
        x: ValueId,
        /// The choice of experts.
        route: RouteId,
    },
    /// `acc + factor * x`, or the product alone, with one factor for each row.
    AddScaled {
        /// An addend; zero without one.
        acc: Option<ValueId>,
        /// The other one.
        x: ValueId,
        /// Its factors.
        factor: ValueId,
    },
    /// Rotary position embedding of every head.
    Rope {
        /// Heads.
        x: ValueId,
        /// Frequencies.
        rope: RopeId,
    },
    /// Appends keys and values to the state and attends to it.
    Attention {
        /// Queries of all heads.
        q: ValueId,
        /// Keys of all KV heads.
        k: ValueId,
        /// Values of all KV heads.
        v: ValueId,
        /// The layer.
        info: AttentionInfo,
    },
    /// The convolution over tokens: [`cera_quant::ops::conv`].
    Conv {
        /// Its rows.
        x: ValueId,
        /// The convolution.
        info: ConvInfo,
    },
    /// The gated delta rule: [`cera_quant::ops::delta_rule`].
    DeltaRule {
        /// For each token the queries of all heads, their keys, then the values.
        qkv: ValueId,
        /// For each head of values what the decay comes from.
        a: ValueId,
        /// For each head of values what the strength of the correction comes from.
        b: ValueId,
        /// The rule.
        info: DeltaInfo,
    },
    /// Some columns of every row, side by side.
    Columns {
        /// Rows.
        x: ValueId,
        /// Which columns, in the order in which they are put.
        columns: [Columns; 3],
    },
    /// `activation(gate) * up`.
    Gated {
        /// The gate.
        gate: ValueId,
        /// The factor.
        up: ValueId,
        /// The activation.
        activation: Activation,
    },
    /// A function of every element.
    Pointwise {
        /// Its argument.
        x: ValueId,
        /// The function.
        function: Pointwise,
    },
    /// The selective state space scan: [`cera_quant::ops::state_space`].
    StateSpace {
        /// All heads, then what all groups write and read with.
        x: ValueId,
        /// The time steps of all heads.
        dt: ValueId,
        /// The layer.
        info: StateSpaceInfo,
    },
    /// For each head its elements of `a`, then those of `b`.
    JoinHeads {
        /// The first elements of all heads.
        a: ValueId,
        /// The others.
        b: ValueId,
        /// Heads.
        heads: usize,
    },
    /// `a + b`.
    Add {
        /// An addend.
        a: ValueId,
        /// An addend.
        b: ValueId,
    },
    /// The rows of `x` whose logits are wanted.
    SelectOutputs {
        /// One row per token.
        x: ValueId,
    },
}

impl Op {
    /// The weights that the op multiplies by.
    pub(super) fn weight(&self) -> Option<MatrixId> {
        match *self {
            Op::Linear { weight, .. } | Op::ExpertLinear { weight, .. } | Op::HeadLinear { weight, .. } => {
                Some(weight)
            }
            _ => None,
        }
    }

    /// The values that the op reads.
    pub fn inputs(&self) -> impl Iterator<Item = ValueId> {
        let inputs = match *self {
            Op::Embed { .. } => [None; 3],
            Op::RmsNorm { x, .. }
            | Op::LayerNorm { x, .. }
            | Op::Linear { x, .. }
            | Op::Rope { x, .. }
            | Op::Pointwise { x, .. }
            | Op::ExpertLinear { x, .. }
            | Op::HeadLinear { x, .. }
            | Op::Combine { x, .. }
            | Op::Conv { x, .. }
            | Op::Columns { x, .. }
            | Op::SelectOutputs { x } => [Some(x), None, None],
            Op::Route { logits, .. } => [Some(logits), None, None],
            Op::Attention { q, k, v, .. } => [Some(q), Some(k), Some(v)],
            Op::DeltaRule { qkv, a, b, .. } => [Some(qkv), Some(a), Some(b)],
            Op::AddScaled { acc, x, factor } => [acc, Some(x), Some(factor)],
            Op::Gated { gate, up, .. } => [Some(gate), Some(up), None],
            Op::StateSpace { x, dt, .. } => [Some(x), Some(dt), None],
            Op::Add { a, b } | Op::JoinHeads { a, b, .. } => [Some(a), Some(b), None],
        };
        inputs.into_iter().flatten()
    }
}
