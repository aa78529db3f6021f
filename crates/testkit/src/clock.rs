//! Time that a thread has run, for measurements on machines where others run too.

/// Seconds that this thread has run: what other programs take is not in it.
///
/// # Panics
/// If the system has no such clock.
pub fn thread_seconds() -> f64 {
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
    }
    const THREAD_CPUTIME: i32 = 3;
    let mut time = [0; 2];
    // SAFETY: a `timespec` of 64-bit Linux is two words.
    let result = unsafe { clock_gettime(THREAD_CPUTIME, &mut time) };
    assert_eq!(result, 0, "no clock of the thread");
    time[0] as f64 + 1e-9 * time[1] as f64
}

/// The fewest seconds that this thread takes for one of some runs.
pub fn best(runs: usize, mut f: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..runs {
        let start = thread_seconds();
        f();
        least = least.min(thread_seconds() - start);
    }
    least
}
