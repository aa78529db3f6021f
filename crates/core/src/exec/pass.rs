//! One pass: the phases of a plan over the tokens of a batch.
//!
//! What makes the shared memory sound, named by every SAFETY comment below:
//!
//! - *chunks*: the chunks of a phase write disjoint rows, or disjoint columns of the same rows;
//! - *lifetimes*: buffers alive in one phase share no memory, except an op's result and the operand that it replaces,
//!   which no other op of the phase reads (`plan::memory`);
//! - *barriers*: a phase begins when the one before has ended (`pool`).

use std::cell::RefCell;
use std::ops::Range;

use cera_quant::acts::ActsRef;
use cera_quant::args::{GemmArgs, OutMat};
use cera_quant::kv::{AppendArgs, KvType};
use cera_quant::ops::{AddArgs, AttentionArgs, GatedArgs, RmsNormArgs, RopeArgs};
use cera_quant::pack::{STRIP_ROWS, strip_bytes};

use super::Program;
use super::batch::Batch;
use super::memory::{Memory, Shared};
use crate::graph::{AttentionInfo, Graph, MatrixId, Rows, StateId, ValueId};
use crate::plan::{ActsId, Local, Phase, Plan, Product};
use crate::pool::Phases;
use crate::table::{Kernels, KvKernels};
use crate::weights::Matrix;

/// Strips of a chunk of a product. More lowers the cost of claiming, fewer evens out the workers.
const CHUNK_STRIPS: usize = 4;

