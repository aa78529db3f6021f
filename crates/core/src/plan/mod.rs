//! The planner: lowers a graph to a flat list of phases and gives every buffer its place.
//!
//! Ops that touch only the rows of one token are *local*; neighbouring local ops become one phase, so that a column
//! tile passes through all of them while it is in cache. Matrices that read the same value become one phase as well.
//! Buffers whose lifetimes, counted in phases, do not meet share memory.

mod lower;
mod memory;

use cera_quant::acts::ActFormat;
use cera_quant::ops::{Activation, Pointwise};

use crate::graph::{
    AttentionInfo, Columns, ConvInfo, DeltaInfo, Graph, MatrixId, RopeId, RouteId, Rows, StateId,
    StateSpaceInfo, ValueId, VectorId,
};

/// Activations of a value in an activation format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ActsId(pub(crate) usize);

/// Which activations an [`ActsId`] stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ActsInfo {
    pub(crate) of: ValueId,
    pub(crate) format: ActFormat,
    pub(crate) groups: Groups,
}

/// Which rows of activations are multiplied by the same matrix. Those of a group lie one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Groups {
    /// All rows of the value are one group.
    One,
    /// One group for each expert that was chosen: the slots of the expert.
    Experts(RouteId),
    /// So many groups: an equal part of every row of the value for each.
    Heads(usize),
}

impl ActsInfo {
    /// What the rows stand for; but of those of heads there are as many for every head.
    pub(crate) fn rows(&self, graph: &Graph) -> Rows {
        match self.groups {
            Groups::Experts(route) => Rows::Slots(route),
            Groups::One | Groups::Heads(_) => graph.value(self.of).rows,
        }
    }

    /// Elements of a row.
    pub(crate) fn width(&self, graph: &Graph) -> usize {
        let width = graph.value(self.of).width;
        match self.groups {
            Groups::Heads(heads) => width / heads,
            Groups::One | Groups::Experts(_) => width,
        }
    }
}

/// An op on the rows of one token at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Local {
    Embed { table: MatrixId, out: ValueId },
    RmsNorm { x: ValueId, weight: VectorId, eps: f32, out: ValueId },
    LayerNorm { x: ValueId, weight: VectorId, bias: VectorId, eps: f32, out: ValueId },
    Quantize { acts: ActsId },
    Rope { x: ValueId, rope: RopeId, out: ValueId },
    Append { k: ValueId, v: ValueId, state: StateId },
    Conv { x: ValueId, info: ConvInfo, out: ValueId },
    Columns { x: ValueId, columns: [Columns; 3], out: ValueId },
    Gated { gate: ValueId, up: ValueId, activation: Activation, out: ValueId },
    Pointwise { x: ValueId, function: Pointwise, out: ValueId },
    Add { a: ValueId, b: ValueId, out: ValueId },
    JoinHeads { a: ValueId, b: ValueId, heads: usize, out: ValueId },
    AddScaled { acc: Option<ValueId>, x: ValueId, factor: ValueId, out: ValueId },
    Route { logits: ValueId, route: RouteId, out: ValueId },
    Combine { x: ValueId, choice: ValueId, out: ValueId },
    Select { x: ValueId, out: ValueId },
}

/// A matrix, or those of a stack that groups ask for, times activations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Product {
    pub(crate) acts: ActsId,
    pub(crate) weight: MatrixId,
    pub(crate) bias: Option<VectorId>,
    pub(crate) out: ValueId,
}

/// Work between two barriers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Phase {
    /// Local ops, one after the other for each column tile.
    Local(Vec<Local>),
    /// Products that depend on none of each other.
    Products(Vec<Product>),
    /// Brings the chosen experts of some stacks to memory, where not all are there.
    Fetch { route: RouteId, matrices: Vec<MatrixId> },
    /// Attention of one layer.
    Attention { q: ValueId, info: AttentionInfo, out: ValueId },
    /// A recurrence of one layer.
    Scan { scan: Scan, out: ValueId },
}

/// An op that takes the tokens of a sequence one after the other, each head by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scan {
    DeltaRule { qkv: ValueId, a: ValueId, b: ValueId, info: DeltaInfo },
    StateSpace { x: ValueId, dt: ValueId, info: StateSpaceInfo },
}

