//! Lifetimes and the sharing of memory.

use std::ops::RangeInclusive;

use super::lower::Lowered;
use super::{ActsInfo, Groups, Local, Phase, Place, Plan};
use crate::graph::{Graph, ValueId};

/// A buffer: a value or activations.
struct Buffer {
    /// Bytes of a row.
    row: usize,
    /// Rows per token.
    rows: usize,
    live: RangeInclusive<usize>,
}

impl Buffer {
    /// Bytes per token.
    fn bytes(&self) -> usize {
        self.row * self.rows
    }
}

/// Gives every value and every activation a place.
pub(super) fn place(graph: &Graph, lowered: Lowered) -> Plan {
    let Lowered { phases, acts } = lowered;
    let lifetimes = Lifetimes::of(graph, &phases, &acts);
    let owner = aliases(&phases, &acts, &lifetimes);

    let mut buffers: Vec<Buffer> = (0..graph.values.len())
        .map(|v| {
            let group = (0..owner.len()).filter(|&w| owner[w] == v);
            let (first, last) = group.fold((usize::MAX, 0), |(first, last), w| {
                (first.min(lifetimes.defined[w]), last.max(lifetimes.last_use[w]))
            });
            let rows = graph.rows_per_token(graph.values[v].rows);
            Buffer { row: graph.values[v].width * size_of::<f32>(), rows, live: first..=last }
        })
        .collect();
    let acts_buffers = acts.iter().enumerate().map(|(i, info)| {
        let row = info.width(graph).div_ceil(info.format.block_len()) * info.format.record_bytes();
        let rows = match info.groups {
            Groups::Heads(heads) => heads,
            Groups::One | Groups::Experts(_) => graph.rows_per_token(info.rows(graph)),
        };
        Buffer { row, rows, live: lifetimes.acts_defined[i]..=lifetimes.acts_last_use[i] }
    });
    buffers.extend(acts_buffers);

    let owned: Vec<usize> = (0..buffers.len()).filter(|&b| owner.get(b).is_none_or(|&o| o == b)).collect();
    let (slot_of, slots) = colour(&buffers, &owned);
    let place = |b: usize| Place { slot: slot_of[b], row: buffers[b].row, rows: buffers[b].rows };
    let values: Vec<Place> = owner.iter().map(|&o| place(o)).collect();
    let acts_places = (graph.values.len()..buffers.len()).map(place).collect();
    Plan { phases, acts, values, acts_places, slots, defined_in: lifetimes.defined }
}

/// The phases that define and last read every buffer.
struct Lifetimes {
    defined: Vec<usize>,
    last_use: Vec<usize>,
    acts_defined: Vec<usize>,
    acts_last_use: Vec<usize>,
}

impl Lifetimes {
    fn of(graph: &Graph, phases: &[Phase], acts: &[ActsInfo]) -> Lifetimes {
        let (values, acts_len) = (graph.values.len(), acts.len());
        let mut l = Lifetimes {
            defined: vec![0; values],
            last_use: vec![0; values],
            acts_defined: vec![0; acts_len],
            acts_last_use: vec![0; acts_len],
        };
        for (p, phase) in phases.iter().enumerate() {
            match phase {
                Phase::Local(ops) => {
                    for op in ops {
                        op.inputs(acts).for_each(|v| l.last_use[v.0] = p);
                        if let Some(out) = op.out() {
                            l.define(out, p);
                        }
                        if let Local::Quantize { acts } = op {
                            l.acts_defined[acts.0] = p;
                        }
                    }
                }
                Phase::Products(products) => {
                    for product in products {
                        l.acts_last_use[product.acts.0] = p;
                        l.define(product.out, p);
                    }
                }
                Phase::Fetch { route, .. } => {
                    l.last_use[graph.routes[route.0].choice.0] = p;
                }
                Phase::Attention { q, out, .. } => {
                    l.last_use[q.0] = p;
                    l.define(*out, p);
                }
                Phase::Scan { scan, out } => {
                    scan.inputs().for_each(|v| l.last_use[v.0] = p);
                    l.define(*out, p);
                }
            }
        }
        l.last_use[graph.logits.0] = phases.len();
        l
    }

    fn define(&mut self, value: ValueId, phase: usize) {
        self.defined[value.0] = phase;
        self.last_use[value.0] = phase;
    }
}

/// The value whose memory each value uses: its own, or that of an operand which its op may overwrite because nothing
/// reads it later. An operand defined in the same phase is left alone, so that it can be dumped after the phase.
fn aliases(phases: &[Phase], acts: &[ActsInfo], lifetimes: &Lifetimes) -> Vec<usize> {
    let mut owner: Vec<usize> = (0..lifetimes.defined.len()).collect();
    for (p, phase) in phases.iter().enumerate() {
        let Phase::Local(ops) = phase else { continue };
        for (i, op) in ops.iter().enumerate() {
            let read_later = |v: ValueId| {
                lifetimes.last_use[v.0] > p || ops[i + 1..].iter().any(|op| op.inputs(acts).any(|w| w == v))
            };
            // A convolution reads rows of other tokens, which other chunks of the phase may not have reached yet.
            let shared =
                |v: ValueId| ops[..i].iter().any(|op| matches!(op, Local::Conv { x, .. } if *x == v));
            let dies = |v: ValueId| lifetimes.defined[v.0] < p && !read_later(v) && !shared(v);
            // An operand that the op reads besides must stay as it is.
            let operands = match *op {
                Local::Rope { x, .. } | Local::Pointwise { x, .. } => [Some(x), None],
                Local::Gated { gate, up, .. } if gate != up => [Some(gate), None],
                Local::Add { a, b, .. } if a != b => [Some(a), Some(b)],
                Local::AddScaled { acc, x, factor, .. } if acc != Some(x) && acc != Some(factor) => {
                    [acc, None]
                }
                _ => continue,
            };
            if let (Some(operand), Some(out)) = (operands.into_iter().flatten().find(|&v| dies(v)), op.out())
            {
                owner[out.0] = owner[operand.0];
            }
        }
    }
    owner
}

/// Slots for `owned` buffers, the largest first, so that a slot is never too small: each takes the first slot whose
/// buffers it never meets. Gives the slot of every buffer and the bytes per token of every slot.
fn colour(buffers: &[Buffer], owned: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut order = owned.to_vec();
    order.sort_by_key(|&b| std::cmp::Reverse(buffers[b].bytes()));
    let mut slot_of = vec![0; buffers.len()];
    let mut slots: Vec<Vec<usize>> = Vec::new();
    let meet = |a: usize, b: usize| {
        let (a, b) = (&buffers[a].live, &buffers[b].live);
        a.start() <= b.end() && b.start() <= a.end()
    };
    for b in order {
        let free = slots.iter().position(|others| others.iter().all(|&other| !meet(b, other)));
        let slot = free.unwrap_or(slots.len());
        if slot == slots.len() {
            slots.push(Vec::new());
        }
        slots[slot].push(b);
        slot_of[b] = slot;
    }
    let sizes =
        slots.iter().map(|members| members.iter().map(|&b| buffers[b].bytes()).max().unwrap_or(0)).collect();
    (slot_of, sizes)
}
