//! The row pool: persistent workers that run the phases of a step.
//!
//! One dispatch runs a flat list of phases, each of them a number of chunks that may run in any order and at once. The
//! calling thread is worker 0; a phase ends when all of its chunks are done, whoever did them. A worker that the system
//! does not run, or that arrives late, delays nothing but a chunk that it has claimed.
//!
//! # Protocol
//! One [word](word) holds the number of chunks of the open phase and a cursor. A worker claims a chunk by adding one to
//! the word; the value before the addition says whether there was a chunk, and which. It goes on until there is none, and
//! then hands in how many it ran by adding them to `done`. The worker whose addition completes the count ends the phase:
//! it alone opens the next, by writing the job (which phase) and then the word (how many chunks), or ends the dispatch by
//! a word without chunks. A phase of a single chunk is never opened: the worker that ended the phase before runs it on
//! the way. Nobody waits for workers to arrive, and nothing is reset that a late worker could still touch:
//!
//! 1. *Claims are of the open phase.* A claim is one read-modify-write, so a worker that has looked at the word, slept
//!    and then adds to it gets a chunk of the phase that is open now, or nothing. An addition without effect is lost with
//!    the next phase; there is at most one per worker and phase, so the cursor does not overflow.
//! 2. *A claim holds its phase open.* Until it is handed in `done` is below the count, so nobody ends the phase. The job,
//!    and through it the borrowed [`Phases`], are used only under a claim, or by the worker that ends the phase.
//! 3. *Order.* The word is written with release and read with acquire order, and so is `done`; all changes are
//!    read-modify-writes, which keep release sequences whole. So all that was written in a phase is seen in the next, and
//!    by the caller.
//! 4. *Somebody is awake.* The worker that opens a phase claims from it itself. Waking others is for speed only; the end
//!    of a dispatch alone must wake worker 0.
//!
//! # Waiting
//! A worker without work looks at the word for a bounded time ([`spin`]), then sleeps on a slot of its own ([`sleep`]). One
//! bit of the word says that somebody sleeps. It is set, before the last look at the word, and cleared under the lock of
//! the list of sleepers; whoever opens a phase sees in the value that it replaced whether it must look at the list. So
//! either the sleeper sees the phase or the phase's opener sees the sleeper.
//!
//! # Panics and cancellation
//! Both set a flag that is looked at before every chunk. Who sees it takes all chunks that are left as done, so that the
//! phase ends in the usual way, and the dispatch with it. Nothing is left behind that the next one would have to know.

mod cancel;
mod float_mode;
mod shared;
mod sleep;
mod spin;
mod sync;
mod turn;
mod word;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ops::Range;
use std::time::Duration;

pub use self::cancel::CancelToken;
pub use self::float_mode::DefaultMode;
#[cfg(all(test, not(loom)))]
pub(crate) use self::float_mode::testing;
use self::shared::Shared;
pub(crate) use self::shared::panic_message;
pub(crate) use self::spin::SPIN;
use self::sync::{Arc, INSIDE, thread};
use self::turn::Turns;
use crate::error::Error;

/// A step as a flat list of phases. The chunks of a phase may run in any order and at once; a phase begins when all
/// chunks of the one before are done.
pub(crate) trait Phases: Sync {
    /// Phases.
    fn len(&self) -> usize;
    /// Chunks of a phase; asked once per dispatch, when all earlier phases are done.
    fn chunks(&self, phase: usize) -> usize;
    /// Runs one chunk of a phase on a worker. No two chunks run on the same worker at once.
    fn run(&self, phase: usize, chunk: usize, worker: usize);
}

/// A value on cache lines of its own. Processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Padded<T>(pub(crate) T);

