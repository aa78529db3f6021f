//! The runtime: kernels, workers and counters that models share.

use std::sync::Arc;

use crate::counters::{Counters, KernelHits};
use crate::pool::Pool;
use crate::settings::{Settings, SettingsError};
use crate::table::KernelTable;
use crate::tier::{TierChoice, TierError};

/// Why a runtime cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// A setting of the environment is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The tier that is asked for cannot run.
    #[error(transparent)]
    Tier(#[from] TierError),
}

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
    /// A runtime as the environment asks for: `CERA_CPU_TIER`, `CERA_THREADS`.
    ///
    /// # Errors
    /// [`RuntimeError`] if a variable has a wrong value or asks for a tier that cannot run.
    pub fn from_env() -> Result<Arc<Runtime>, RuntimeError> {
        let settings = Settings::from_env()?;
        Ok(Runtime::new(KernelTable::new(&TierChoice::detect(&settings)?)))
    }

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
