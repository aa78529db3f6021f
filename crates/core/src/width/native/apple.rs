//! macOS, iOS and their like: no affinity masks, no quotas, and cores by number only.

use std::num::NonZeroUsize;
use std::thread;

use crate::sysctl::System;
use crate::width::{Cores, Machine, WidthFacts};

/// What the kernel says.
pub(in crate::width) fn machine() -> Machine {
    let allowed = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let facts = WidthFacts { allowed, online: None, cores: Cores::of_darwin(&System), quota: None };
    Machine { facts, cores: Vec::new() }
}