/// The workers.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    turns: Turns,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Pool {
    /// A pool of `width` workers, at least one: the calling threads and `width - 1` threads of its own.
    ///
    /// # Errors
    /// [`Error::Thread`] if the system refuses a thread.
    pub(crate) fn new(width: usize) -> Result<Pool, Error> {
        Pool::with_spin(width, SPIN)
    }

    /// As [`Pool::new`]; workers without work sleep after `spin`.
    pub(crate) fn with_spin(width: usize, spin: Duration) -> Result<Pool, Error> {
        Pool::start(width, spin, |_| ())
    }

    /// As [`Pool::with_spin`]; each thread of the pool first calls `begin` with its worker.
    pub(crate) fn start(
        width: usize,
        spin: Duration,
        begin: impl FnOnce(usize) + Clone + Send + 'static,
    ) -> Result<Pool, Error> {
        let mut pool = Pool::without_threads(width, spin);
        for worker in 1..pool.width() {
            let (shared, begin) = (pool.shared.clone(), begin.clone());
            let thread = thread::Builder::new().name(format!("cera-{worker}")).spawn(move || {
                begin(worker);
                serve(&shared, worker);
            });
            let thread = thread.map_err(|error| Error::Thread { worker, reason: error.to_string() })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// A pool of one worker, the calling thread.
    pub(crate) fn single() -> Pool {
        Pool::without_threads(1, SPIN)
    }

    /// A pool whose workers have yet to arrive, but for worker 0.
    fn without_threads(width: usize, spin: Duration) -> Pool {
        let shared = Arc::new(Shared::new(width.max(1), spin));
        Pool { shared, turns: Turns::new(), threads: Vec::new() }
    }

    /// Workers, the calling thread included.
    pub(crate) fn width(&self) -> usize {
        self.shared.width()
    }

    /// Makes the calling thread one that runs phases, in the default floating-point mode, until the session is dropped.
    ///
    /// # Errors
    /// [`Error::Nested`] if it is one already: called from inside of a chunk or a session, of this pool or another.
    pub(crate) fn enter(&self) -> Result<Session<'_>, Error> {
        Ok(Session { pool: self, _inside: Inside::enter()?, _mode: DefaultMode::enter() })
    }
}

#[cfg(test)]
impl Pool {
    /// A session of one dispatch.
    fn run(
        &self,
        phases: &dyn Phases,
        range: Range<usize>,
        cancel: Option<&CancelToken>,
    ) -> Result<(), Error> {
        self.enter()?.run(phases, range, cancel)
    }

    /// How long a worker without work spins.
    pub(crate) fn spin(&self) -> Duration {
        self.shared.spin()
    }
}

/// A thread's time as worker 0.
pub(crate) struct Session<'a> {
    pool: &'a Pool,
    _inside: Inside,
    _mode: DefaultMode,
}

impl Session<'_> {
    /// Runs the phases of `range`. Calls from several threads run one after the other, in the order of their arrival.
    /// Allocates nothing. Every chunk runs in the default floating-point mode.
    ///
    /// # Errors
    /// In all cases no chunk runs any more, phases may be incomplete, and the pool can be used again.
    /// - [`Error::Panic`] if a chunk panicked;
    /// - [`Error::Cancelled`] if chunks were left out because `cancel` asked for it.
    pub(crate) fn run(
        &self,
        phases: &dyn Phases,
        range: Range<usize>,
        cancel: Option<&CancelToken>,
    ) -> Result<(), Error> {
        debug_assert!(range.end <= phases.len());
        let _turn = self.pool.turns.take();
        // SAFETY: only the holder of the turn comes here.
        unsafe { self.pool.shared.dispatch(phases, range, cancel) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.close();
        for thread in self.threads.drain(..) {
            // A worker ends without a panic or takes the process with it.
            let _ended = thread.join();
        }
    }
}

/// The life of a worker's thread.
fn serve(shared: &Shared, worker: usize) {
    DefaultMode::set();
    INSIDE.with(|inside| inside.set(true));
    shared.serve(worker);
}

/// Marks the calling thread as one that runs chunks.
struct Inside;

impl Inside {
    fn enter() -> Result<Inside, Error> {
        if INSIDE.with(|inside| inside.replace(true)) { Err(Error::Nested) } else { Ok(Inside) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with(|inside| inside.set(false));
    }
}
