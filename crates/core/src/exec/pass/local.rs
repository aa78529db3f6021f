//! Local ops: each on the rows of one column tile.

use std::cell::RefCell;
use std::ops::Range;

use cera_quant::kv::{AppendArgs, KvType, Q8Unit};
use cera_quant::ops::{
    AddArgs, AddScaledArgs, ConvArgs, GatedArgs, PointwiseArgs, RmsNormArgs, RopeArgs, RouteArgs,
    RouteScratch,
};

use super::{Pass, SCRATCH, expect};
use crate::graph::{Columns, ConvInfo, RouteId, Rows, StateId, ValueId, VectorId};
use crate::plan::{ActsId, Groups, Local};
use crate::table::{Kernels, KvKernels};
use crate::weights::Matrix;

thread_local! {
    /// Scratch of a worker for rows that do not lie one after the other.
    static GATHERED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    /// Scratch of a worker for choosing experts.
    static ROUTING: RefCell<RouteScratch> = const { RefCell::new(RouteScratch::new()) };
}

impl<'a> Pass<'a> {
    /// `out`, holding a copy of `x` unless it has taken over the memory of `x`.
    ///
    /// # Safety
    /// Nobody else uses these rows of `out`, nobody writes these rows of `x`.
    unsafe fn replace(&self, x: ValueId, out: ValueId, rows: Range<usize>) -> &'a mut [f32] {
        if self.plan().values[x.0] == self.plan().values[out.0] {
            // SAFETY: the caller's promise; `x` and `out` are the same memory and only `out` is borrowed.
            return unsafe { self.write(out, rows) };
        }
        // SAFETY: the caller's promise; the two do not overlap (lifetimes).
        unsafe {
            let acc = self.write(out, rows.clone());
            acc.copy_from_slice(self.read(x, rows));
            acc
        }
    }

    /// Runs a local op on the tokens of one column tile.
    pub(super) fn local(&self, op: &Local, rows: Range<usize>, kernels: &Kernels<'_>) {
        let graph = self.graph();
        // SAFETY of every block below: a tile's rows belong to one chunk (chunks); operands and results of the op do not
        // overlap except where `replace` says so (lifetimes); operands were written by this worker in this phase or in an
        // earlier one (barriers).
        match *op {
            Local::Embed { table, out } => {
                // SAFETY: see above.
                let out = unsafe { self.write(out, rows.clone()) };
                self.embed(&self.program.weights[table.0], rows, out);
            }
            Local::RmsNorm { x, weight, eps, out } => {
                // SAFETY: see above.
                let (x, out) = unsafe { (self.read(x, rows.clone()), self.write(out, rows)) };
                kernels.rms_norm(&mut RmsNormArgs { x, weight: &graph.vectors[weight.0], eps, out });
            }
            Local::Quantize { acts } => self.quantize(acts, rows, kernels),
            Local::Rope { x, rope, out } => {
                // SAFETY: see above.
                let out = unsafe { self.replace(x, out, rows.clone()) };
                let info = &graph.ropes[rope.0];
                let width = out.len() / rows.len();
                for (token, x) in rows.zip(out.chunks_exact_mut(width)) {
                    let (cos, sin) = self.batch.angles(rope.0, token);
                    kernels.rope(&mut RopeArgs { x, head_dim: info.head_dim, pairs: info.pairs, cos, sin });
                }
            }
            Local::Append { k, v, state } => {
                for token in rows {
                    match self.batch.kv_type(token) {
                        KvType::F32 => self.append::<f32>(token, (k, v), state, kernels),
                        KvType::F16 => self.append::<u16>(token, (k, v), state, kernels),
                        KvType::Q8_0 => self.append::<Q8Unit>(token, (k, v), state, kernels),
                    }
                }
            }
            Local::Conv { x, ref info, out } => self.conv((x, out), info, rows, kernels),
            Local::Columns { x, columns, out } => {
                // SAFETY: see above.
                let (x, out) = unsafe { (self.read(x, rows.clone()), self.write(out, rows.clone())) };
                copy_columns(x.chunks_exact(x.len() / rows.len()), columns, out);
            }
            Local::Gated { gate, up, activation, out } => {
                // SAFETY: see above.
                let (up, gate) = unsafe { (self.read(up, rows.clone()), self.replace(gate, out, rows)) };
                kernels.gated(&mut GatedArgs { activation, gate, up });
            }
            Local::Pointwise { x, function, out } => {
                // SAFETY: see above.
                let x = unsafe { self.replace(x, out, rows) };
                kernels.pointwise(&mut PointwiseArgs { function, x });
            }
            Local::Add { a, b, out } => {
                let (into, x) =
                    if self.plan().values[b.0] == self.plan().values[out.0] { (b, a) } else { (a, b) };
                // SAFETY: see above.
                let (x, acc) = unsafe { (self.read(x, rows.clone()), self.replace(into, out, rows)) };
                kernels.add(&mut AddArgs { acc, x });
            }
            Local::AddScaled { acc, x, factor, out } => {
                // SAFETY: see above.
                let (x, factor) = unsafe { (self.read(x, rows.clone()), self.read(factor, rows.clone())) };
                // SAFETY: see above.
                let out = unsafe { self.replace(acc, out, rows) };
                let width = out.len() / factor.len();
                for ((acc, x), &factor) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(factor)
                {
                    kernels.add_scaled(&mut AddScaledArgs { acc, x, factor });
                }
            }
            Local::Route { logits, route, out } => {
                // SAFETY: see above.
                let (logits, out) = unsafe { (self.read(logits, rows.clone()), self.write(out, rows)) };
                self.route((logits, out), route, kernels);
            }
            Local::Combine { x, choice, out } => {
                // SAFETY: see above.
                let (choice, out) =
                    unsafe { (self.read(choice, rows.clone()), self.write(out, rows.clone())) };
                self.combine(x, (rows, choice), out, kernels);
            }
            Local::Select { x, out } => {
                for row in rows {
                    let from = self.batch.outputs[row];
                    // SAFETY: see above; a selection begins its own phase, so `x` is from an earlier one.
                    let (x, out) = unsafe { (self.read(x, from..from + 1), self.write(out, row..row + 1)) };
                    out.copy_from_slice(x);
                }
            }
        }
    }

    fn embed(&self, table: &Matrix, rows: Range<usize>, out: &mut [f32]) {
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.resize(scratch.len().max(table.row_bytes()), 0);
            for (token, out) in rows.zip(out.chunks_exact_mut(table.k())) {
                expect(table.dequantize_row(self.batch.ids[token] as usize, scratch, out));
            }
        });
    }

    fn quantize(&self, acts: ActsId, rows: Range<usize>, kernels: &Kernels<'_>) {
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

    /// Chooses experts for some tokens.
    fn route(&self, (logits, out): (&[f32], &mut [f32]), route: RouteId, kernels: &Kernels<'_>) {
        let info = &self.graph().routes[route.0];
        let (routing, bias) = (info.routing, info.bias.map(|bias| &self.graph().vectors[bias.0][..]));
        let rows = logits.chunks_exact(info.experts).zip(out.chunks_exact_mut(2 * routing.chosen));
        ROUTING.with_borrow_mut(|scratch| {
            for (logits, out) in rows {
                kernels.route(&mut RouteArgs { routing, logits, bias, out, scratch });
            }
        });
    }

    /// The sums over the experts of some tokens, given what was chosen for them.
    fn combine(
        &self,
        x: ValueId,
        (rows, choice): (Range<usize>, &[f32]),
        out: &mut [f32],
        kernels: &Kernels<'_>,
    ) {
        let info = self.graph().value(x);
        let Rows::Slots(route) = info.rows else { return };
        let (slots, chosen) = (self.slots(route), choice.len() / 2 / rows.len());
        let tokens = rows.zip(choice.chunks_exact(2 * chosen)).zip(out.chunks_exact_mut(info.width));
        for ((token, choice), acc) in tokens {
            acc.fill(0.0);
            for (&slot, &factor) in slots.of_token(token, chosen).iter().zip(&choice[chosen..]) {
                // SAFETY: the sums of other slots are from an earlier phase: no phase has rows of both kinds (barriers).
                let x = unsafe { self.read(x, slot..slot + 1) };
                kernels.add_scaled(&mut AddScaledArgs { acc, x, factor });
            }
        }
    }

    /// The convolution of the tokens of one column tile, sequence by sequence.
    fn conv(
        &self,
        (x, out): (ValueId, ValueId),
        &ConvInfo { form, weight, bias, state }: &ConvInfo,
        rows: Range<usize>,
        kernels: &Kernels<'_>,
    ) {
        let vector = |id: VectorId| &self.graph().vectors[id.0][..];
        let (weight, bias, channels) = (vector(weight), bias.map(vector), self.graph().value(out).width);
        let kept = weight.len() - channels;
        for run in self.batch.runs() {
            let tokens = run.start.max(rows.start)..run.end.min(rows.end);
            if tokens.is_empty() {
                continue;
            }
            let first = run.start.max(tokens.start.saturating_sub(kept / channels));
            // SAFETY: the states are borrowed by the step, and the graph gave the layer so many elements.
            let (before, after) = unsafe { self.batch.recurrent(tokens.start, state, kept) };
            // SAFETY: the elements after the step belong to the chunk with the last token of the sequence (chunks), and
            // are as many as those before.
            let after =
                (tokens.end == run.end).then(|| unsafe { std::slice::from_raw_parts_mut(after, kept) });
            // SAFETY: a convolution begins its own phase, so that the rows of `x`, those of other tiles too, are from an
            // earlier one (barriers); the rows of `out` belong to one chunk (chunks).
            let (rows, out) = unsafe { (self.read(x, first..tokens.end), self.write(out, tokens.clone())) };
            let skip = tokens.start - first;
            kernels.conv(&mut ConvArgs { form, weight, bias, channels, before, rows, skip, out, after });
        }
    }

    fn append<T: KvKernels>(
        &self,
        token: usize,
        (k, v): (ValueId, ValueId),
        state: StateId,
        kernels: &Kernels<'_>,
    ) {
        // SAFETY: the pages of the token's sequence consist of `T`; the states are borrowed by the step and a position is
        // appended by the one chunk that has its token (chunks); nothing reads pages in this phase.
        let pages = unsafe { self.batch.pages::<T>(token, state, self.kv_layer(state).0) };
        // SAFETY: as in `local`.
        let (k, v) = unsafe { (self.read(k, token..token + 1), self.read(v, token..token + 1)) };
        let args = &mut AppendArgs { pages, position: self.batch.positions[token], k, v };
        // SAFETY: a position is appended by the one chunk that has its token (chunks), and no phase reads and appends.
        unsafe { T::append(kernels, args) };
    }
}

/// Puts some columns of every row side by side.
fn copy_columns<'x>(rows: impl Iterator<Item = &'x [f32]>, columns: Columns, out: &mut [f32]) {
    let Columns { first, len, stride, count } = columns;
    if count * len == 0 {
        return;
    }
    for (x, out) in rows.zip(out.chunks_exact_mut(count * len)) {
        for (i, out) in out.chunks_exact_mut(len).enumerate() {
            out.copy_from_slice(&x[first + i * stride..][..len]);
        }
    }
}
