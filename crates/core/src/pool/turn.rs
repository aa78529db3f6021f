//! Who may dispatch next: first come, first served.

use std::sync::PoisonError;

use super::sync::{Condvar, Mutex, MutexGuard};

/// A queue for one place. Unlike a mutex it never lets a caller that comes again overtake one that waits.
#[derive(Debug)]
pub(super) struct Turns {
    tickets: Mutex<Tickets>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Tickets {
    /// The ticket that the next caller draws.
    next: u64,
    /// The ticket whose turn it is.
    serving: u64,
}

/// The place, until it is dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    pub(super) fn new() -> Turns {
        Turns { tickets: Mutex::new(Tickets::default()), changed: Condvar::new() }
    }

    /// Waits for the place.
    pub(super) fn take(&self) -> Turn<'_> {
        let mut tickets = self.tickets();
        let mine = tickets.next;
        tickets.next += 1;
        while tickets.serving != mine {
            tickets = self.changed.wait(tickets).unwrap_or_else(PoisonError::into_inner);
        }
        Turn(self)
    }

    /// Callers that have the place or wait for it.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> u64 {
        let tickets = self.tickets();
        tickets.next - tickets.serving
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut tickets = self.0.tickets();
        tickets.serving += 1;
        if tickets.serving != tickets.next {
            self.0.changed.notify_all();
        }
    }
}
