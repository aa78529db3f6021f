//! The row pool: runs the phases of a step on all workers.

/// A step as a flat list of phases. The chunks of a phase may run in any order and at once; a phase begins when all
/// chunks of the one before are done.
pub(crate) trait Phases: Sync {
    /// Phases.
    fn len(&self) -> usize;
    /// Chunks of a phase.
    fn chunks(&self, phase: usize) -> usize;
    /// Runs one chunk of a phase on a worker.
    fn run(&self, phase: usize, chunk: usize, worker: usize);
}

/// The workers. The calling thread is worker 0, and the only one.
#[derive(Debug)]
pub(crate) struct Pool;

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool
    }

    /// Workers, the calling thread included.
    pub(crate) fn width(&self) -> usize {
        1
    }

    /// Runs every phase from `from` to `to`.
    pub(crate) fn run(&self, phases: &dyn Phases, range: std::ops::Range<usize>) {
        debug_assert!(range.end <= phases.len());
        for phase in range {
            for chunk in 0..phases.chunks(phase) {
                phases.run(phase, chunk, 0);
            }
        }
    }
}
