//! What the workers share, and how they walk the phases of a dispatch.

use std::any::Any;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::Duration;

use super::cancel::CancelToken;
use super::sleep::{Sleepers, Slept};
use super::spin::Spin;
use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering, UnsafeCell};
use super::word::{AtomicWord, MAX_CHUNKS, Word};
use super::{Padded, Phases};
use crate::error::Error;

/// Sleepers that a worker wakes when it sees work for them; those that were woken do the same, so that waking many takes
/// few steps, and stops by itself where no processor is free to run the woken.
const WAKES: usize = 2;

/// What all workers of a pool share.
#[derive(Debug)]
pub(super) struct Shared {
    hot: Padded<Hot>,
    sleepers: Sleepers,
    /// Why the dispatch stops early.
    fault: Mutex<Option<Error>>,
    spin: Duration,
    width: usize,
}

/// All that a claim touches, on one pair of cache lines.
#[derive(Debug)]
struct Hot {
    word: AtomicWord,
    /// Whether the chunks that are left are skipped.
    stop: AtomicBool,
    /// Holders of a claim read it, whoever ends a phase or begins a dispatch writes it.
    job: UnsafeCell<Job>,
}

/// The dispatch that runs, and its open phase.
#[derive(Debug, Clone, Copy)]
struct Job {
    phases: *const dyn Phases,
    /// Null if the dispatch cannot be cancelled.
    cancel: *const CancelToken,
    phase: usize,
    end: usize,
}

// SAFETY: both pointees may be shared between threads (`Phases` and `CancelToken` are `Sync`), and they are read only while
// the dispatch runs, which borrows them.
unsafe impl Send for Job {}

// SAFETY: `Hot::job` is written only by the thread that ends a phase or begins a dispatch and read only by holders of a
// claim; a claim holds the phase open, and the word orders the two (module documentation, invariants 1 to 3).
unsafe impl Sync for Shared {}

/// Ends the process when it is dropped.
struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Runs `f`, which is part of the protocol: a worker that unwound out of it would leave the others with pointers to a
/// dispatch that has ended, so a panic in it ends the process.
fn without_unwinding<R>(f: impl FnOnce() -> R) -> R {
    let abort = Abort;
    let result = f();
    std::mem::forget(abort);
    result
}

struct NoPhases;

impl Phases for NoPhases {
    fn len(&self) -> usize {
        0
    }

    fn chunks(&self, _: usize) -> usize {
        0
    }

    fn run(&self, _: usize, _: usize, _: usize) {}
}

impl Job {
    fn none() -> Job {
        Job { phases: &raw const NO_PHASES, cancel: std::ptr::null(), phase: 0, end: 0 }
    }

    /// # Safety
    /// The caller holds a claim of the dispatch, or is about to end one of its phases.
    unsafe fn phases(&self) -> &dyn Phases {
        // SAFETY: the dispatch does not end before the caller lets go, and borrows the phases until then.
        unsafe { &*self.phases }
    }

    /// # Safety
    /// As for [`Job::phases`].
    unsafe fn is_cancelled(&self) -> bool {
        // SAFETY: null or borrowed by the dispatch, as in `phases`.
        unsafe { self.cancel.as_ref() }.is_some_and(CancelToken::is_cancelled)
    }
}

static NO_PHASES: NoPhases = NoPhases;

impl Shared {
    pub(super) fn new(width: usize, spin: Duration) -> Shared {
        let hot =
            Hot { word: AtomicWord::new(), stop: AtomicBool::new(false), job: UnsafeCell::new(Job::none()) };
        Shared { hot: Padded(hot), sleepers: Sleepers::new(width), fault: Mutex::new(None), spin, width }
    }

