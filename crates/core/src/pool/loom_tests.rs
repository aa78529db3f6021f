//! Models of the protocol: all interleavings up to a number of preemptions, with all values that the memory order lets a
//! load return. Workers never spin here, so that every wait goes through sleep. A chunk writes a cell that later phases
//! read; loom reports a missing order between the two, a chunk that runs twice, a worker that never wakes and a job that
//! is read while it is written.

use std::panic::resume_unwind;
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::{CancelToken, Phases, Pool};
use crate::error::Error;

/// Explores `body` with up to `preemptions` preemptions.
fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

fn pool(width: usize) -> Pool {
    Pool::with_spin(width, Duration::ZERO).unwrap()
}

/// What the chunks do besides writing their cell.
enum Special {
    Nothing,
    /// This chunk panics.
    Panic(usize, usize),
    /// This chunk cancels the step.
    Cancel(usize, usize, CancelToken),
}

/// Phases whose chunks write a cell each, after reading all cells of the phases before.
struct Cells {
    cells: Vec<Vec<UnsafeCell<u32>>>,
    special: Special,
}

// SAFETY: that chunks share the cells without a race is what loom checks.
unsafe impl Sync for Cells {}

impl Cells {
    fn new(counts: &[usize], special: Special) -> Cells {
        let cells = counts.iter().map(|&n| (0..n).map(|_| UnsafeCell::new(0)).collect()).collect();
        Cells { cells, special }
    }

    /// How often the chunks of a phase ran.
    fn ran(&self, phase: usize) -> Vec<u32> {
        // SAFETY: loom checks that nobody writes.
        self.cells[phase].iter().map(|cell| cell.with(|cell| unsafe { *cell })).collect()
    }

    /// Whether every chunk ran once.
    fn is_complete(&self) -> bool {
        (0..self.cells.len()).all(|phase| self.ran(phase).iter().all(|&n| n == 1))
    }
}

impl Phases for Cells {
    fn len(&self) -> usize {
        self.cells.len()
    }

    fn chunks(&self, phase: usize) -> usize {
        self.cells[phase].len()
    }

    fn run(&self, phase: usize, chunk: usize, _: usize) {
        for before in 0..phase {
            assert!(self.ran(before).iter().all(|&n| n == 1));
        }
        // SAFETY: loom checks that nobody else uses the cell.
        self.cells[phase][chunk].with_mut(|cell| unsafe { *cell += 1 });
        match &self.special {
            Special::Panic(p, c) if (*p, *c) == (phase, chunk) => resume_unwind(Box::new("chunk")),
            Special::Cancel(p, c, token) if (*p, *c) == (phase, chunk) => token.cancel(),
            _ => {}
        }
    }
}

/// Runs phases of so many chunks.
fn complete(pool: &Pool, counts: &[usize]) {
    let cells = Cells::new(counts, Special::Nothing);
    assert_eq!(pool.run(&cells, 0..counts.len(), None), Ok(()));
    assert!(cells.is_complete());
}

#[test]
fn loom_phases_follow_each_other() {
    model(3, || complete(&pool(2), &[2, 2]));
}

#[test]
fn loom_single_chunks_need_no_claim() {
    model(3, || complete(&pool(2), &[1, 2, 0, 1, 2, 1]));
}

#[test]
fn loom_three_workers() {
    model(2, || complete(&pool(3), &[3, 2]));
}

#[test]
fn loom_a_late_worker_meets_the_next_dispatch() {
    model(3, || {
        let pool = pool(2);
        complete(&pool, &[2]);
        complete(&pool, &[3]);
    });
}

#[test]
fn loom_shutdown() {
    model(4, || drop(pool(2)));
    model(3, || drop(pool(3)));
}

#[test]
fn loom_panic() {
    for chunk in 0..2 {
        model(3, move || {
            let pool = pool(2);
            let cells = Cells::new(&[2, 2], Special::Panic(0, chunk));
            assert_eq!(pool.run(&cells, 0..2, None), Err(Error::Panic("chunk".to_owned())));
            assert_eq!(cells.ran(0)[chunk], 1);
            assert_eq!(cells.ran(1), [0, 0]);
            complete(&pool, &[2]);
        });
    }
}

#[test]
fn loom_cancel_from_a_chunk() {
    model(3, || {
        let (pool, token) = (pool(2), CancelToken::new());
        let cells = Cells::new(&[3, 2], Special::Cancel(0, 1, token.clone()));
        match pool.run(&cells, 0..2, Some(&token)) {
            Ok(()) => assert!(cells.is_complete()),
            error => assert_eq!((error, cells.is_complete()), (Err(Error::Cancelled), false)),
        }
        complete(&pool, &[2]);
    });
}

#[test]
fn loom_cancel_from_another_thread() {
    model(2, || {
        let (pool, token) = (pool(2), CancelToken::new());
        let other = token.clone();
        let canceller = thread::spawn(move || other.cancel());
        let cells = Cells::new(&[2, 2], Special::Nothing);
        match pool.run(&cells, 0..2, Some(&token)) {
            Ok(()) => assert!(cells.is_complete()),
            error => assert_eq!((error, cells.is_complete()), (Err(Error::Cancelled), false)),
        }
        canceller.join().unwrap();
    });
}

#[test]
fn loom_dispatch_from_two_threads() {
    model(2, || {
        let (pool, running) = (Arc::new(pool(2)), Arc::new(AtomicUsize::new(0)));
        let (other, others) = (pool.clone(), running.clone());
        let step = |pool: &Pool, running: &AtomicUsize| {
            complete(pool, &[2]);
            running.fetch_add(1, Ordering::Relaxed);
        };
        let caller = thread::spawn(move || step(&other, &others));
        step(&pool, &running);
        caller.join().unwrap();
        assert_eq!(running.load(Ordering::Relaxed), 2);
    });
}
