//! Linux and Android: the affinity mask, `proc` and `sys`. Other systems lack the files, which then say nothing.

use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

use crate::width::{CpuSet, Machine};

/// What the mask and the files say.
pub(in crate::width) fn machine() -> Machine {
    let mask = core_affinity::get_core_ids()
        .map(|ids| ids.into_iter().map(|core| core.id).collect::<CpuSet>())
        .filter(|mask| !mask.is_empty());
    let fallback = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    Machine::read(Path::new("/"), mask.as_ref(), fallback)
}
