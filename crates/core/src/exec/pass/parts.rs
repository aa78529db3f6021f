//! Which worker runs which chunk of a phase.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::pool::Padded;

/// The chunks of a phase in parts of neighbours, one for each worker. A worker runs those of its own part in order, so that
/// it reads on where it stopped, and then takes what others have left, from the end of their parts.
#[derive(Debug)]
pub(super) struct Parts(Box<[Padded<Part>]>);

/// The chunks of a part that nobody has taken: the first in the low half, the one past the last in the high half.
#[derive(Debug, Default)]
struct Part(AtomicU64);

impl Parts {
    /// Parts for so many workers, without chunks.
    pub(super) fn new(workers: usize) -> Parts {
        Parts((0..workers).map(|_| Padded(Part::default())).collect())
    }

    /// Shares out `count` chunks. Nobody takes any meanwhile.
    pub(super) fn deal(&self, count: usize) {
        let parts = self.0.len();
        for (i, part) in self.0.iter().enumerate() {
            let [first, end] = [i, i + 1].map(|i| (i * count / parts) as u64);
            part.0.0.store(end << 32 | first, Ordering::Relaxed);
        }
    }

    /// The chunk that a worker runs next.
    ///
    /// # Panics
    /// If it is called more often than there are chunks.
    pub(super) fn take(&self, worker: usize) -> usize {
        let parts = self.0.len();
        let own = self.0[worker].0.first();
        let chunk = own.or_else(|| (1..parts).find_map(|i| self.0[(worker + i) % parts].0.last()));
        chunk.unwrap_or_else(|| panic!("more claims than chunks"))
    }
}

impl Part {
    fn first(&self) -> Option<usize> {
        self.change(|first, end| (first, end << 32 | (first + 1)))
    }

    fn last(&self) -> Option<usize> {
        self.change(|first, end| (end - 1, (end - 1) << 32 | first))
    }

    /// Takes the chunk that `taken` names, given the range, together with the range that is left.
    fn change(&self, taken: impl Fn(u64, u64) -> (u64, u64)) -> Option<usize> {
        let halves = |range: u64| (range & u64::from(u32::MAX), range >> 32);
        let left = |range: u64| {
            let (first, end) = halves(range);
            (first < end).then(|| taken(first, end))
        };
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |range| Some(left(range)?.1));
        before.ok().and_then(left).map(|(chunk, _)| chunk as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_worker_takes_its_own_part_in_order_and_then_the_ends_of_others() {
        let parts = Parts::new(3);
        parts.deal(8);
        let taken: Vec<usize> = (0..6).map(|_| parts.take(1)).collect();
        assert_eq!(taken, [2, 3, 4, 7, 6, 5]);
        assert_eq!((parts.take(0), parts.take(2)), (0, 1));
    }

    #[test]
    fn every_chunk_is_taken_once() {
        for (workers, count) in [(1, 5), (2, 1), (3, 2), (4, 1000), (7, 40)] {
            let (parts, all) = (Parts::new(workers), Mutex::new(Vec::new()));
            for _ in 0..20 {
                parts.deal(count);
                let claims = AtomicU64::new(0);
                std::thread::scope(|scope| {
                    for worker in 0..workers {
                        let (parts, all, claims) = (&parts, &all, &claims);
                        scope.spawn(move || {
                            while claims.fetch_add(1, Ordering::Relaxed) < count as u64 {
                                let chunk = parts.take(worker);
                                all.lock().unwrap_or_else(|error| error.into_inner()).push(chunk);
                            }
                        });
                    }
                });
                let mut all = all.lock().unwrap_or_else(|error| error.into_inner());
                all.sort_unstable();
                assert!(all.iter().copied().eq(0..count), "{workers} workers, {count} chunks: {all:?}");
                all.clear();
            }
        }
    }
}
