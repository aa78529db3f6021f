//! Physical cores and their classes, from sysfs.
//!
//! Source: Linux `Documentation/ABI/stable/sysfs-devices-system-cpu` (topology), `cpu_capacity` of
//! `Documentation/scheduler/sched-capacity.rst`, and the `cpu_core` and `cpu_atom` devices of hybrid x86.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::cpuset::CpuSet;

/// The physical cores that some CPUs belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// All of them.
    pub all: usize,
    /// Those of the fast classes. If a machine has one class, or only slow cores are asked about, this is `all`.
    pub performance: usize,
}

const CPUS: &str = "sys/devices/system/cpu";

/// The CPUs that are online.
pub(super) fn online(root: &Path) -> Option<CpuSet> {
    read_list(&root.join(CPUS).join("online")).filter(|set| !set.is_empty())
}

/// The cores of `cpus`. A CPU whose core is not described counts as a core of its own; `None` if that is all of them.
pub(super) fn cores(root: &Path, cpus: &CpuSet) -> Option<Cores> {
    let cpu_dir = |cpu: usize| root.join(CPUS).join(format!("cpu{cpu}"));
    let siblings: Vec<(usize, Option<CpuSet>)> =
        cpus.iter().map(|cpu| (cpu, sibling_list(&cpu_dir(cpu)))).collect();
    if siblings.iter().all(|(_, list)| list.is_none()) {
        return None;
    }
    let fast = fast_cpus(root, cpus, |cpu| read_number(&cpu_dir(cpu).join("cpu_capacity")));

    // The lowest sibling names the core, whether or not it may be used.
    let mut fast_of_core: BTreeMap<usize, bool> = BTreeMap::new();
    for (cpu, list) in siblings {
        let core = list.and_then(|l| l.first()).unwrap_or(cpu);
        *fast_of_core.entry(core).or_default() |= fast.contains(cpu);
    }
    let all = fast_of_core.len();
    let performance = fast_of_core.values().filter(|&&fast| fast).count();
    Some(Cores { all, performance: if performance == 0 { all } else { performance } })
}

/// The CPUs that run the same core as a CPU, itself included.
fn sibling_list(cpu_dir: &Path) -> Option<CpuSet> {
    ["core_cpus_list", "thread_siblings_list"]
        .into_iter()
        .find_map(|name| read_list(&cpu_dir.join("topology").join(name)))
        .filter(|list| !list.is_empty())
}

/// Those of `cpus` that belong to a fast class: the `cpu_core` device of hybrid x86, else at least half of the largest
/// capacity. Half keeps the middle class of three, which still helps, and leaves out the little one, which does not.
fn fast_cpus(root: &Path, cpus: &CpuSet, capacity: impl Fn(usize) -> Option<u64>) -> CpuSet {
    if let Some(fast) = read_list(&root.join("sys/devices/cpu_core/cpus")) {
        return fast;
    }
    let capacities: Vec<(usize, Option<u64>)> = cpus.iter().map(|cpu| (cpu, capacity(cpu))).collect();
    let largest = capacities.iter().filter_map(|&(_, c)| c).max().unwrap_or(0);
    let is_fast = |c: Option<u64>| c.is_none_or(|c| c >= largest.div_ceil(2));
    capacities.into_iter().filter(|&(_, c)| is_fast(c)).map(|(cpu, _)| cpu).collect()
}

fn read_list(path: &Path) -> Option<CpuSet> {
    CpuSet::parse(&fs::read_to_string(path).ok()?)
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim_ascii().parse().ok()
}
