//! The word that chunks are claimed from and handed in to.

use super::sync::{AtomicU64, Ordering};

/// Bits of the cursor and of the number of chunks that are done; the count has the rest but one.
const BITS: u32 = 21;

/// One chunk, in the cursor.
const CLAIMED: u64 = 1;

/// One chunk, in the number that is done.
const DONE: u64 = 1 << BITS;

/// Set while at least one worker sleeps or is about to.
const SLEEPERS: u64 = 1 << 63;

/// The most chunks of a phase. The cursor passes the count by at most two per worker, so it has room enough.
pub(super) const MAX_CHUNKS: u32 = 1 << 20;

/// A value of the word. From the low end: the chunk that the next claim gets (21 bits), how many chunks of the open phase
/// are done (21 bits), how many it has (21 bits), and whether anybody sleeps (1 bit). A phase without chunks means that no
/// dispatch runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    /// Chunks of the open phase.
    #[inline]
    pub(super) fn count(self) -> u32 {
        self.part(2)
    }

    /// Chunks of the open phase that are done.
    #[inline]
    pub(super) fn done(self) -> u32 {
        self.part(1)
    }

    /// The chunk that the next claim gets; none if it is not below the count.
    #[inline]
    pub(super) fn cursor(self) -> u32 {
        self.part(0)
    }

    #[inline]
    fn part(self, part: u32) -> u32 {
        (self.0 >> (part * BITS)) as u32 & ((1 << BITS) - 1)
    }

    /// Chunks that nobody has claimed.
    #[inline]
    pub(super) fn left(self) -> u32 {
        self.count().saturating_sub(self.cursor())
    }

    /// Whether no dispatch runs.
    #[inline]
    pub(super) fn is_idle(self) -> bool {
        self.count() == 0
    }

    /// Whether anybody sleeps.
    #[inline]
    pub(super) fn has_sleepers(self) -> bool {
        self.0 & SLEEPERS != 0
    }
}

/// The shared word. Every change is one read-modify-write, so that none is lost and all of them are in one order.
#[derive(Debug)]
pub(super) struct AtomicWord(AtomicU64);

impl AtomicWord {
    /// No dispatch, nobody sleeps.
    pub(super) fn new() -> AtomicWord {
        AtomicWord(AtomicU64::new(0))
    }

    /// The present value.
    #[inline]
    pub(super) fn load(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// Claims the next chunk and returns the value before: the chunk is its cursor, if any was left.
    #[inline]
    pub(super) fn claim(&self) -> Word {
        Word(self.0.fetch_add(CLAIMED, Ordering::Acquire))
    }

    /// Hands in a chunk, claims the next one, and returns the value before.
    #[inline]
    pub(super) fn hand_in_and_claim(&self) -> Word {
        Word(self.0.fetch_add(DONE + CLAIMED, Ordering::AcqRel))
    }

    /// Hands in a chunk together with all that are left, and returns whether the phase is done.
    pub(super) fn hand_in_all(&self) -> bool {
        let before = self.update(|word| word.0 + u64::from(word.left()) * (DONE + CLAIMED) + DONE);
        before.done() + 1 + before.left() == before.count()
    }

    /// Opens a phase of `count` chunks of which the first is claimed, or ends the dispatch if there are none, and returns
    /// the value before.
    pub(super) fn publish(&self, count: u32) -> Word {
        let claimed = u64::from(count > 0) * CLAIMED;
        self.update(|word| (word.0 & SLEEPERS) + (u64::from(count) << (2 * BITS)) + claimed)
    }

    /// Announces a sleeper and returns the value before.
    pub(super) fn set_sleepers(&self) -> Word {
        Word(self.0.fetch_or(SLEEPERS, Ordering::Acquire))
    }

    /// Announces that nobody sleeps.
    pub(super) fn clear_sleepers(&self) {
        self.0.fetch_and(!SLEEPERS, Ordering::Relaxed);
    }

    fn update(&self, change: impl Fn(Word) -> u64) -> Word {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let next = change(Word(now));
            match self.0.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(before) => return Word(before),
                Err(other) => now = other,
            }
        }
    }
}
