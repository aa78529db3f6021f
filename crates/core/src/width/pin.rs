//! Binding workers to cores.
//!
//! A worker is bound to one CPU of a core of its own, the calling thread never: it belongs to the caller. The fastest core
//! is left to it. Unless it is asked for, workers are bound only where that keeps them off cores that would hold them up,
//! and where nothing can be lost: no worker shares its core with another, none of the fast cores is left over, which
//! another process of this kind would then leave idle too, and no quota says that the cores are shared out.

use std::fmt;
use std::str::FromStr;

use core_affinity::CoreId;
use thiserror::Error;

use super::topology::{Core, CoreClass};
use super::{Machine, Width};
use crate::settings::{PIN_VARIABLE, Setting, Source};

/// Whether workers are bound to cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PinMode {
    /// Where the machine has little cores and each fast core gets a worker.
    Auto,
    /// Never.
    Off,
    /// Always, the fast cores first; workers beyond the number of cores are not bound.
    On,
}

impl PinMode {
    const ALL: [PinMode; 3] = [PinMode::Auto, PinMode::Off, PinMode::On];

    /// The name, as in `CERA_PIN`.
    pub const fn name(self) -> &'static str {
        match self {
            PinMode::Auto => "auto",
            PinMode::Off => "off",
            PinMode::On => "on",
        }
    }
}

impl fmt::Display for PinMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PinMode {
    type Err = PinModeError;

    /// The mode with exactly this name.
    fn from_str(text: &str) -> Result<PinMode, PinModeError> {
        PinMode::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| PinModeError { found: text.to_owned() })
    }
}

/// Something that is not a way to bind workers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{found:?} is not a way to bind workers to cores; expected auto, off or on")]
pub struct PinModeError {
    /// What was given.
    pub found: String,
}

/// Why workers cannot be bound although that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PinError {
    /// The system does not say which CPUs belong to which core.
    #[error("workers cannot be bound to cores: this system does not tell its cores apart")]
    UnknownCores,
    /// The system did not bind a thread, or bound it to something else.
    #[error("worker {worker} cannot be bound to CPU {cpu}: the system refuses")]
    Refused {
        /// The worker.
        worker: usize,
        /// The CPU.
        cpu: usize,
    },
}

/// Why workers are bound or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinReason {
    /// Somebody asked for it.
    Requested(Source),
    /// There are slow cores to keep off.
    LittleCores,
    /// There is nothing to keep off.
    NoLittleCores,
    /// A quota says that the cores are shared.
    Quota,
    /// There are more or fewer threads than fast cores.
    Threads,
    /// It is not known which CPUs belong to which core.
    UnknownCores,
    /// The same, although somebody asked for it.
    Impossible,
}

/// Which workers are bound to which CPUs, and why. It prints as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinning {
    /// The CPU of worker 1 and those after it. Worker 0 is the calling thread.
    pub cpus: Vec<usize>,
    /// Why.
    pub reason: PinReason,
}

impl Pinning {
    /// The pinning that is asked for, or the default, for a pool of this width.
    pub fn choose(asked: &Setting<PinMode>, width: &Width, machine: &Machine) -> Pinning {
        let mut cores: Vec<Core> = machine.cores.clone();
        // The fastest first; of equal ones the lowest.
        cores.sort_by_key(|core| (std::cmp::Reverse((core.class, core.capacity)), core.cpu));
        let fast = cores.iter().filter(|core| core.class != CoreClass::Little).count();
        let none = |reason| Pinning { cpus: Vec::new(), reason };
        let reason = match asked.get().copied().unwrap_or(PinMode::Auto) {
            PinMode::Off => return none(PinReason::Requested(asked.source())),
            PinMode::On if cores.is_empty() => return none(PinReason::Impossible),
            _ if cores.is_empty() => return none(PinReason::UnknownCores),
            PinMode::On => PinReason::Requested(asked.source()),
            PinMode::Auto if fast == cores.len() => return none(PinReason::NoLittleCores),
            PinMode::Auto if machine.facts.quota.is_some() => return none(PinReason::Quota),
            PinMode::Auto if width.threads != fast => return none(PinReason::Threads),
            PinMode::Auto => PinReason::LittleCores,
        };
        let cpus = cores.iter().take(width.threads).skip(1).map(|core| core.cpu).collect();
        Pinning { cpus, reason }
    }

    /// The CPU of a worker that is to be bound.
    pub fn cpu(&self, worker: usize) -> Option<usize> {
        self.cpus.get(worker.checked_sub(1)?).copied()
    }

    /// Whether it was asked for where it cannot be had.
    pub fn is_impossible(&self) -> bool {
        self.reason == PinReason::Impossible
    }
}

impl fmt::Display for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cpus[..] {
            [] => f.write_str("no worker is bound to a core: ")?,
            [cpu] => write!(f, "worker 1 is bound to CPU {cpu}: ")?,
            _ => {
                let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
                write!(f, "workers 1 to {} are bound to the CPUs {}: ", cpus.len(), cpus.join(", "))?;
            }
        }
        match self.reason {
            PinReason::Requested(Source::Environment) => write!(f, "set by {PIN_VARIABLE}"),
            PinReason::Requested(_) => f.write_str("as asked for"),
            PinReason::LittleCores => f.write_str("it keeps them off the slow cores"),
            PinReason::NoLittleCores => f.write_str("there are no slow cores to keep off"),
            PinReason::Quota => f.write_str("the CPU quota says that the cores are shared"),
            PinReason::Threads => f.write_str("there is not one thread for each fast core"),
            PinReason::UnknownCores | PinReason::Impossible => {
                f.write_str("this system does not tell its cores apart")
            }
        }
    }
}

/// Binds the calling thread to one CPU; whether the system then says that it is bound to that one alone.
pub(crate) fn bind(cpu: usize) -> bool {
    let core = CoreId { id: cpu };
    let allowed = || core_affinity::get_core_ids().unwrap_or_default();
    allowed().contains(&core) && core_affinity::set_for_current(core) && allowed() == [core]
}
