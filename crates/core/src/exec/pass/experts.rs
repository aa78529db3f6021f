//! Choosing experts and adding up what they give, and activations in the groups that their products ask for.

use std::cell::RefCell;
use std::ops::Range;

use cera_quant::ops::{AddScaledArgs, RouteArgs, RouteScratch};

use super::Pass;
use crate::graph::{RouteId, Rows, ValueId};
use crate::plan::{ActsId, Groups};
use crate::table::Kernels;

thread_local! {
    /// Scratch of a worker for rows that do not lie one after the other.
    static GATHERED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    /// Scratch of a worker for choosing experts.
    static ROUTING: RefCell<RouteScratch> = const { RefCell::new(RouteScratch::new()) };
}

impl Pass<'_> {
    /// Brings the rows of a column tile to an activation format.
    pub(super) fn quantize(&self, acts: ActsId, rows: Range<usize>, kernels: &Kernels<'_>) {
        let (info, place) = (self.plan().acts[acts.0], self.plan().acts_places[acts.0]);
        let width = info.width(self.graph());
        let fill = |x: &[f32], rows: Range<usize>| {
            // SAFETY: a tile's rows belong to one chunk (chunks), and so do its records, which are as many bytes;
            // activations and their value do not overlap (lifetimes).
            let out = unsafe { self.memory.bytes_mut(place, rows) };
            kernels.quantize(info.format, x, width, out);
        };
        // SAFETY: in each of the blocks the rows are of this chunk (chunks) or from an earlier phase (barriers).
        let read = |rows| unsafe { self.read(info.of, rows) };
        match (info.groups, self.graph().value(info.of).rows) {
            (Groups::Experts(route), Rows::Tokens) => GATHERED.with_borrow_mut(|x| {
                let slots = self.slots(route);
                x.clear();
                for token in rows.clone().map(|slot| slots.token(slot)) {
                    x.extend_from_slice(read(token..token + 1));
                }
                fill(x, rows);
            }),
            (Groups::Heads(heads), of) => GATHERED.with_borrow_mut(|gathered| {
                let (x, all) = (read(rows.clone()), self.count(of));
                for head in 0..heads {
                    gathered.clear();
                    for row in x.chunks_exact(heads * width) {
                        gathered.extend_from_slice(&row[head * width..][..width]);
                    }
                    fill(gathered, head * all + rows.start..head * all + rows.end);
                }
            }),
            _ => fill(read(rows.clone()), rows),
        }
    }

    /// Chooses experts for the tokens of a column tile.
    pub(super) fn route(
        &self,
        (logits, out): (ValueId, ValueId),
        route: RouteId,
        rows: Range<usize>,
        kernels: &Kernels<'_>,
    ) {
        // SAFETY: a tile's rows belong to one chunk (chunks); the logits are from an earlier phase (barriers) and do not
        // overlap with the choice (lifetimes).
        let (logits, out) = unsafe { (self.read(logits, rows.clone()), self.write(out, rows)) };
        let info = &self.graph().routes[route.0];
        let (routing, bias) = (info.routing, info.bias.map(|bias| &self.graph().vectors[bias.0][..]));
        let rows = logits.chunks_exact(info.experts).zip(out.chunks_exact_mut(2 * routing.chosen));
        ROUTING.with_borrow_mut(|scratch| {
            for (logits, out) in rows {
                kernels.route(&mut RouteArgs { routing, logits, bias, out, scratch });
            }
        });
    }

    /// The sums over the experts of the tokens of a column tile.
    pub(super) fn combine(
        &self,
        (x, choice, out): (ValueId, ValueId, ValueId),
        rows: Range<usize>,
        kernels: &Kernels<'_>,
    ) {
        let info = self.graph().value(x);
        let Rows::Slots(route) = info.rows else { return };
        // SAFETY: a tile's rows belong to one chunk (chunks); the choice is from an earlier phase (barriers) and does not
        // overlap with the sums (lifetimes).
        let (choice, out) = unsafe { (self.read(choice, rows.clone()), self.write(out, rows.clone())) };
        let (slots, chosen) = (self.slots(route), choice.len() / 2 / rows.len());
        let tokens = rows.zip(choice.chunks_exact(2 * chosen)).zip(out.chunks_exact_mut(info.width));
        for ((token, choice), acc) in tokens {
            acc.fill(0.0);
            for (&slot, &factor) in slots.of_token(token, chosen).iter().zip(&choice[chosen..]) {
                // SAFETY: the rows of slots are from an earlier phase: no phase has rows of both kinds (barriers).
                let x = unsafe { self.read(x, slot..slot + 1) };
                kernels.add_scaled(&mut AddScaledArgs { acc, x, factor });
            }
        }
    }

    /// `acc + factor * x`, or the product alone, for the rows of a column tile.
    pub(super) fn add_scaled(
        &self,
        (acc, x, factor): (Option<ValueId>, ValueId, ValueId),
        out: ValueId,
        rows: Range<usize>,
        kernels: &Kernels<'_>,
    ) {
        // SAFETY: a tile's rows belong to one chunk (chunks); operands were written by this worker in this phase or in an
        // earlier one (barriers), and only `acc` may be the memory of the result (lifetimes).
        let (x, factor, out) = unsafe {
            let out = match acc {
                Some(acc) => self.replace(acc, out, rows.clone()),
                None => self.write(out, rows.clone()),
            };
            (self.read(x, rows.clone()), self.read(factor, rows), out)
        };
        if acc.is_none() {
            out.fill(0.0);
        }
        let width = out.len() / factor.len();
        for ((acc, x), &factor) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(factor) {
            kernels.add_scaled(&mut AddScaledArgs { acc, x, factor });
        }
    }
}
