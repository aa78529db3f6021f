use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::float_mode::testing as mode;
use super::turn::Turns;
use super::word::{AtomicWord, MAX_CHUNKS};
use super::{CancelToken, Phases, Pool};
use crate::error::Error;

/// Counts of chunks and what a chunk does.
struct Script<F> {
    counts: Vec<usize>,
    chunk: F,
}

impl<F: Fn(usize, usize, usize) + Sync> Phases for Script<F> {
    fn len(&self) -> usize {
        self.counts.len()
    }

    fn chunks(&self, phase: usize) -> usize {
        self.counts[phase]
    }

    fn run(&self, phase: usize, chunk: usize, worker: usize) {
        (self.chunk)(phase, chunk, worker);
    }
}

/// Runs all phases of a script.
fn run(pool: &Pool, counts: &[usize], chunk: impl Fn(usize, usize, usize) + Sync) -> Result<(), Error> {
    pool.run(&Script { counts: counts.to_vec(), chunk }, 0..counts.len(), None)
}

/// Waits for another thread.
fn wait_until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

/// Shows that a pool still runs every chunk.
fn assert_usable(pool: &Pool) {
    let ran = AtomicUsize::new(0);
    let result = run(pool, &[5, 1, 0, 9], |_, _, _| {
        ran.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!((result, ran.into_inner()), (Ok(()), 15));
}

/// Pools that never spin and pools that spin long take different ways through the protocol.
const SPINS: [Duration; 2] = [Duration::ZERO, super::spin::SPIN];

/// Phases that check their own order: no chunk runs twice, before its phase, or together with another of its worker.
struct Checked {
    counts: Vec<usize>,
    first: usize,
    ran: Vec<Vec<AtomicU32>>,
    busy: Vec<AtomicBool>,
}

impl Checked {
    fn new(counts: Vec<usize>, first: usize, width: usize) -> Checked {
        let ran = counts.iter().map(|&n| (0..n).map(|_| AtomicU32::new(0)).collect()).collect();
        Checked { counts, first, ran, busy: (0..width).map(|_| AtomicBool::new(false)).collect() }
    }

    /// How often the chunks of a phase ran.
    fn ran(&self, phase: usize) -> Vec<u32> {
        self.ran[phase].iter().map(|n| n.load(Ordering::Relaxed)).collect()
    }
}

impl Phases for Checked {
    fn len(&self) -> usize {
        self.counts.len()
    }

    fn chunks(&self, phase: usize) -> usize {
        self.counts[phase]
    }

    fn run(&self, phase: usize, chunk: usize, worker: usize) {
        assert!(!self.busy[worker].swap(true, Ordering::Relaxed), "worker {worker} runs two chunks");
        for before in self.first..phase {
            assert!(
                self.ran(before).iter().all(|&n| n == 1),
                "phase {phase} runs before phase {before} has ended"
            );
        }
        self.ran[phase][chunk].fetch_add(1, Ordering::Relaxed);
        self.busy[worker].store(false, Ordering::Relaxed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_chunk_runs_once_and_in_its_phase(
        width in 1_usize..=8,
        spin in 0..SPINS.len(),
        lists in prop::collection::vec(
            (prop::collection::vec(prop_oneof![0_usize..4, 0_usize..50], 0..20), 0_usize..20, 0_usize..20),
            1..6,
        ),
    ) {
        let pool = Pool::with_spin(width, SPINS[spin]).unwrap();
        prop_assert_eq!(pool.width(), width);
        for (counts, a, b) in lists {
            let (a, b) = (a.min(counts.len()), b.min(counts.len()));
            let range = a.min(b)..a.max(b);
            let phases = Checked::new(counts, range.start, width);
            prop_assert_eq!(pool.run(&phases, range.clone(), None), Ok(()));
            for phase in 0..phases.len() {
                let expected = u32::from(range.contains(&phase));
                prop_assert!(phases.ran(phase).iter().all(|&n| n == expected), "phase {}: {:?}", phase, phases.ran(phase));
            }
        }
    }
}

#[test]
fn a_late_claim_gets_a_chunk_of_the_open_phase_or_nothing() {
    let word = AtomicWord::new();
    assert_eq!(word.claim().left(), 0);
    assert!(word.load().is_idle());
    word.publish(3);
    let claims: Vec<_> = (0..4).map(|_| word.claim()).filter(|w| w.left() > 0).map(|w| w.cursor()).collect();
    assert_eq!(claims, [1, 2]);
    assert!(!word.load().is_idle());
    word.publish(4);
    let claim = word.claim();
    assert_eq!((claim.left(), claim.count(), claim.cursor(), claim.done()), (3, 4, 1, 0));
    let next = word.hand_in_and_claim();
    assert_eq!((next.left(), next.count(), next.cursor(), next.done()), (2, 4, 2, 0));
    assert!(!word.hand_in_all());
    assert_eq!((word.claim().left(), word.load().done()), (0, 3));
    let last = word.hand_in_and_claim();
    assert_eq!((last.left(), last.done() + 1), (0, last.count()));
    word.publish(0);
    assert!(word.load().is_idle());
}

#[test]
fn handing_in_all_ends_the_phase_unless_others_hold_claims() {
    let word = AtomicWord::new();
    word.publish(6);
    assert!(word.hand_in_all());
    word.publish(6);
    word.claim();
    word.claim();
    assert!(!word.hand_in_all());
    assert_eq!((word.load().left(), word.load().done()), (0, 4));
    assert!(!word.hand_in_all());
    let last = word.hand_in_and_claim();
    assert_eq!((last.left(), last.done() + 1), (0, last.count()));
    word.publish(2);
    word.claim();
    assert_eq!(word.claim().left(), 0);
    assert!(!word.hand_in_all());
    assert!(word.hand_in_all());
}

#[test]
fn the_sleeper_bit_survives_every_other_change() {
    let word = AtomicWord::new();
    assert!(!word.set_sleepers().has_sleepers());
    assert!(word.publish(MAX_CHUNKS).has_sleepers());
    assert!(word.claim().has_sleepers());
    assert!(word.hand_in_and_claim().has_sleepers());
    assert!(!word.hand_in_all());
    assert!(word.hand_in_and_claim().has_sleepers());
    let now = word.load();
    assert_eq!((now.count(), now.left(), now.done(), now.has_sleepers()), (MAX_CHUNKS, 0, MAX_CHUNKS, true));
    word.clear_sleepers();
    assert!(!word.publish(0).has_sleepers());
}

#[test]
fn a_delayed_worker_delays_no_chunk_but_its_own() {
    for (width, spin) in [2, 3, 8].into_iter().flat_map(|w| SPINS.map(|s| (w, s))) {
        let pool = Pool::with_spin(width, spin).unwrap();
        for round in 0..20 {
            let others = AtomicUsize::new(0);
            let result = run(&pool, &[50, 50], |phase, chunk, _| {
                if (phase, chunk) == (0, round) {
                    wait_until(|| others.load(Ordering::Relaxed) == 49);
                }
                others.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!((result, others.into_inner()), (Ok(()), 100));
        }
    }
}

#[test]
fn workers_that_never_arrive_delay_nothing() {
    let pool = Pool::without_threads(4, super::spin::SPIN);
    for _ in 0..10 {
        assert_usable(&pool);
    }
}

#[test]
fn a_worker_that_arrives_late_joins_in() {
    let pool = Pool::without_threads(2, Duration::ZERO);
    assert_usable(&pool);
    std::thread::scope(|scope| {
        let (arrived, shared) = (AtomicBool::new(false), pool.shared.clone());
        let result = run(&pool, &[3, 2], |phase, _, worker| {
            if phase == 0 && !arrived.swap(true, Ordering::Relaxed) {
                let shared = shared.clone();
                scope.spawn(move || shared.serve(1));
            }
            if phase == 1 && worker == 0 {
                wait_until(|| !arrived.load(Ordering::Relaxed));
            }
            if phase == 1 && worker == 1 {
                arrived.store(false, Ordering::Relaxed);
            }
        });
        assert_eq!(result, Ok(()));
        assert_usable(&pool);
        pool.shared.close();
    });
}

#[test]
fn all_workers_take_part_and_have_names() {
    let pool = Pool::new(4).unwrap();
    let names = Mutex::new(BTreeSet::new());
    let result = run(&pool, &[4], |_, _, worker| {
        let name = std::thread::current().name().map(str::to_owned);
        names.lock().unwrap().insert((worker, if worker == 0 { None } else { name }));
        wait_until(|| names.lock().unwrap().len() == 4);
    });
    assert_eq!(result, Ok(()));
    let named = |worker: usize| (worker, (worker > 0).then(|| format!("cera-{worker}")));
    assert_eq!(names.into_inner().unwrap(), (0..4).map(named).collect());
}

#[test]
fn a_pool_of_one_runs_on_the_calling_thread() {
    for pool in [Pool::new(0).unwrap(), Pool::new(1).unwrap(), Pool::single()] {
        assert_eq!((pool.width(), pool.threads.len()), (1, 0));
        let (caller, order) = (std::thread::current().id(), Mutex::new(Vec::new()));
        let result = run(&pool, &[2, 0, 3, 1], |phase, chunk, worker| {
            assert_eq!((std::thread::current().id(), worker), (caller, 0));
            order.lock().unwrap().push((phase, chunk));
        });
        assert_eq!(result, Ok(()));
        assert_eq!(order.into_inner().unwrap(), [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2), (3, 0)]);
    }
}

#[test]
fn ten_thousand_cancelled_steps_leave_the_pool_usable() {
    let counts = [3, 1, 17, 0, 2, 40];
    let all: usize = counts.iter().sum();
    let pool = Pool::new(2).unwrap();
    let mut cancelled = 0;
    for round in 0..10_000 {
        let (token, at) = (CancelToken::new(), round % (all + 5));
        let ran = AtomicUsize::new(0);
        let phases = Script {
            counts: counts.to_vec(),
            chunk: |_, _, _| {
                if ran.fetch_add(1, Ordering::Relaxed) == at {
                    token.clone().cancel();
                }
            },
        };
        let result = pool.run(&phases, 0..counts.len(), Some(&token));
        let ran = ran.load(Ordering::Relaxed);
        // The other worker may finish the step before it sees the request.
        match result {
            Ok(()) => assert_eq!(ran, all, "cancelled at {at}"),
            Err(Error::Cancelled) => {
                assert!(ran > at && ran < all, "cancelled at {at}, ran {ran}");
                cancelled += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(cancelled > 5_000, "{cancelled}");
    assert_usable(&pool);
}

#[test]
fn a_step_can_be_cancelled_from_another_thread_and_before_it_begins() {
    let pool = Pool::new(2).unwrap();
    let (token, began) = (CancelToken::default(), AtomicBool::new(false));
    let phases = Script {
        counts: vec![1_000; 1_000],
        chunk: |_, _, _| {
            began.store(true, Ordering::Relaxed);
            wait_until(|| token.is_cancelled());
        },
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(|| began.load(Ordering::Relaxed));
            token.cancel();
        });
        assert_eq!(pool.run(&phases, 0..1_000, Some(&token)), Err(Error::Cancelled));
    });
    began.store(false, Ordering::Relaxed);
    assert_eq!(pool.run(&phases, 0..1_000, Some(&token)), Err(Error::Cancelled));
    assert!(!began.load(Ordering::Relaxed));
    assert_usable(&pool);
}

/// The result of a phase of two chunks, one on each of two workers, of which one panics with `payload`.
fn panic_in(
    pool: &Pool,
    worker: usize,
    payload: impl Fn() -> Box<dyn std::any::Any + Send> + Sync,
) -> Result<(), Error> {
    let (begun, later) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let result = run(pool, &[2, 2], |phase, _, me| {
        later.fetch_add(phase, Ordering::Relaxed);
        begun.fetch_add(1, Ordering::Relaxed);
        wait_until(|| begun.load(Ordering::Relaxed) >= 2);
        if me == worker {
            std::panic::resume_unwind(payload());
        }
    });
    assert_eq!((begun.into_inner(), later.into_inner()), (2, 0));
    result
}

/// A panic payload that panics again.
struct Stubborn;

impl Drop for Stubborn {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("again"));
    }
}

#[test]
fn a_panic_in_any_worker_is_an_error_of_the_step() {
    for spin in SPINS {
        let pool = Pool::with_spin(2, spin).unwrap();
        for worker in [0, 1, 1, 0] {
            let panic = |text: &str| Err(Error::Panic(text.to_owned()));
            assert_eq!(panic_in(&pool, worker, || Box::new("borrowed")), panic("borrowed"));
            assert_eq!(
                panic_in(&pool, worker, || Box::new(format!("owned by {worker}"))),
                panic(&format!("owned by {worker}"))
            );
            assert_eq!(panic_in(&pool, worker, || Box::new(7)), panic("no message"));
            assert_eq!(panic_in(&pool, worker, || Box::new(Stubborn)), panic("no message"));
            assert_usable(&pool);
        }
    }
}

#[test]
fn a_panic_skips_what_is_left() {
    let pool = Pool::new(2).unwrap();
    let ran = AtomicUsize::new(0);
    let result = run(&pool, &[1, 1_000_000, 1_000_000], |phase, _, _| {
        if phase == 1 {
            std::panic::resume_unwind(Box::new("early"));
        }
        ran.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!((result, ran.into_inner()), (Err(Error::Panic("early".to_owned())), 1));
    assert_usable(&pool);
}

#[test]
fn a_panic_is_reported_before_a_cancellation() {
    let pool = Pool::new(2).unwrap();
    let (token, begun) = (CancelToken::new(), AtomicUsize::new(0));
    let phases = Script {
        counts: vec![3],
        chunk: |_, _, worker| {
            begun.fetch_add(1, Ordering::Relaxed);
            wait_until(|| begun.load(Ordering::Relaxed) >= 2);
            token.cancel();
            if worker == 1 {
                std::panic::resume_unwind(Box::new("first"));
            }
        },
    };
    assert_eq!(pool.run(&phases, 0..1, Some(&token)), Err(Error::Panic("first".to_owned())));
    assert_usable(&pool);
}

/// Phases that cannot say how many chunks they have.
struct Countless(usize);

impl Phases for Countless {
    fn len(&self) -> usize {
        3
    }

    fn chunks(&self, phase: usize) -> usize {
        match (phase, self.0) {
            (2, 0) => std::panic::resume_unwind(Box::new("no count")),
            (2, count) => count,
            _ => 2,
        }
    }

    fn run(&self, phase: usize, _: usize, _: usize) {
        assert!(phase < 2);
    }
}

#[test]
fn a_phase_without_a_usable_count_is_an_error() {
    let pool = Pool::new(2).unwrap();
    assert_eq!(pool.run(&Countless(0), 0..3, None), Err(Error::Panic("no count".to_owned())));
    let result = pool.run(&Countless(MAX_CHUNKS as usize + 1), 0..3, None);
    assert!(matches!(&result, Err(Error::Panic(text)) if text.contains("1048577 chunks")), "{result:?}");
    assert_usable(&pool);
}

#[test]
fn a_step_inside_of_a_step_is_an_error() {
    let (pool, other) = (Pool::new(2).unwrap(), Pool::single());
    let results = Mutex::new(Vec::new());
    let result = run(&pool, &[2], |_, _, worker| {
        let inner = [run(&pool, &[1], |_, _, _| {}), run(&other, &[1], |_, _, _| {})];
        results.lock().unwrap().push((worker, inner));
        wait_until(|| results.lock().unwrap().len() == 2);
    });
    assert_eq!(result, Ok(()));
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|&(worker, _)| worker);
    let nested = || [Err(Error::Nested), Err(Error::Nested)];
    assert_eq!(results, [(0, nested()), (1, nested())]);
    assert_usable(&pool);
    assert_usable(&other);
}

#[test]
fn many_more_workers_than_processors_finish() {
    for spin in SPINS {
        let pool = Pool::with_spin(16, spin).unwrap();
        let counts: Vec<usize> = (0..3_000).map(|phase| [16, 1, 33, 2][phase % 4]).collect();
        let (ran, work) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let result = run(&pool, &counts, |_, chunk, _| {
            ran.fetch_add(1, Ordering::Relaxed);
            work.fetch_add((0..200).fold(chunk, |a, b| std::hint::black_box(a ^ b)), Ordering::Relaxed);
        });
        assert_eq!((result, ran.into_inner()), (Ok(()), counts.iter().sum()));
    }
}

#[test]
fn workers_without_work_fall_asleep_and_wake_again() {
    for spin in SPINS {
        let pool = Pool::with_spin(4, spin).unwrap();
        for _ in 0..50 {
            wait_until(|| pool.shared.asleep() == 3);
            let present = AtomicUsize::new(0);
            let result = run(&pool, &[4], |_, _, _| {
                present.fetch_add(1, Ordering::Relaxed);
                wait_until(|| present.load(Ordering::Relaxed) == 4);
            });
            assert_eq!(result, Ok(()));
        }
    }
}

#[test]
fn the_caller_sleeps_while_another_worker_runs_the_last_chunk() {
    let pool = Pool::new(2).unwrap();
    for _ in 0..50 {
        let claimed = AtomicUsize::new(0);
        let result = run(&pool, &[2, 2], |_, _, worker| {
            let all = claimed.fetch_add(1, Ordering::Relaxed);
            wait_until(|| claimed.load(Ordering::Relaxed) >= 2 * (all / 2 + 1));
            if worker == 1 {
                wait_until(|| pool.shared.asleep() == 1);
            }
        });
        assert_eq!((result, claimed.into_inner()), (Ok(()), 4));
    }
}

#[test]
fn an_idle_pool_ends_its_threads_when_dropped() {
    for spin in SPINS {
        for asleep in [true, false] {
            let pool = Pool::with_spin(4, spin).unwrap();
            assert_usable(&pool);
            if asleep {
                wait_until(|| pool.shared.asleep() == 3);
            }
            let shared = std::sync::Arc::downgrade(&pool.shared);
            drop(pool);
            assert_eq!(shared.strong_count(), 0);
        }
    }
}

#[test]
fn steps_of_several_threads_run_one_after_the_other() {
    for (width, spin) in [1, 2, 3].into_iter().flat_map(|w| SPINS.map(|s| (w, s))) {
        let pool = Pool::with_spin(width, spin).unwrap();
        let running = AtomicUsize::new(usize::MAX);
        std::thread::scope(|scope| {
            for caller in 0..3 {
                let (pool, running) = (&pool, &running);
                scope.spawn(move || {
                    for _ in 0..300 {
                        let ran = AtomicUsize::new(0);
                        let result = run(pool, &[1, 3, 5, 1], |phase, _, _| {
                            match phase {
                                0 => assert_eq!(running.swap(caller, Ordering::Relaxed), usize::MAX),
                                3 => assert_eq!(running.swap(usize::MAX, Ordering::Relaxed), caller),
                                _ => assert_eq!(running.load(Ordering::Relaxed), caller),
                            }
                            ran.fetch_add(1, Ordering::Relaxed);
                        });
                        assert_eq!((result, ran.into_inner()), (Ok(()), 10));
                    }
                });
            }
        });
    }
}

#[test]
fn turns_come_in_the_order_of_arrival() {
    let (turns, order) = (Turns::new(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let first = turns.take();
        for caller in 0..4 {
            let (turns, order) = (&turns, &order);
            scope.spawn(move || {
                let _turn = turns.take();
                order.lock().unwrap().push(caller);
            });
            wait_until(|| turns.len() == caller + 2);
        }
        drop(first);
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3]);
    assert_eq!(turns.len(), 0);
}

#[test]
fn chunks_see_the_default_float_mode_whatever_the_caller_has_set() {
    if !mode::SUPPORTED {
        return;
    }
    let pool = Pool::new(2).unwrap();
    for fault in [false, true] {
        let (seen, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
        mode::set_flush();
        let before = mode::flushes();
        let result = run(&pool, &[1, 2], |phase, _, _| {
            let tiny = std::hint::black_box(f32::MIN_POSITIVE) * std::hint::black_box(0.5);
            seen.fetch_add(
                usize::from(mode::is_default() && tiny.to_bits() == 0x0040_0000),
                Ordering::Relaxed,
            );
            begun.fetch_add(phase, Ordering::Relaxed);
            wait_until(|| phase == 0 || begun.load(Ordering::Relaxed) == 2);
            if phase == 1 && fault {
                std::panic::resume_unwind(Box::new("in the default mode"));
            }
        });
        let after = mode::flushes();
        mode::set_default();
        assert_eq!((result.is_err(), seen.into_inner(), before, after), (fault, 3, true, true));
    }
    run(&pool, &[1], |_, _, _| ()).unwrap();
    assert!(mode::is_default());
}

/// The system's allocator, and how often the calling thread has used it.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all of it is the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_dispatch_allocates_nothing() {
    for spin in SPINS {
        let (pool, token) = (Pool::with_spin(2, spin).unwrap(), CancelToken::new());
        let (begun, worker_1) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(400)));
        let phases = Script {
            counts: vec![2, 1, 0, 2],
            chunk: |_, _, worker| {
                // Both workers take part in every phase of two chunks.
                let all = begun.fetch_add(1, Ordering::Relaxed);
                let pair = if all % 5 < 2 { 2 } else { 5 };
                wait_until(|| all % 5 == 2 || begun.load(Ordering::Relaxed) >= all / 5 * 5 + pair);
                if worker == 1 {
                    worker_1.lock().unwrap().push(ALLOCATIONS.get());
                }
            },
        };
        // The first dispatch may prepare what the system wants for each thread and lock.
        pool.run(&phases, 0..4, Some(&token)).unwrap();
        worker_1.lock().unwrap().clear();
        let before = ALLOCATIONS.get();
        for _ in 0..100 {
            pool.run(&phases, 0..4, Some(&token)).unwrap();
        }
        assert_eq!(ALLOCATIONS.get(), before);
        let worker_1 = worker_1.into_inner().unwrap();
        assert!(worker_1.len() >= 200 && worker_1.iter().all(|n| *n == worker_1[0]), "{worker_1:?}");
    }
    assert_ne!(ALLOCATIONS.get(), 0);
}

/// Prints what phases cost: the least time of a phase of a dispatch in which worker 1 took at least two fifths of the
/// chunks, over the time of one worker for its share of them.
#[test]
#[ignore = "a measurement: cargo test --release -p cera-core --lib -- --ignored --nocapture measure_phases"]
fn measure_phases() {
    let pools = [Pool::single(), Pool::new(2).unwrap()];
    for (work, chunks) in [(0, 1), (0, 2), (500, 2), (500, 8), (5_000, 2), (5_000, 8)] {
        let helped = AtomicUsize::new(0);
        let phases = Script {
            counts: vec![chunks; 100],
            chunk: |_, chunk, worker| {
                std::hint::black_box((0..work).fold(chunk, |a, b| std::hint::black_box(a ^ b)));
                helped.fetch_add(worker, Ordering::Relaxed);
            },
        };
        let least = |pool: &Pool, needed: usize| {
            let mut times = Vec::new();
            for _ in 0..300 {
                helped.store(0, Ordering::Relaxed);
                let start = std::time::Instant::now();
                pool.run(&phases, 0..100, None).unwrap();
                let time = start.elapsed().as_nanos() / 100;
                times.extend((helped.load(Ordering::Relaxed) >= needed).then_some(time));
            }
            times.iter().min().copied()
        };
        let alone = least(&pools[0], 0).unwrap();
        let any = least(&pools[1], 0).unwrap();
        let shared = least(&pools[1], 40 * chunks);
        println!(
            "work {work:4}, {chunks} chunks: one worker {alone} ns, two {any} ns, both at work {shared:?} ns"
        );
    }
}
