//! How many threads compute, and on which cores: the affinity mask, the CPU quota and the physical performance cores
//! decide.

mod cgroup;
mod cpuset;
mod native;
mod pin;
mod topology;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::str::FromStr;
use std::thread;

use thiserror::Error;

use crate::settings::{Setting, Source, THREADS_VARIABLE};

pub use cgroup::CpuQuota;
pub use cpuset::CpuSet;
pub(crate) use pin::bind;
pub use pin::{PinError, PinMode, PinModeError, PinReason, Pinning};
pub use topology::{Core, CoreClass, Cores};

/// A number of threads that can be asked for: from 1 to [`ThreadCount::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadCount(NonZeroUsize);

impl ThreadCount {
    /// The largest number that is not taken for a mistake.
    pub const MAX: usize = 4096;

    /// This many threads.
    ///
    /// # Errors
    /// If there are none, or more than [`ThreadCount::MAX`].
    pub fn new(threads: usize) -> Result<ThreadCount, ThreadCountError> {
        NonZeroUsize::new(threads)
            .filter(|n| n.get() <= ThreadCount::MAX)
            .map(ThreadCount)
            .ok_or_else(|| ThreadCountError { found: threads.to_string() })
    }

    /// The number.
    pub fn get(self) -> usize {
        self.0.get()
    }
}

impl fmt::Display for ThreadCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ThreadCount {
    type Err = ThreadCountError;

    /// Decimal digits and nothing else.
    fn from_str(text: &str) -> Result<ThreadCount, ThreadCountError> {
        let error = || ThreadCountError { found: text.to_owned() };
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(error());
        }
        ThreadCount::new(text.parse().map_err(|_| error())?)
    }
}

/// Something that is not a number of threads.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{found:?} is not a number of threads; expected a whole number from 1 to {max}", max = ThreadCount::MAX)]
pub struct ThreadCountError {
    /// What was given.
    pub found: String,
}

/// What the machine and its administrator say about the CPUs of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WidthFacts {
    /// CPUs that the affinity mask allows; at least 1.
    pub allowed: usize,
    /// CPUs of the machine that are online, where known.
    pub online: Option<usize>,
    /// Physical cores that the allowed CPUs belong to, where known.
    pub cores: Option<Cores>,
    /// The tightest CPU quota, if there is one.
    pub quota: Option<CpuQuota>,
}

/// The cores of this process, and what they say about its width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Numbers.
    pub facts: WidthFacts,
    /// The physical cores that the allowed CPUs belong to, by ascending CPU; none where the system does not say which CPUs
    /// belong to which core.
    pub cores: Vec<Core>,
}

impl Machine {
    /// This process and this machine, as of now.
    pub fn native() -> Machine {
        native::machine()
    }

    /// What is under a directory that holds `proc` and `sys`, for a process with an affinity mask, or, where that cannot be
    /// read, with `fallback` CPUs. The mask is believed over sysfs, which in a container may show the host.
    pub fn read(root: &Path, mask: Option<&CpuSet>, fallback: usize) -> Machine {
        let online = topology::online(root);
        let cores = mask.or(online.as_ref()).map_or(Vec::new(), |cpus| topology::cores(root, cpus));
        let counts = cores.iter().map(|core| core.class).collect();
        let facts = WidthFacts {
            allowed: mask.map_or(fallback, CpuSet::len).max(1),
            online: online.map(|set| set.len()),
            cores: (!cores.is_empty()).then_some(counts),
            quota: cgroup::quota(root),
        };
        Machine { facts, cores }
    }
}

/// How many of so many threads run at the same time: no more than there are processors for this process, and at least 1.
/// Threads beyond that add nothing to work that is shared out evenly, and cost the more the more they are.
pub(crate) fn running_at_once(threads: usize) -> usize {
    threads.min(thread::available_parallelism().map_or(usize::MAX, NonZeroUsize::get)).max(1)
}

/// What decided the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WidthReason {
    /// Somebody asked for it.
    Requested(Source),
    /// The CPU quota, rounded down.
    Quota,
    /// The affinity mask.
    Affinity,
    /// The physical performance cores.
    Cores,
    /// The number of CPUs, of which nothing else is known.
    Cpus,
}

/// The number of threads that compute, and why. It prints as a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    /// The number; at least 1.
    pub threads: usize,
    /// What decided it.
    pub reason: WidthReason,
    /// What it was decided from.
    pub facts: WidthFacts,
}

impl Width {
    /// The width asked for, or the default: the smallest of the allowed CPUs, the quota rounded down and the physical
    /// performance cores, and at least 1.
    pub fn choose(asked: &Setting<ThreadCount>, facts: WidthFacts) -> Width {
        if let Some(threads) = asked.get() {
            return Width { threads: threads.get(), reason: WidthReason::Requested(asked.source()), facts };
        }
        let (limit, reason) = match facts.cores {
            Some(cores) if cores.performance() < facts.allowed => (cores.performance(), WidthReason::Cores),
            _ if facts.online.is_some_and(|online| online > facts.allowed) => {
                (facts.allowed, WidthReason::Affinity)
            }
            Some(_) => (facts.allowed, WidthReason::Cores),
            None => (facts.allowed, WidthReason::Cpus),
        };
        let (limit, reason) = match facts.quota.map(CpuQuota::whole_cpus) {
            Some(quota) if quota < limit => (quota, WidthReason::Quota),
            _ => (limit, reason),
        };
        Width { threads: limit.max(1), reason, facts }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Width { threads, reason, facts } = *self;
        let allowed = facts.allowed;
        let cpus = if allowed == 1 { "CPU" } else { "CPUs" };
        write!(f, "{threads} thread{}: ", if threads == 1 { "" } else { "s" })?;
        match (reason, facts) {
            (WidthReason::Requested(Source::Environment), _) => write!(f, "set by {THREADS_VARIABLE}"),
            (WidthReason::Requested(_), _) => f.write_str("as asked for"),
            (WidthReason::Quota, WidthFacts { quota: Some(quota), .. }) => {
                write!(f, "the CPU quota is {:.2} CPUs, rounded down", quota.cpus())
            }
            (WidthReason::Affinity, WidthFacts { online: Some(online), .. }) => {
                write!(f, "the affinity mask allows {allowed} of {online} CPUs")
            }
            (WidthReason::Cores, WidthFacts { cores: Some(cores), .. }) if cores.little > 0 => {
                write!(f, "one for each fast core of {} cores ({allowed} {cpus})", cores.all())
            }
            (WidthReason::Cores, _) => write!(f, "one for each physical core ({allowed} {cpus})"),
            (WidthReason::Quota | WidthReason::Affinity | WidthReason::Cpus, _) => {
                write!(f, "for {allowed} {cpus}, of which nothing else is known")
            }
        }
    }
}

#[cfg(test)]
mod tests;