    /// Workers, the calling thread of a dispatch included.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Runs the phases of a range as worker 0, with the help of the workers that are awake in time.
    ///
    /// # Safety
    /// No other call runs at the same time.
    pub(super) unsafe fn dispatch(
        &self,
        phases: &dyn Phases,
        range: Range<usize>,
        cancel: Option<&CancelToken>,
    ) -> Result<(), Error> {
        // SAFETY: only the lifetime changes. The job is used no longer than the dispatch runs, which is this call.
        let phases = unsafe { std::mem::transmute::<&dyn Phases, &'static dyn Phases>(phases) };
        let cancel = cancel.map_or(std::ptr::null(), std::ptr::from_ref);
        let job = Job { phases, cancel, phase: range.start, end: range.end };
        self.hot.0.stop.store(false, Ordering::Relaxed);
        without_unwinding(|| {
            // SAFETY: this dispatch has just begun and is the only one, by the caller's promise, so nobody holds a claim.
            if let Some(job) = unsafe { self.advance(0, job, range.start) } {
                // SAFETY: the first chunk of the phase just opened is claimed for this thread.
                unsafe { self.work(0, job, 0) };
                self.walk(0);
            }
        });
        self.fault().take().map_or(Ok(()), Err)
    }

    /// The life of a worker that is not worker 0: runs chunks until the pool closes.
    pub(super) fn serve(&self, me: usize) {
        without_unwinding(|| self.walk(me));
    }

    /// Claims and runs chunks: worker 0 until the dispatch has ended, others until the pool closes.
    fn walk(&self, me: usize) {
        while let Some(woken) = self.wait(me) {
            let word = self.hot.0.word.claim();
            if word.left() == 0 {
                continue;
            }
            if woken && word.has_sleepers() {
                self.wake_for(word.left() - 1);
            }
            // SAFETY: this thread has just claimed a chunk, which keeps writers away (invariant 2) and orders this read
            // after the last write (invariant 3).
            let job = self.hot.0.job.with(|job| unsafe { *job });
            // SAFETY: as above.
            unsafe { self.work(me, job, word.cursor()) };
        }
    }

    /// Wakes everybody and lets every worker but worker 0 return from [`Shared::serve`].
    pub(super) fn close(&self) {
        self.sleepers.close(&self.hot.0.word);
    }

    /// Waits for a chunk to claim and returns whether this took sleep, or `None` if there will be none for this worker.
    fn wait(&self, me: usize) -> Option<bool> {
        let mut woken = false;
        let mut spin = Spin::new(self.spin);
        loop {
            let word = self.hot.0.word.load();
            if word.left() > 0 {
                return Some(woken);
            }
            if me == 0 && word.is_idle() {
                return None;
            }
            if spin.again() {
                continue;
            }
            let ready = |word: Word| word.left() > 0 || (me == 0 && word.is_idle());
            match self.sleepers.sleep(me, &self.hot.0.word, ready) {
                Slept::Not => {}
                Slept::Woken => (woken, spin) = (true, Spin::new(self.spin)),
                Slept::Closed => return None,
            }
        }
    }

    /// Runs a claimed chunk and all that this worker can claim after it. If it ends the phase, it opens the next and goes
    /// on there.
    ///
    /// # Safety
    /// The caller has claimed `chunk` of the open phase, which is the job's.
    unsafe fn work(&self, me: usize, mut job: Job, mut chunk: u32) {
        loop {
            // SAFETY: this worker holds a claim.
            let ended = if unsafe { self.run_chunk(me, &job, job.phase, chunk) }.is_continue() {
                let before = self.hot.0.word.hand_in_and_claim();
                if before.left() > 0 {
                    chunk = before.cursor();
                    continue;
                }
                before.done() + 1 == before.count()
            } else {
                self.hot.0.word.hand_in_all()
            };
            if !ended {
                return;
            }
            // SAFETY: all chunks of the phase are done, so nobody holds a claim.
            match unsafe { self.advance(me, job, job.phase + 1) } {
                Some(next) => (job, chunk) = (next, 0),
                None => return,
            }
        }
    }

    /// Opens the first phase of the job from `from` on that is worth sharing and returns it, with its first chunk claimed
    /// for the caller, or ends the dispatch. Phases before it without chunks or with one are done on the way.
    ///
    /// # Safety
    /// The job's dispatch has not ended, and nobody holds a claim.
    unsafe fn advance(&self, me: usize, job: Job, from: usize) -> Option<Job> {
        let Hot { word, job: cell, .. } = &self.hot.0;
        for phase in from..job.end {
            // SAFETY: the dispatch cannot end before `publish`.
            let Some(count) = (unsafe { self.count(&job, phase) }) else { break };
            if count <= 1 || self.width == 1 {
                // SAFETY: as above.
                let run = |chunk| unsafe { self.run_chunk(me, &job, phase, chunk) };
                if (0..count).try_for_each(run).is_break() {
                    break;
                }
                continue;
            }
            let next = Job { phase, ..job };
            // SAFETY: nobody holds a claim, so nobody reads (invariant 2).
            cell.with_mut(|cell| unsafe { *cell = next });
            if word.publish(count).has_sleepers() {
                self.wake_for(count - 1);
            }
            return Some(next);
        }
        if word.publish(0).has_sleepers() && me != 0 {
            self.sleepers.wake_worker(0, word);
        }
        None
    }

    /// Wakes workers for up to `chunks` chunks.
    fn wake_for(&self, chunks: u32) {
        self.sleepers.wake(WAKES.min(chunks as usize), &self.hot.0.word);
    }

    /// Chunks of a phase, or `None` if the dispatch stops.
    ///
    /// # Safety
    /// As for [`Job::phases`].
    unsafe fn count(&self, job: &Job, phase: usize) -> Option<u32> {
        // SAFETY: the caller's promise.
        let phases = unsafe { job.phases() };
        let count = self.guarded(|| {
            let count = phases.chunks(phase);
            assert!(count <= MAX_CHUNKS as usize, "phase {phase} has {count} chunks");
            count as u32
        })?;
        (!self.hot.0.stop.load(Ordering::Relaxed)).then_some(count)
    }

    /// Runs a chunk. The dispatch goes on, or breaks off after a cancellation or a panic, whether before the chunk or in it.
    ///
    /// # Safety
    /// As for [`Job::phases`].
    #[inline]
    unsafe fn run_chunk(&self, me: usize, job: &Job, phase: usize, chunk: u32) -> ControlFlow<()> {
        if self.hot.0.stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        // SAFETY: the caller's promise.
        let (phases, cancelled) = unsafe { (job.phases(), job.is_cancelled()) };
        if cancelled {
            self.stop(Error::Cancelled);
            return ControlFlow::Break(());
        }
        match self.guarded(|| phases.run(phase, chunk as usize, me)) {
            Some(()) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
        }
    }

    /// The result of `f`, or `None` after a panic in it, which stops the dispatch.
    #[inline]
    fn guarded<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => Some(result),
            Err(payload) => {
                self.stop(Error::Panic(panic_message(&*payload)));
                // A payload may panic when it is dropped; what that leaves is not worth a third try.
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                    std::mem::forget(payload);
                }
                None
            }
        }
    }

    /// Lets all workers skip what is left of the dispatch. The first panic is reported, else the cancellation.
    #[cold]
    fn stop(&self, error: Error) {
        let mut fault = self.fault();
        if matches!(*fault, None | Some(Error::Cancelled)) {
            *fault = Some(error);
        }
        drop(fault);
        self.hot.0.stop.store(true, Ordering::Relaxed);
    }

    fn fault(&self) -> MutexGuard<'_, Option<Error>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a worker without work spins, for tests.
    #[cfg(test)]
    pub(super) fn spin(&self) -> Duration {
        self.spin
    }

    /// What sleeps, for tests.
    #[cfg(all(test, not(loom)))]
    pub(super) fn asleep(&self) -> usize {
        self.sleepers.asleep()
    }
}

/// The message of a panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
