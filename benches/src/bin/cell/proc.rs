//! What Linux says of this process.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Memory of the process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Resident now, pages of mapped files included.
    pub(crate) resident: u64,
    /// The most that was resident.
    pub(crate) peak: u64,
}

/// The memory of this process.
///
/// # Errors
/// If the system does not tell.
pub(crate) fn memory() -> Result<Memory> {
    let status = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    parse_status(&status).context("/proc/self/status lacks VmRSS or VmHWM")
}

fn parse_status(status: &str) -> Option<Memory> {
    let bytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Memory { resident: bytes("VmRSS")?, peak: bytes("VmHWM")? })
}

/// The time that the threads of this process have run.
///
/// # Errors
/// If the system does not tell.
pub(crate) fn cpu_time() -> Result<Duration> {
    let mut total = Duration::ZERO;
    for task in fs::read_dir("/proc/self/task").context("cannot list /proc/self/task")? {
        let path = task?.path().join("schedstat");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        total += parse_schedstat(&text).with_context(|| format!("{} has no times", path.display()))?;
    }
    Ok(total)
}

/// The time on a processor, the first of three numbers, in nanoseconds.
fn parse_schedstat(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kibibytes() {
        let status = "Name:\tcell\nVmPeak:\t  900 kB\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\nThreads:\t1\n";
        assert_eq!(parse_status(status), Some(Memory { resident: 200 << 10, peak: 300 << 10 }));
        assert_eq!(parse_status("VmRSS:\t 1 kB\n"), None);
        assert_eq!(parse_status("VmRSS:\t 1 MB\nVmHWM:\t 1 kB\n"), None);
    }

    #[test]
    fn processor_time_is_the_first_number() {
        assert_eq!(parse_schedstat("1500 20 3\n"), Some(Duration::from_nanos(1500)));
        assert_eq!(parse_schedstat(""), None);
        assert_eq!(parse_schedstat("x 1 2"), None);
    }
}
