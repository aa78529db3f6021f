//! One pass: the phases of a plan over the tokens of a batch.
//!
//! What makes the shared memory sound, named by every SAFETY comment here and in the modules below:
//!
//! - *chunks*: the chunks of a phase write disjoint rows, or disjoint columns of the same rows, or disjoint parts, and each
//!   runs once: the pool says so of its own numbers, [`parts`] of those of products;
//! - *lifetimes*: buffers alive in one phase share no memory, except an op's result and the operand that it replaces,
//!   which no other op of the phase reads (`plan::memory`);
//! - *barriers*: a phase begins when the one before has ended (`pool`).

mod attend;
mod experts;
mod fetch;
mod local;
mod parts;
mod product;
mod scan;
mod slots;

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{OnceLock, RwLock};

use self::attend::Cuts;
use self::fetch::Fetched;
use self::parts::Parts;
use self::slots::Slots;
use super::Program;
use super::batch::Batch;
use super::memory::{Memory, Shared};
use crate::error::Error;
use crate::graph::{Graph, Rows, ValueId};
use crate::plan::{Phase, Plan};
use crate::pool::Phases;
use crate::table::Kernels;

/// Chunks of local ops for each worker, if there are tokens enough. More evens out the workers.
const LOCAL_CHUNKS: usize = 2;

thread_local! {
    /// Scratch of a worker for one packed strip or one row's bytes.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The state of one pass that all workers share.
pub(super) struct Pass<'a> {
    program: &'a Program,
    batch: &'a Batch,
    memory: Shared<'a>,
    /// Who runs which chunk of the phase of products that runs.
    parts: Parts,
    /// How the phases of attention are cut.
    cuts: Cuts,
    /// The slots of every choice of experts, from the first phase that has them.
    slots: Box<[OnceLock<Slots>]>,
    /// The experts of the layer that is worked on, where not all are in memory.
    fetched: RwLock<Fetched>,
}

impl<'a> Pass<'a> {
    /// Prepares a pass in memory for at least as many tokens.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn new(
        program: &'a Program,
        batch: &'a Batch,
        memory: &'a mut Memory,
    ) -> Result<Pass<'a>, Error> {
        let workers = program.runtime.width();
        let cuts = Cuts::new(&program.plan.phases, &program.graph, batch, workers);
        let memory = memory.share(cuts.parts())?;
        let slots = program.graph.routes.iter().map(|_| OnceLock::new()).collect();
        Ok(Pass {
            program,
            batch,
            memory,
            parts: Parts::new(workers),
            cuts,
            slots,
            fetched: RwLock::default(),
        })
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
            Rows::Slots(_) => self.batch.len() * self.graph().rows_per_token(rows),
        }
    }

    fn tile(&self, rows: Rows) -> usize {
        self.program.runtime.table().column_tile(self.count(rows))
    }

    /// Column tiles of a chunk of local ops: neighbours, which share cache lines of the state, go to one worker.
    fn chunk_tiles(&self, tiles: usize) -> usize {
        (tiles / (LOCAL_CHUNKS * self.program.runtime.width())).max(1)
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
}

impl Phases for Pass<'_> {
    fn len(&self) -> usize {
        self.plan().phases.len()
    }

    fn chunks(&self, phase: usize) -> usize {
        let rows = self.rows_of(phase);
        if self.count(rows) == 0 {
            return 0;
        }
        self.find_slots(rows);
        match &self.plan().phases[phase] {
            Phase::Local(_) => {
                let tiles = self.tiles(rows).len();
                tiles.div_ceil(self.chunk_tiles(tiles))
            }
            Phase::Products(products) => {
                let chunks = self.products_chunks(products);
                // All earlier phases are done, and no chunk of this one runs before its number is known.
                self.parts.deal(chunks);
                chunks
            }
            Phase::Fetch { route, matrices } => self.find_experts(*route, matrices),
            Phase::Attention { .. } => self.cuts.chunks(phase),
            Phase::Scan { scan, .. } => self.scan_cut(scan).chunks(),
        }
    }

    fn run(&self, phase: usize, chunk: usize, worker: usize) {
        let runtime = &self.program.runtime;
        let kernels = Kernels { table: runtime.table(), counters: &runtime.counters, worker };
        match &self.plan().phases[phase] {
            Phase::Local(ops) => {
                let tiles = self.tiles(self.rows_of(phase));
                let each = self.chunk_tiles(tiles.len());
                for tile in chunk * each..tiles.len().min((chunk + 1) * each) {
                    ops.iter().for_each(|op| self.local(op, tiles.get(tile), &kernels));
                }
            }
            Phase::Products(products) => {
                let chunk = self.parts.take(worker);
                self.products((chunk, self.products_chunks(products)), products, &kernels);
            }
            Phase::Fetch { .. } => self.fetch(chunk),
            Phase::Attention { q, info, out } => self.attention((phase, chunk), (*q, info, *out), &kernels),
            Phase::Scan { scan, out } => self.scan(chunk, scan, *out, &kernels),
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
