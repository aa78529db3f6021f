//! An allocator that counts, to test bounds on memory instead of time.
//!
//! Install it in a test binary of its own, then [`measure`]:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: cera_testkit::alloc::Counting = cera_testkit::alloc::Counting;
//!
//! let (list, usage) = cera_testkit::alloc::measure(|| vec![0_u8; 1000]);
//! assert_eq!((usage.allocations, usage.peak_bytes), (1, list.len()));
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with counters per thread.
pub struct Counting;

/// What one thread allocated while it was [`measure`]d.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Calls that allocate or grow.
    pub allocations: usize,
    /// The most bytes that were allocated at once, beyond those of the start.
    pub peak_bytes: usize,
}

#[derive(Clone, Copy)]
struct Counters {
    allocations: usize,
    live: isize,
    peak: isize,
}

thread_local! {
    static COUNTERS: Cell<Counters> = const { Cell::new(Counters { allocations: 0, live: 0, peak: 0 }) };
}

/// Notes that the thread's live bytes change by `change`.
fn note(allocations: usize, change: isize) {
    // A thread that ends may free after its counters are gone; those are not of interest.
    let _ = COUNTERS.try_with(|cell| {
        let Counters { allocations: before, live, peak } = cell.get();
        let live = live + change;
        cell.set(Counters { allocations: before + allocations, live, peak: peak.max(live) });
    });
}

// SAFETY: every method forwards its arguments unchanged to `System`, which fulfils the contract; counting touches only a
// constant-initialized thread-local cell without destructor, so that it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as isize);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as isize);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, -(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`, and every block came from `System`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may exist at once.
        note(1, size as isize);
        note(0, -(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`, and every block came from `System`.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Runs `work` and says what this thread allocated meanwhile.
///
/// # Panics
/// If [`Counting`] is not the global allocator, since then nothing would be counted.
pub fn measure<R>(work: impl FnOnce() -> R) -> (R, Usage) {
    let before = COUNTERS.get().allocations;
    drop(std::hint::black_box(Box::new(0_u8)));
    let start = COUNTERS.get();
    assert_ne!(start.allocations, before, "cera_testkit::alloc::Counting is not the global allocator");
    COUNTERS.set(Counters { peak: start.live, ..start });
    let result = work();
    let end = COUNTERS.get();
    let usage = Usage {
        allocations: end.allocations - start.allocations,
        peak_bytes: (end.peak - start.live).unsigned_abs(),
    };
    (result, usage)
}