thread_local! {
    /// Scratch of a worker for one packed strip or one row's bytes.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The state of one pass that all workers share.
pub(super) struct Pass<'a> {
    program: &'a Program,
    batch: &'a Batch,
    memory: Shared<'a>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(program: &'a Program, batch: &'a Batch, memory: &'a mut Memory) -> Pass<'a> {
        Pass { program, batch, memory: memory.share() }
    }

    fn plan(&self) -> &'a Plan {
        &self.program.plan
    }

    fn graph(&self) -> &'a Graph {
        &self.program.graph
    }

    /// Rows of a kind in this pass.
    fn count(&self, rows: Rows) -> usize {
        match rows {
            Rows::Tokens => self.batch.len(),
            Rows::Outputs => self.batch.outputs.len(),
        }
    }

    fn tile(&self, rows: Rows) -> usize {
        self.program.runtime.table().column_tile(self.count(rows))
    }

    fn rows_of(&self, phase: usize) -> Rows {
        self.plan().phases[phase].rows(self.graph(), &self.plan().acts)
    }

    /// All rows of a value. Only between phases.
    pub(super) fn value(&self, value: ValueId) -> &'a [f32] {
        let rows = 0..self.count(self.graph().value(value).rows);
        // SAFETY: no phase runs, so nobody writes (barriers).
        unsafe { self.read(value, rows) }
    }

    /// # Safety
    /// Nobody writes these rows meanwhile.
    unsafe fn read(&self, value: ValueId, rows: Range<usize>) -> &'a [f32] {
        // SAFETY: the caller's promise.
        unsafe { self.memory.rows(self.plan().values[value.0], rows) }
    }

    /// # Safety
    /// Nobody else uses these rows meanwhile.
    unsafe fn write(&self, value: ValueId, rows: Range<usize>) -> &'a mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { self.memory.rows_mut(self.plan().values[value.0], rows) }
    }

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
    fn local(&self, op: &Local, rows: Range<usize>, kernels: &Kernels<'_>) {
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
                    }
                }
            }
            Local::Gated { gate, up, activation, out } => {
                // SAFETY: see above.
                let (up, gate) = unsafe { (self.read(up, rows.clone()), self.replace(gate, out, rows)) };
                kernels.gated(&mut GatedArgs { activation, gate, up });
            }
            Local::Add { a, b, out } => {
                let (into, x) =
                    if self.plan().values[b.0] == self.plan().values[out.0] { (b, a) } else { (a, b) };
                // SAFETY: see above.
                let (x, acc) = unsafe { (self.read(x, rows.clone()), self.replace(into, out, rows)) };
                kernels.add(&mut AddArgs { acc, x });
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
        let info = self.plan().acts[acts.0];
        // SAFETY: a tile's rows belong to one chunk (chunks), and so do its records, which are as many bytes; activations
        // and their value do not overlap (lifetimes).
        let (x, out) = unsafe {
            let out = self.memory.bytes_mut(self.plan().acts_places[acts.0], rows.clone());
            (self.read(info.of, rows), out)
        };
        kernels.quantize(info.format, x, self.graph().value(info.of).width, out);
    }

    fn append<T: KvKernels>(
        &self,
        token: usize,
        (k, v): (ValueId, ValueId),
        state: StateId,
        kernels: &Kernels<'_>,
    ) {
        // SAFETY: `T` is the element type of the token's sequence; the states are borrowed by the step and a position is
        // appended by the one chunk that has its token (chunks); nothing reads pages in this phase.
        let (pages, _) = unsafe { self.batch.pages::<T>(token, state, self.graph().state.layers[state.0]) };
        // SAFETY: as in `local`.
        let (k, v) = unsafe { (self.read(k, token..token + 1), self.read(v, token..token + 1)) };
        let args = &mut AppendArgs { pages, position: self.batch.positions[token], k, v };
        // SAFETY: a position is appended by the one chunk that has its token (chunks), and no phase reads and appends.
        unsafe { T::append(kernels, args) };
    }

    /// Attention of one token with the queries of one KV head.
    fn attend<T: KvKernels>(
        &self,
        (token, head): (usize, usize),
        (q, info, out): (ValueId, &AttentionInfo, ValueId),
        kernels: &Kernels<'_>,
    ) {
        // SAFETY: `T` is the element type of the token's sequence; nothing writes pages in this phase.
        let (pages, shape) =
            unsafe { self.batch.pages::<T>(token, info.state, self.graph().state.layers[info.state.0]) };
        // SAFETY: queries are from an earlier phase (barriers).
        let q = unsafe { self.read(q, token..token + 1) };
        let queries = q.len() / (shape.heads * shape.k_dim);
        let (q_len, out_len) = (queries * shape.k_dim, queries * shape.v_dim);
        let first = self.memory.ptr(self.plan().values[out.0]);
        let row = shape.heads * out_len;
        // SAFETY: the results of a token and KV head are written by one chunk (chunks) and lie inside of the value, whose
        // rows are `heads * out_len` elements.
        let out = unsafe { std::slice::from_raw_parts_mut(first.add(token * row + head * out_len), out_len) };
        let end = self.batch.positions[token] + 1;
        let visible = info.window.map_or(0, |window| end.saturating_sub(window))..end;
        let q = &q[head * q_len..][..q_len];
        T::attention(kernels, &mut AttentionArgs { pages, head, visible, scale: info.scale, q, out });
    }

    /// Computes `strips` of a product for every row.
    fn product(&self, product: &Product, strips: Range<usize>, kernels: &Kernels<'_>) {
        let (plan, info) = (self.plan(), self.plan().acts[product.acts.0]);
        let rows = self.graph().value(info.of).rows;
        let (n, k) = (self.count(rows), self.graph().value(info.of).width);
        // SAFETY: activations are from an earlier phase (barriers).
        let bytes = unsafe { self.memory.bytes(plan.acts_places[product.acts.0], 0..n) };
        let x = expect(ActsRef::new(info.format, (n, k), self.tile(rows), bytes));
        let weight = &self.program.weights[product.weight.0];
        let first = self.memory.ptr(plan.values[product.out.0]);
        let view = |row: usize, rows: usize| {
            // SAFETY: the rows of a strip are written by one chunk (chunks) and lie inside of the value, which has
            // `weight.m()` elements per token.
            unsafe { OutMat::from_raw(first.wrapping_add(row), n, rows, weight.m()) }
        };
        if let Some(w) = weight.packed_ref() {
            let out = view(0, weight.m());
            kernels.matmul(&GemmArgs { w, x, strips: strips.clone(), tiles: 0..x.tiles(), out });
        } else {
            SCRATCH.with_borrow_mut(|scratch| {
                let size = expect(strip_bytes(weight.format(), weight.k()));
                scratch.resize(scratch.len().max(size), 0);
                for s in strips.clone() {
                    let Some(w) = expect(weight.pack_strip_into(s, scratch)) else { continue };
                    let out = view(s * STRIP_ROWS, w.m());
                    kernels.matmul(&GemmArgs { w, x, strips: 0..1, tiles: 0..x.tiles(), out });
                }
            });
        }
        if let Some(bias) = product.bias {
            let columns = strips.start * STRIP_ROWS..weight.m().min(strips.end * STRIP_ROWS);
            for token in 0..n {
                let at = first.wrapping_add(token * weight.m() + columns.start);
                // SAFETY: as for `view`.
                let acc = unsafe { std::slice::from_raw_parts_mut(at, columns.len()) };
                kernels.add(&mut AddArgs { acc, x: &self.graph().vectors[bias.0][columns.clone()] });
            }
        }
    }

    fn product_chunks(&self, weight: MatrixId) -> usize {
        self.program.weights[weight.0].strips().div_ceil(CHUNK_STRIPS)
    }
}

