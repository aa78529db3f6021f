//! Waiting without giving up the processor, for a bounded time.

use std::time::{Duration, Instant};

use super::sync::thread;

/// How long a worker looks for work before it sleeps. More saves the cost of waking (about 5 µs and a system call) where
/// phases or steps follow each other slowly, fewer wastes less of a processor that others want.
pub(crate) const SPIN: Duration = Duration::from_micros(60);

/// After this long a waiting worker lets other threads of its processor run first: the one it waits for may be among them.
const POLITE: Duration = Duration::from_micros(8);

/// Polls between two looks at the clock.
const POLLS: u32 = 32;

/// One wait.
pub(super) struct Spin {
    limit: Duration,
    polls: u32,
    since: Option<Instant>,
    polite: bool,
}

impl Spin {
    /// A wait of at most `limit`; with zero, none at all and no look at the clock.
    pub(super) fn new(limit: Duration) -> Spin {
        Spin { limit, polls: 0, since: None, polite: false }
    }

    /// Waits a moment and returns `true`, or `false` if the time is over.
    #[inline]
    pub(super) fn again(&mut self) -> bool {
        if self.limit.is_zero() {
            return false;
        }
        self.polls += 1;
        if self.polls < POLLS && !self.polite {
            std::hint::spin_loop();
            return true;
        }
        self.check()
    }

    #[cold]
    fn check(&mut self) -> bool {
        self.polls = 0;
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        self.polite = waited >= POLITE;
        if self.polite {
            thread::yield_now();
        }
        waited < self.limit
    }
}
