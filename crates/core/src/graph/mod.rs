//! The op graph: typed ops over typed values, the number of tokens symbolic.
//!
//! A value is a matrix of f32 with one row per token of the step, or one row per token whose logits are wanted. Ops are
//! appended in order of execution by a [`GraphBuilder`], which checks every shape; values are never assigned twice.

mod builder;
mod op;

pub use builder::GraphBuilder;
pub use op::Op;

use cera_quant::Format;
use cera_quant::ops::{ConvForm, DeltaRule, RopePairs, Routing, StateSpace};

use crate::state::StateSpec;
use crate::weights::MatrixShape;

/// A value of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) usize);

/// A weight matrix of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MatrixId(pub(crate) usize);

/// A constant vector of a graph: norm weights, biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VectorId(pub(crate) usize);

/// A rotary embedding of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RopeId(pub(crate) usize);

/// A stateful layer of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateId(pub(crate) usize);

/// A choice of experts for every token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RouteId(pub(crate) usize);

/// What a row of a value stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rows {
    /// A token of the step.
    Tokens,
    /// A token whose logits are wanted.
    Outputs,
    /// A token and an expert that was chosen for it: by expert, and by token for each of them.
    Slots(RouteId),
}

/// A value: `rows` rows of `width` f32.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueInfo {
    /// The name under which it can be dumped.
    pub name: String,
    /// What its rows stand for.
    pub rows: Rows,
    /// Elements per row.
    pub width: usize,
}

/// A weight matrix that a program must be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixInfo {
    /// The tensor's name in the file.
    pub name: String,
    /// Its format.
    pub format: Format,
    /// The first row of the tensor that is the matrix's.
    pub first_row: usize,
    /// How many matrices of `m` rows it is, one after the other.
    pub stack: usize,
    /// Rows.
    pub m: usize,
    /// Elements per row.
    pub k: usize,
    /// Whether rows are looked up by id.
    pub embedding: bool,
    /// Whether it is multiplied by activations.
    pub matmul: bool,
    /// Whether it is a stack of experts, of which each token is multiplied by those chosen for it.
    pub experts: bool,
}

impl MatrixInfo {
    /// The matrix that it is.
    pub fn shape(&self) -> MatrixShape {
        MatrixShape { format: self.format, stack: self.stack, m: self.m, k: self.k }
    }
}

/// A rotary embedding: the frequencies of its pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeInfo {
    /// Radians per position of each pair.
    pub inv_freq: Vec<f32>,
    /// Other frequencies for sequences that may grow long.
    pub long: Option<LongRope>,
    /// The factor of cosines and sines.
    pub magnitude: f32,
    /// Which elements form a pair.
    pub pairs: RopePairs,
    /// Elements per head.
    pub head_dim: usize,
}

impl RopeInfo {
    /// A rotary embedding of heads of `head_dim` elements with the same frequencies for all sequences.
    pub fn new(inv_freq: Vec<f32>, pairs: RopePairs, head_dim: usize) -> RopeInfo {
        RopeInfo { inv_freq, long: None, magnitude: 1.0, pairs, head_dim }
    }
}

/// The frequencies of a rotary embedding for long sequences.
///
/// Source: Ding et al., "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens", 2024.
#[derive(Debug, Clone, PartialEq)]
pub struct LongRope {
    /// They hold for all positions of a sequence that can grow to more positions than this.
    pub beyond: usize,
    /// Radians per position of each pair.
    pub inv_freq: Vec<f32>,
}

/// Attention of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionInfo {
    /// The layer's keys and values.
    pub state: StateId,
    /// The factor of the scores.
    pub scale: f32,
    /// What scores are capped to after it, if anything.
    pub soft_cap: Option<f32>,
    /// A score of no key for each query head, if there are any.
    ///
    /// Source: Xiao et al., "Efficient Streaming Language Models with Attention Sinks", 2023.
    pub sinks: Option<VectorId>,
}

/// A convolution over the tokens of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvInfo {
    /// What stands before and after the sum over the taps.
    pub form: ConvForm,
    /// The taps, the oldest token's first: `[taps, channels]`.
    pub weight: VectorId,
    /// An addend per channel.
    pub bias: Option<VectorId>,
    /// The inputs of the last tokens.
    pub state: StateId,
}

/// The gated delta rule of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeltaInfo {
    /// Heads, norms and factors.
    pub rule: DeltaRule,
    /// The factor of the decay of each head of values, not above zero.
    pub a_scale: VectorId,
    /// What is added to what the decay of each head of values comes from.
    pub a_bias: VectorId,
    /// What the layer remembers.
    pub state: StateId,
}

