//! Local ops: each on the rows of one column tile.

use std::ops::Range;

use cera_quant::kv::{AppendArgs, KvType, Q8Unit};
use cera_quant::ops::{AddArgs, ConvArgs, GatedArgs, LayerNormArgs, PointwiseArgs, RmsNormArgs, RopeArgs};

use super::{Pass, SCRATCH, expect};
use crate::graph::{Columns, ConvInfo, StateId, ValueId, VectorId};
use crate::plan::Local;
use crate::table::{Kernels, KvKernels};
use crate::weights::Matrix;

impl<'a> Pass<'a> {
    /// `out`, holding a copy of `x` unless it has taken over the memory of `x`.
    ///
    /// # Safety
    /// Nobody else uses these rows of `out`, nobody writes these rows of `x`.
    pub(super) unsafe fn replace(&self, x: ValueId, out: ValueId, rows: Range<usize>) -> &'a mut [f32] {
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
            Local::LayerNorm { x, weight, bias, eps, out } => {
                // SAFETY: see above.
                let (x, out) = unsafe { (self.read(x, rows.clone()), self.write(out, rows)) };
                let (weight, bias) = (&graph.vectors[weight.0], &graph.vectors[bias.0]);
                kernels.layer_norm(&mut LayerNormArgs { x, weight, bias, eps, out });
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
                copy_columns(x.chunks_exact(x.len() / rows.len()), &columns, out);
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
            Local::JoinHeads { a, b, heads, out } => {
                // SAFETY: see above.
                let (a, b, out) = unsafe {
                    (self.read(a, rows.clone()), self.read(b, rows.clone()), self.write(out, rows.clone()))
                };
                join(a, b, rows.len() * heads, out);
            }
            Local::AddScaled { acc, x, factor, out } => self.add_scaled((acc, x, factor), out, rows, kernels),
            Local::Route { logits, route, out } => self.route((logits, out), route, rows, kernels),
            Local::Combine { x, choice, out } => self.combine((x, choice, out), rows, kernels),
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
fn copy_columns<'x>(rows: impl Iterator<Item = &'x [f32]>, columns: &[Columns], out: &mut [f32]) {
    let mut rest = out;
    for x in rows {
        for &Columns { first, len, stride, count } in columns {
            for from in (0..count).map(|i| first + i * stride) {
                let (out, others) = rest.split_at_mut(len);
                out.copy_from_slice(&x[from..][..len]);
                rest = others;
            }
        }
    }
}

/// The elements of `count` parts of `a` and of `b` in turns.
fn join(a: &[f32], b: &[f32], count: usize, out: &mut [f32]) {
    let [a_len, b_len] = [a, b].map(|x| x.len() / count);
    let parts = a.chunks_exact(a_len).zip(b.chunks_exact(b_len));
    for ((a, b), out) in parts.zip(out.chunks_exact_mut(a_len + b_len)) {
        out[..a_len].copy_from_slice(a);
        out[a_len..].copy_from_slice(b);
    }
}
