//! From ops to phases.

use cera_quant::acts::ActFormat;

use super::{ActsId, ActsInfo, Groups, Local, Phase, Product, Scan};
use crate::graph::{Graph, MatrixId, Node, Op, RouteId, Rows, ValueId, VectorId};

/// Phases, and the activations that they share.
pub(super) struct Lowered {
    pub(super) phases: Vec<Phase>,
    pub(super) acts: Vec<ActsInfo>,
}

pub(super) fn lower(graph: &Graph, fuse: bool) -> Lowered {
    let mut lowering = Lowering { graph, fuse, out: Lowered { phases: Vec::new(), acts: Vec::new() } };
    for node in graph.nodes() {
        lowering.node(node);
    }
    lowering.out
}

struct Lowering<'a> {
    graph: &'a Graph,
    fuse: bool,
    out: Lowered,
}

impl Lowering<'_> {
    fn node(&mut self, node: &Node) {
        let out = node.out;
        match node.op {
            Op::Embed { table } => self.local(Local::Embed { table, out }),
            Op::LayerNorm { x, weight, bias, eps } => {
                self.local(Local::LayerNorm { x, weight, bias, eps, out });
            }
            Op::RmsNorm { x, weight, eps } => self.local(Local::RmsNorm { x, weight, eps, out }),
            Op::Rope { x, rope } => self.local(Local::Rope { x, rope, out }),
            Op::Gated { gate, up, activation } => self.local(Local::Gated { gate, up, activation, out }),
            Op::Pointwise { x, function } => self.local(Local::Pointwise { x, function, out }),
            Op::Conv { x, info } => self.local(Local::Conv { x, info, out }),
            Op::Columns { x, columns } => self.local(Local::Columns { x, columns, out }),
            Op::JoinHeads { a, b, heads } => self.local(Local::JoinHeads { a, b, heads, out }),
            Op::Add { a, b } => self.local(Local::Add { a, b, out }),
            Op::SelectOutputs { x } => self.local(Local::Select { x, out }),
            Op::Attention { q, k, v, ref info } => {
                self.local(Local::Append { k, v, state: info.state });
                self.out.phases.push(Phase::Attention { q, info: info.clone(), out });
            }
            Op::StateSpace { x, dt, info } => {
                self.out.phases.push(Phase::Scan { scan: Scan::StateSpace { x, dt, info }, out });
            }
            Op::DeltaRule { qkv, a, b, info } => {
                self.out.phases.push(Phase::Scan { scan: Scan::DeltaRule { qkv, a, b, info }, out });
            }
            Op::AddScaled { acc, x, factor } => self.local(Local::AddScaled { acc, x, factor, out }),
            Op::Route { logits, route } => self.local(Local::Route { logits, route, out }),
            Op::Combine { x, route } => {
                let choice = self.graph.routes[route.0].choice;
                self.local(Local::Combine { x, choice, out });
            }
            Op::Linear { weight, bias, .. } | Op::ExpertLinear { weight, bias, .. } => {
                self.matrix(&node.op, (weight, bias), out);
            }
            Op::HeadLinear { weight, .. } => self.matrix(&node.op, (weight, None), out),
        }
    }

    /// What a matrix reads, if the op is a product.
    fn read(&self, op: &Op) -> Option<ActsInfo> {
        let (of, weight, groups) = match *op {
            Op::Linear { x, weight, .. } => (x, weight, Groups::One),
            Op::ExpertLinear { x, weight, route, .. } => (x, weight, Groups::Experts(route)),
            Op::HeadLinear { x, weight } => (x, weight, Groups::Heads(self.graph.matrices()[weight.0].stack)),
            _ => return None,
        };
        Some(ActsInfo { of, format: ActFormat::of(self.graph.matrices()[weight.0].format), groups })
    }

    fn find(&self, wanted: &ActsInfo) -> Option<ActsId> {
        self.out.acts.iter().position(|info| info == wanted).map(ActsId)
    }

    fn matrix(&mut self, op: &Op, (weight, bias): (MatrixId, Option<VectorId>), out: ValueId) {
        let Some(read) = self.read(op) else { return };
        if let Groups::Experts(route) = read.groups {
            self.fetch(route);
        }
        self.quantize(&read);
        if let Some(acts) = self.find(&read) {
            self.product(Product { acts, weight, bias, out });
        }
    }

    /// Before the first products of a choice of experts: brings all their matrices to memory.
    fn fetch(&mut self, route: RouteId) {
        let fetches = |phase: &Phase| matches!(phase, Phase::Fetch { route: of, .. } if *of == route);
        if self.out.phases.iter().rev().any(fetches) {
            return;
        }
        let matrices = self.graph.nodes().iter().filter_map(|node| match node.op {
            Op::ExpertLinear { weight, route: of, .. } if of == route => Some(weight),
            _ => None,
        });
        self.out.phases.push(Phase::Fetch { route, matrices: matrices.collect() });
    }

    /// Before the first matrix that reads a value in some groups: brings it to every format that some matrix wants.
    fn quantize(&mut self, read: &ActsInfo) {
        let alike = |info: &ActsInfo| info.of == read.of && info.groups == read.groups;
        if self.out.acts.iter().any(alike) {
            return;
        }
        for node in self.graph.nodes() {
            let Some(info) = self.read(&node.op).filter(alike) else { continue };
            if self.find(&info).is_none() {
                let acts = ActsId(self.out.acts.len());
                self.out.acts.push(info);
                self.local(Local::Quantize { acts });
            }
        }
    }

    fn local(&mut self, op: Local) {
        let rows = self.rows_of(&op);
        let acts = &self.out.acts;
        // These read rows of other tokens, which an earlier phase must have ended.
        let joins = self.fuse && !matches!(op, Local::Select { .. } | Local::Conv { .. });
        match self.out.phases.last_mut() {
            Some(phase @ Phase::Local(_)) if joins && phase.rows(self.graph, acts) == rows => {
                if let Phase::Local(ops) = phase {
                    ops.push(op);
                }
            }
            _ => self.out.phases.push(Phase::Local(vec![op])),
        }
    }

    fn rows_of(&self, op: &Local) -> Rows {
        Phase::Local(vec![*op]).rows(self.graph, &self.out.acts)
    }

    fn product(&mut self, product: Product) {
        let read = |p: &Product| {
            let ActsInfo { of, groups, .. } = self.out.acts[p.acts.0];
            (of, groups)
        };
        let same = read(&product);
        match self.out.phases.last_mut() {
            Some(Phase::Products(products)) if self.fuse && products.iter().all(|p| read(p) == same) => {
                products.push(product);
            }
            _ => self.out.phases.push(Phase::Products(vec![product])),
        }
    }
}