/// Runs of columns at equal distances: `first + i * stride .. first + i * stride + len` for `i` below `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// The first column of the first run.
    pub first: usize,
    /// Columns of a run.
    pub len: usize,
    /// Columns from the start of a run to that of the next.
    pub stride: usize,
    /// Runs.
    pub count: usize,
}

impl Columns {
    /// No columns.
    pub const NONE: Columns = Columns { first: 0, len: 0, stride: 0, count: 0 };

    /// The column past the last, if it is a number.
    fn end(&self) -> Option<usize> {
        let last = self.stride.checked_mul(self.count.saturating_sub(1))?;
        last.checked_add(self.first)?.checked_add(self.len)
    }
}

/// A choice of experts.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteInfo {
    /// For each token the experts chosen for it in increasing order, as whole numbers, then their weights.
    pub choice: ValueId,
    /// Experts to choose from.
    pub experts: usize,
    /// How they are chosen.
    pub routing: Routing,
    /// Added to the scores for the choice alone.
    pub bias: Option<VectorId>,
}

/// The state space scan of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateSpaceInfo {
    /// The heads.
    pub shape: StateSpace,
    /// The factor of each head's decay.
    pub a: VectorId,
    /// What is added to each head's time step.
    pub dt_bias: VectorId,
    /// The factor of what skips each head's state.
    pub skip: VectorId,
    /// The layer's state.
    pub state: StateId,
}

/// An op with its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The op.
    pub op: Op,
    /// Its result.
    pub out: ValueId,
}

/// A model as ops over values.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) values: Vec<ValueInfo>,
    pub(crate) matrices: Vec<MatrixInfo>,
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) ropes: Vec<RopeInfo>,
    pub(crate) routes: Vec<RouteInfo>,
    pub(crate) state: StateSpec,
    pub(crate) logits: ValueId,
}

impl Graph {
    /// The ops, in order of execution.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A value's name and shape.
    pub fn value(&self, id: ValueId) -> &ValueInfo {
        &self.values[id.0]
    }

    /// The value with this name.
    pub fn find(&self, name: &str) -> Option<ValueId> {
        self.values.iter().position(|v| v.name == name).map(ValueId)
    }

    /// The weight matrices, in the order in which a program is given them.
    pub fn matrices(&self) -> &[MatrixInfo] {
        &self.matrices
    }

    /// What the graph remembers of a sequence.
    pub fn state(&self) -> &StateSpec {
        &self.state
    }

    /// Products that the matrix products add up for `tokens` tokens, of which the logits of `outputs` are wanted.
    /// Attention is not counted.
    pub fn product_macs(&self, tokens: usize, outputs: usize) -> u64 {
        let macs = |node: &Node| {
            let Some(weight) = node.op.weight() else { return 0 };
            let MatrixInfo { stack, m, k, .. } = self.matrices[weight.0];
            let times = if matches!(node.op, Op::HeadLinear { .. }) { stack } else { 1 };
            let rows = match self.value(node.out).rows {
                Rows::Tokens => tokens,
                Rows::Outputs => outputs,
                Rows::Slots(route) => tokens * self.routes[route.0].routing.chosen,
            };
            m as u64 * k as u64 * rows as u64 * times as u64
        };
        self.nodes.iter().map(macs).sum()
    }

    /// Bytes of weights, as they stand in the file, that are read to multiply one token: of experts those that are chosen.
    pub fn active_bytes(&self) -> usize {
        let mut of_matrices = vec![0; self.matrices.len()];
        for node in &self.nodes {
            let Some(weight) = node.op.weight() else { continue };
            let MatrixInfo { stack, m, k, format, .. } = self.matrices[weight.0];
            let members = match node.op {
                Op::ExpertLinear { route, .. } => self.routes[route.0].routing.chosen,
                _ => stack,
            };
            of_matrices[weight.0] = members * m * format.row_bytes(k).unwrap_or(0);
        }
        of_matrices.iter().sum()
    }

    /// Rows of a kind for each token that has any.
    pub(crate) fn rows_per_token(&self, rows: Rows) -> usize {
        match rows {
            Rows::Tokens | Rows::Outputs => 1,
            Rows::Slots(route) => self.routes[route.0].routing.chosen,
        }
    }

    /// Elements of a row of logits.
    pub fn vocabulary(&self) -> usize {
        self.value(self.logits).width
    }
}
