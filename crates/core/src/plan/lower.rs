//! From ops to phases.

use cera_quant::acts::ActFormat;

use super::{ActsId, ActsInfo, Local, Phase, Product};
use crate::graph::{Graph, Node, Op, Rows, ValueId};

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
            Op::RmsNorm { x, weight, eps } => self.local(Local::RmsNorm { x, weight, eps, out }),
            Op::Rope { x, rope } => self.local(Local::Rope { x, rope, out }),
            Op::Gated { gate, up, activation } => self.local(Local::Gated { gate, up, activation, out }),
            Op::Pointwise { x, function } => self.local(Local::Pointwise { x, function, out }),
            Op::ShortConv { x, weight, state } => self.local(Local::ShortConv { x, weight, state, out }),
            Op::Add { a, b } => self.local(Local::Add { a, b, out }),
            Op::SelectOutputs { x } => self.local(Local::Select { x, out }),
            Op::Attention { q, k, v, ref info } => {
                self.local(Local::Append { k, v, state: info.state });
                self.out.phases.push(Phase::Attention { q, info: info.clone(), out });
            }
            Op::Linear { x, weight, bias } => {
                self.quantize(x);
                let format = ActFormat::of(self.graph.matrices()[weight.0].format);
                if let Some(acts) = self.find(x, format) {
                    self.product(Product { acts, weight, bias, out });
                }
            }
        }
    }

    fn find(&self, of: ValueId, format: ActFormat) -> Option<ActsId> {
        self.out.acts.iter().position(|info| *info == ActsInfo { of, format }).map(ActsId)
    }

    /// Before the first matrix that reads `x`: brings it to every format that some matrix wants.
    fn quantize(&mut self, x: ValueId) {
        if self.out.acts.iter().any(|info| info.of == x) {
            return;
        }
        for node in self.graph.nodes() {
            let Op::Linear { x: of, weight, .. } = node.op else { continue };
            let format = ActFormat::of(self.graph.matrices()[weight.0].format);
            if of == x && self.find(x, format).is_none() {
                let acts = ActsId(self.out.acts.len());
                self.out.acts.push(ActsInfo { of, format });
                self.local(Local::Quantize { acts });
            }
        }
    }

    fn local(&mut self, op: Local) {
        let rows = self.rows_of(&op);
        let acts = &self.out.acts;
        // These read rows of other tokens, which an earlier phase must have ended.
        let joins = self.fuse && !matches!(op, Local::Select { .. } | Local::ShortConv { .. });
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
        let of = self.out.acts[product.acts.0].of;
        match self.out.phases.last_mut() {
            Some(Phase::Products(products))
                if self.fuse && products.iter().all(|p| self.out.acts[p.acts.0].of == of) =>
            {
                products.push(product);
            }
            _ => self.out.phases.push(Phase::Products(vec![product])),
        }
    }
}
