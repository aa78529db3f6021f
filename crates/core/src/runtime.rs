//! The runtime: kernels, workers and counters that models share.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::counters::{Counters, KernelHits};
use crate::error::Error;
use crate::pool::{Pool, SPIN};
use crate::probe::{self, CpuInfo};
use crate::settings::{Settings, SettingsError};
use crate::table::KernelTable;
use crate::tier::{TierChoice, TierError};
use crate::width::{self, Machine, PinError, PinReason, Pinning, Width};

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
    /// The workers cannot be started.
    #[error(transparent)]
    Workers(#[from] Error),
    /// The workers cannot be bound to cores, as was asked for.
    #[error(transparent)]
    Pin(#[from] PinError),
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
    /// A runtime as the environment asks for: `CERA_CPU_TIER`, `CERA_THREADS`, `CERA_PIN`, `CERA_SPIN_US`.
    ///
    /// # Errors
    /// [`RuntimeError`] if a variable has a wrong value or asks for a tier that cannot run, or if the system refuses a
    /// thread or a pinning that is asked for.
    pub fn from_env() -> Result<Arc<Runtime>, RuntimeError> {
        Runtime::from_settings(&Settings::from_env()?)
    }

    /// A runtime as `settings` ask for.
    ///
    /// # Errors
    /// [`RuntimeError`] if they ask for a tier that cannot run, or if the system refuses a thread or a pinning
    /// that they ask for.
    pub fn from_settings(settings: &Settings) -> Result<Arc<Runtime>, RuntimeError> {
        let choice = TierChoice::detect(settings)?;
        warn_if_slow(&choice, probe::native());
        let table = KernelTable::new(&choice);
        let machine = Machine::native();
        let width = Width::choose(&settings.threads, machine.facts);
        let pinning = Pinning::choose(&settings.pin, &width, &machine);
        tracing::debug!(%width, %pinning, "chose the workers");
        let spin = settings.spin.get().map_or(SPIN, |spin| spin.get());
        Ok(Runtime::assemble(table, start_workers(width.threads, spin, &pinning)?))
    }

    /// A runtime over `table` that runs on the calling threads alone.
    pub fn new(table: KernelTable) -> Arc<Runtime> {
        Runtime::assemble(table, Pool::single())
    }

    /// A runtime over `table` of `width` workers, at least one. The calling threads are one of them.
    ///
    /// # Errors
    /// [`Error::Thread`] if the system refuses a thread.
    pub fn with_width(table: KernelTable, width: usize) -> Result<Arc<Runtime>, Error> {
        Ok(Runtime::assemble(table, Pool::new(width)?))
    }

    fn assemble(table: KernelTable, pool: Pool) -> Arc<Runtime> {
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

/// The workers, bound as `pinning` says. Where nobody asked for it, a worker that cannot be bound runs anywhere.
fn start_workers(width: usize, spin: Duration, pinning: &Pinning) -> Result<Pool, RuntimeError> {
    if pinning.is_impossible() {
        return Err(PinError::UnknownCores.into());
    }
    let (refused, refusals) = mpsc::channel();
    let bound = pinning.clone();
    let pool = Pool::start(width, spin, move |worker| {
        if let Some(cpu) = bound.cpu(worker).filter(|&cpu| !width::bind(cpu)) {
            // Nobody listens only if the pool could not be started.
            let _sent = refused.send(PinError::Refused { worker, cpu });
        }
    })?;
    // Every worker drops its sender when it has begun.
    for refusal in refusals {
        if matches!(pinning.reason, PinReason::Requested(_)) {
            return Err(refusal.into());
        }
        tracing::debug!("{refusal}");
    }
    Ok(pool)
}

/// Tells users why all is slow, if it is.
fn warn_if_slow(choice: &TierChoice, cpu: &CpuInfo) {
    if let Some(why) = choice.slowness(cpu) {
        tracing::warn!("{why}");
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