impl Scan {
    /// The values that the op reads.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = ValueId> {
        let inputs = match *self {
            Scan::DeltaRule { qkv, a, b, .. } => [Some(qkv), Some(a), Some(b)],
            Scan::StateSpace { x, dt, .. } => [Some(x), Some(dt), None],
        };
        inputs.into_iter().flatten()
    }
}

/// Where a buffer lies: row after row at the start of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The slot.
    pub(crate) slot: usize,
    /// Bytes per row.
    pub(crate) row: usize,
    /// Rows per token.
    pub(crate) rows: usize,
}

/// A lowered graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) phases: Vec<Phase>,
    pub(crate) acts: Vec<ActsInfo>,
    /// The place of every value.
    pub(crate) values: Vec<Place>,
    /// The place of every activation.
    pub(crate) acts_places: Vec<Place>,
    /// Bytes per token of every slot.
    pub(crate) slots: Vec<usize>,
    /// The phase that defines each value.
    pub(crate) defined_in: Vec<usize>,
}

impl Plan {
    /// Plans `graph`; without `fuse` every op is a phase of its own.
    pub(crate) fn new(graph: &Graph, fuse: bool) -> Plan {
        let lowered = lower::lower(graph, fuse);
        memory::place(graph, lowered)
    }

    /// Bytes of all slots for one token.
    pub(crate) fn bytes_per_token(&self) -> usize {
        self.slots.iter().sum()
    }
}

impl Local {
    /// The value that the op defines.
    pub(crate) fn out(&self) -> Option<ValueId> {
        match *self {
            Local::Embed { out, .. }
            | Local::RmsNorm { out, .. }
            | Local::LayerNorm { out, .. }
            | Local::Rope { out, .. }
            | Local::Gated { out, .. }
            | Local::Pointwise { out, .. }
            | Local::Conv { out, .. }
            | Local::Columns { out, .. }
            | Local::Add { out, .. }
            | Local::JoinHeads { out, .. }
            | Local::AddScaled { out, .. }
            | Local::Route { out, .. }
            | Local::Combine { out, .. }
            | Local::Select { out, .. } => Some(out),
            Local::Quantize { .. } | Local::Append { .. } => None,
        }
    }

    /// The values that the op reads.
    pub(crate) fn inputs(&self, acts: &[ActsInfo]) -> impl Iterator<Item = ValueId> {
        let inputs = match *self {
            Local::Embed { .. } => [None; 3],
            Local::RmsNorm { x, .. }
            | Local::LayerNorm { x, .. }
            | Local::Rope { x, .. }
            | Local::Pointwise { x, .. }
            | Local::Conv { x, .. }
            | Local::Columns { x, .. }
            | Local::Route { logits: x, .. }
            | Local::Select { x, .. } => [Some(x), None, None],
            Local::Quantize { acts: id } => [Some(acts[id.0].of), None, None],
            Local::Append { k, v, .. } => [Some(k), Some(v), None],
            Local::Gated { gate, up, .. } => [Some(gate), Some(up), None],
            Local::Add { a, b, .. } | Local::JoinHeads { a, b, .. } => [Some(a), Some(b), None],
            Local::AddScaled { acc, x, factor, .. } => [acc, Some(x), Some(factor)],
            Local::Combine { x, choice, .. } => [Some(x), Some(choice), None],
        };
        inputs.into_iter().flatten()
    }
}

impl Phase {
    /// A word for what the phase does.
    pub(crate) fn work(&self) -> &'static str {
        match self {
            Phase::Local(_) => "local",
            Phase::Products(_) => "products",
            Phase::Fetch { .. } => "fetch",
            Phase::Attention { .. } => "attention",
            Phase::Scan { .. } => "recurrence",
        }
    }

    /// What the rows of the phase stand for.
    pub(crate) fn rows(&self, graph: &Graph, acts: &[ActsInfo]) -> Rows {
        let of = |value: ValueId| graph.value(value).rows;
        match self {
            Phase::Local(ops) => match ops.first() {
                Some(Local::Quantize { acts: id }) => acts[id.0].rows(graph),
                Some(op) => op.out().or_else(|| op.inputs(acts).next()).map_or(Rows::Tokens, of),
                None => Rows::Tokens,
            },
            Phase::Products(products) => products.first().map_or(Rows::Tokens, |p| of(p.out)),
            Phase::Fetch { route, .. } => Rows::Slots(*route),
            Phase::Attention { out, .. } | Phase::Scan { out, .. } => of(*out),
        }
    }
}

#[cfg(test)]
mod tests;
