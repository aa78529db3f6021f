//! Experts in a bounded amount of memory: those used last are kept packed, others are packed from the file when chosen.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffer::AlignedBuf;

/// One matrix of a stack: the weight, by its place among those of the program, and which of its matrices.
pub(crate) type Member = (usize, usize);

/// What a budget for experts has been used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResidentStats {
    /// The most bytes of packed experts.
    pub budget: usize,
    /// Bytes of those that are packed now.
    pub bytes: usize,
    /// The most bytes that were packed at once.
    pub peak: usize,
    /// Matrices of chosen experts that were packed already.
    pub hits: u64,
    /// Those that were packed when they were chosen.
    pub misses: u64,
    /// Those that had no place and were worked on strip by strip.
    pub bypassed: u64,
    /// Bytes of the file that were read for misses and for those without a place.
    pub read: u64,
}

/// The packed experts of a program.
#[derive(Debug)]
pub(crate) struct Resident(Mutex<State>);

#[derive(Debug)]
struct State {
    stats: ResidentStats,
    /// Counts the calls of [`Resident::take`].
    now: u64,
    entries: HashMap<Member, Entry>,
    /// The entries by when they were used last.
    by_use: BTreeSet<(u64, Member)>,
}

#[derive(Debug)]
struct Entry {
    strips: Arc<AlignedBuf>,
    used: u64,
    made: u64,
}

/// A matrix that is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) member: Member,
    /// Bytes of its packed strips.
    pub(crate) packed: usize,
    /// Bytes of its rows in the file.
    pub(crate) plain: usize,
}

/// Where a wanted matrix is.
#[derive(Debug)]
pub(crate) enum Found {
    /// Packed.
    Here(Arc<AlignedBuf>),
    /// Nowhere yet: memory for its strips, which must be packed before anything else uses them.
    ToPack(Arc<AlignedBuf>),
    /// Nowhere, and there is no room for it.
    NoRoom,
}

impl Resident {
    /// Nothing is packed yet, and never more than `budget` bytes.
    pub(crate) fn new(budget: usize) -> Resident {
        let stats = ResidentStats { budget, ..ResidentStats::default() };
        let (entries, by_use) = (HashMap::new(), BTreeSet::new());
        Resident(Mutex::new(State { stats, now: 0, entries, by_use }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the budget has been used for so far.
    pub(crate) fn stats(&self) -> ResidentStats {
        self.state().stats
    }

    /// Finds matrices that are worked on together, and makes room for those that are not packed by dropping those that were
    /// used longest ago. Nobody uses what was found before any more.
    pub(crate) fn take(&self, wanted: &[Wanted]) -> Vec<Found> {
        let mut state = self.state();
        state.now += 1;
        // First all hits, so that none of them is dropped for a miss.
        let hits: Vec<Option<Arc<AlignedBuf>>> =
            wanted.iter().map(|wanted| state.touch(wanted.member)).collect();
        let found = |(wanted, hit)| match hit {
            Some(strips) => Found::Here(strips),
            None => state.make(wanted).map_or(Found::NoRoom, Found::ToPack),
        };
        wanted.iter().zip(hits).map(found).collect()
    }

    /// The number of calls of [`Resident::take`] so far.
    pub(crate) fn now(&self) -> u64 {
        self.state().now
    }

    /// Drops what was made room for since: it may never have been packed.
    pub(crate) fn forget_since(&self, then: u64) {
        let mut state = self.state();
        let late: Vec<Member> =
            state.entries.iter().filter(|(_, e)| e.made > then).map(|(m, _)| *m).collect();
        late.into_iter().for_each(|member| drop(state.remove(member)));
    }
}

impl State {
    fn touch(&mut self, member: Member) -> Option<Arc<AlignedBuf>> {
        let now = self.now;
        let entry = self.entries.get_mut(&member)?;
        self.by_use.remove(&(entry.used, member));
        self.by_use.insert((now, member));
        entry.used = now;
        self.stats.hits += 1;
        Some(entry.strips.clone())
    }

    /// Memory for a matrix, unless all that is packed is in use or the system has none.
    fn make(&mut self, wanted: &Wanted) -> Option<Arc<AlignedBuf>> {
        let Wanted { member, packed, plain } = *wanted;
        self.stats.read += plain as u64;
        let strips = self.room(packed);
        let Some(strips) = strips else {
            self.stats.bypassed += 1;
            return None;
        };
        self.stats.misses += 1;
        self.stats.bytes += packed;
        self.stats.peak = self.stats.peak.max(self.stats.bytes);
        let strips = Arc::new(strips);
        self.entries.insert(member, Entry { strips: strips.clone(), used: self.now, made: self.now });
        self.by_use.insert((self.now, member));
        Some(strips)
    }

    /// `len` bytes that fit the budget: those of a dropped entry if they are as many.
    fn room(&mut self, len: usize) -> Option<AlignedBuf> {
        let mut reused = None;
        while self.stats.bytes + len > self.stats.budget {
            let &(used, oldest) = self.by_use.first()?;
            if used == self.now {
                return None;
            }
            let strips = self.remove(oldest).and_then(|strips| Arc::try_unwrap(strips).ok());
            reused = strips.filter(|strips| strips.len() == len);
        }
        reused.or_else(|| AlignedBuf::zeroed(len).ok())
    }

    fn remove(&mut self, member: Member) -> Option<Arc<AlignedBuf>> {
        let entry = self.entries.remove(&member)?;
        self.by_use.remove(&(entry.used, member));
        self.stats.bytes -= entry.strips.len();
        Some(entry.strips)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
