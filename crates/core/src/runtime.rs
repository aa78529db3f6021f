//! The runtime: kernels, workers and counters that models share.

use std::sync::Arc;

use crate::counters::{Counters, KernelHits};
use crate::pool::Pool;
use crate::table::KernelTable;

/// What models run on: a kernel table, the workers, and the counters that prove which kernel ran.
///
/// A process may have several; they share nothing.
#[derive(Debug)]
pub struct Runtime {
    table: KernelTable,
    pub(crate) pool: Pool,
    pub(crate) counters: Counters,
}

impl Runtime {
    /// A runtime over `table`.
    pub fn new(table: KernelTable) -> Arc<Runtime> {
        let pool = Pool::new();
        let counters = Counters::new(pool.width());
        Arc::new(Runtime { table, pool, counters })
    }

    /// The kernels.
    pub fn table(&self) -> &KernelTable {
        &self.table
    }

    /// Workers, the calling thread included.
    pub fn width(&self) -> usize {
        self.pool.width()
    }

    /// The kernels that ran since the last [`Runtime::reset_hits`].
    pub fn hits(&self) -> Vec<KernelHits> {
        self.counters.read(&self.table)
    }

    /// Forgets the hits.
    pub fn reset_hits(&self) {
        self.counters.reset();
    }
}
