//! What became of the experts of a model that has memory for some of them only.

use cera_core::ResidentStats;
use cera_models::Model;
use serde::Serialize;

/// The statistics of the experts in memory. Sizes in bytes.
#[derive(Debug, Serialize)]
pub(crate) struct Experts {
    budget: usize,
    held: usize,
    peak: usize,
    /// Matrices of chosen experts that were in memory, that were brought there, and that had no room.
    hits: u64,
    misses: u64,
    bypassed: u64,
    read: u64,
}

impl Experts {
    /// Those of a model, if it has not memory for all of its experts.
    pub(crate) fn of(model: &Model) -> Option<Experts> {
        let ResidentStats { budget, bytes: held, peak, hits, misses, bypassed, read, .. } =
            model.program().resident_stats()?;
        Some(Experts { budget, held, peak, hits, misses, bypassed, read })
    }

    /// As the end of a line of statistics.
    pub(crate) fn note(&self) -> String {
        let chosen = self.hits + self.misses + self.bypassed;
        let share = 100.0 * self.hits as f64 / chosen.max(1) as f64;
        let gb = |bytes: f64| bytes / 1e9;
        format!(
            "; experts in memory {:.2} of {:.2} GB, {share:.0} % of those chosen found there, {:.2} GB read",
            gb(self.held as f64),
            gb(self.budget as f64),
            gb(self.read as f64),
        )
    }
}
