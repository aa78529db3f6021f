//! Hits per kernel and worker.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::table::{KernelId, KernelTable, SLOTS};

/// One worker's counters, on cache lines of their own.
#[repr(align(128))]
#[derive(Debug)]
struct Worker([AtomicU64; SLOTS]);

/// How often each kernel of a table ran, per worker.
#[derive(Debug)]
pub(crate) struct Counters {
    workers: Vec<Worker>,
}

/// The hits of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelHits {
    /// The kernel.
    pub kernel: KernelId,
    /// Calls per worker.
    pub per_worker: Vec<u64>,
}

impl KernelHits {
    /// Calls by all workers.
    pub fn total(&self) -> u64 {
        self.per_worker.iter().sum()
    }
}

impl Counters {
    pub(crate) fn new(workers: usize) -> Counters {
        let zeros = || Worker(std::array::from_fn(|_| AtomicU64::new(0)));
        Counters { workers: (0..workers).map(|_| zeros()).collect() }
    }

    /// Counts one call. Each worker writes its own counters only.
    #[inline]
    pub(crate) fn hit(&self, worker: usize, slot: usize) {
        self.workers[worker].0[slot].fetch_add(1, Ordering::Relaxed);
    }

    /// The kernels of `table` that ran, in table order.
    pub(crate) fn read(&self, table: &KernelTable) -> Vec<KernelHits> {
        table
            .kernels()
            .enumerate()
            .map(|(slot, kernel)| KernelHits {
                kernel,
                per_worker: self.workers.iter().map(|w| w.0[slot].load(Ordering::Relaxed)).collect(),
            })
            .filter(|hits| hits.total() > 0)
            .collect()
    }

    /// Sets every counter to zero.
    pub(crate) fn reset(&self) {
        for counter in self.workers.iter().flat_map(|w| &w.0) {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