impl Phases for Pass<'_> {
    fn len(&self) -> usize {
        self.plan().phases.len()
    }

    fn chunks(&self, phase: usize) -> usize {
        let rows = self.rows_of(phase);
        let n = self.count(rows);
        match &self.plan().phases[phase] {
            _ if n == 0 => 0,
            Phase::Local(_) => n.div_ceil(self.tile(rows)),
            Phase::Products(products) => products.iter().map(|p| self.product_chunks(p.weight)).sum(),
            Phase::Attention { info, .. } => {
                let crate::state::LayerState::Kv(shape) = self.graph().state.layers[info.state.0];
                n * shape.heads
            }
        }
    }

    fn run(&self, phase: usize, chunk: usize, worker: usize) {
        let runtime = &self.program.runtime;
        let kernels = Kernels { table: runtime.table(), counters: &runtime.counters, worker };
        match &self.plan().phases[phase] {
            Phase::Local(ops) => {
                let rows = self.rows_of(phase);
                let (n, tile) = (self.count(rows), self.tile(rows));
                for op in ops {
                    self.local(op, chunk * tile..n.min((chunk + 1) * tile), &kernels);
                }
            }
            Phase::Products(products) => {
                let mut chunk = chunk;
                for product in products {
                    let chunks = self.product_chunks(product.weight);
                    if chunk < chunks {
                        let strips = self.program.weights[product.weight.0].strips();
                        let range = chunk * CHUNK_STRIPS..strips.min((chunk + 1) * CHUNK_STRIPS);
                        return self.product(product, range, &kernels);
                    }
                    chunk -= chunks;
                }
            }
            Phase::Attention { q, info, out } => {
                let crate::state::LayerState::Kv(shape) = self.graph().state.layers[info.state.0];
                let at = (chunk / shape.heads, chunk % shape.heads);
                match self.batch.kv_type(at.0) {
                    KvType::F32 => self.attend::<f32>(at, (*q, info, *out), &kernels),
                    KvType::F16 => self.attend::<u16>(at, (*q, info, *out), &kernels),
                }
            }
        }
    }
}

/// A result that the planner has made sure of.
///
/// # Panics
/// If it is an error: a bug of the planner.
fn expect<T>(result: Result<T, cera_quant::QuantError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("a planned operation does not fit: {error}"),
    }
}
