//! Physical cores and their classes, from sysfs and from the kernel of macOS.
//!
//! Source: Linux `Documentation/ABI/stable/sysfs-devices-system-cpu` (topology), `cpu_capacity` of
//! `Documentation/scheduler/sched-capacity.rst`, `cpuinfo_max_freq` of `Documentation/admin-guide/pm/cpufreq.rst`,
//! `midr_el1` of `Documentation/arch/arm64/cpu-feature-registers.rst`, and the `cpu_core` device of hybrid x86; Apple,
//! `hw.perflevelN.physicalcpu` of sysctl(3).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::cpuset::CpuSet;
use crate::probe::darwin::Sysctl;

/// How fast a core is, beside the fastest that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CoreClass {
    /// Less than half as fast: it costs more than it adds.
    Little,
    /// At least half as fast.
    Mid,
    /// About as fast.
    Big,
}

/// A physical core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Core {
    /// The lowest CPU of the core that may be used.
    pub cpu: usize,
    /// How fast it is.
    pub class: CoreClass,
    /// What the class was decided from, in no particular unit; 0 where that is unknown.
    pub capacity: u64,
}

/// How many physical cores of each class some CPUs belong to. A machine of one class has big cores only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cores {
    /// The fast ones.
    pub big: usize,
    /// Those between.
    pub mid: usize,
    /// The slow ones.
    pub little: usize,
}

impl Cores {
    /// All of them.
    pub fn all(self) -> usize {
        self.big + self.mid + self.little
    }

    /// Those that are worth a thread: all but the little ones.
    pub fn performance(self) -> usize {
        self.big + self.mid
    }

    /// Whether there is more than one class.
    pub fn is_mixed(self) -> bool {
        [self.big, self.mid, self.little].iter().filter(|&&cores| cores > 0).count() > 1
    }

    /// The cores of a Darwin kernel, which numbers its performance levels from the fastest on: the first is big, the last
    /// is little, any other is between. `None` if it says nothing.
    pub fn of_darwin(system: &impl Sysctl) -> Option<Cores> {
        let number = |name: &str| system.number(name).and_then(|cores| usize::try_from(cores).ok());
        let levels =
            number("hw.nperflevels").filter(|levels| (1..=MOST_LEVELS).contains(levels)).unwrap_or(0);
        let mut cores = Cores::default();
        for level in 0..levels {
            let in_level = number(&format!("hw.perflevel{level}.physicalcpu")).unwrap_or(0);
            match level {
                0 => cores.big += in_level,
                _ if level + 1 == levels => cores.little += in_level,
                _ => cores.mid += in_level,
            }
        }
        if cores.all() == 0 {
            cores.big = number("hw.physicalcpu").unwrap_or(0);
        }
        (cores.big > 0).then_some(cores)
    }
}

impl FromIterator<CoreClass> for Cores {
    fn from_iter<I: IntoIterator<Item = CoreClass>>(classes: I) -> Cores {
        let mut cores = Cores::default();
        for class in classes {
            match class {
                CoreClass::Big => cores.big += 1,
                CoreClass::Mid => cores.mid += 1,
                CoreClass::Little => cores.little += 1,
            }
        }
        cores
    }
}

/// Levels beyond which a kernel is not believed.
const MOST_LEVELS: usize = 8;

const CPUS: &str = "sys/devices/system/cpu";

/// The CPUs that are online.
pub(super) fn online(root: &Path) -> Option<CpuSet> {
    read_list(&root.join(CPUS).join("online")).filter(|set| !set.is_empty())
}

/// The cores of `cpus`, by ascending CPU. A CPU whose core is not described counts as a core of its own; nothing if that
/// is all of them.
pub(super) fn cores(root: &Path, cpus: &CpuSet) -> Vec<Core> {
    let siblings: Vec<(usize, Option<CpuSet>)> =
        cpus.iter().map(|cpu| (cpu, sibling_list(&cpu_dir(root, cpu)))).collect();
    if siblings.iter().all(|(_, list)| list.is_none()) {
        return Vec::new();
    }
    let capacities = Capacities::read(root, cpus);
    // The lowest sibling names the core, whether or not it may be used.
    let mut lowest: BTreeMap<usize, usize> = BTreeMap::new();
    for (cpu, list) in siblings {
        lowest.entry(list.and_then(|list| list.first()).unwrap_or(cpu)).or_insert(cpu);
    }
    let mut cores: Vec<Core> = lowest
        .into_values()
        .map(|cpu| Core { cpu, class: capacities.class(cpu), capacity: capacities.of(cpu).unwrap_or(0) })
        .collect();
    cores.sort_by_key(|core| core.cpu);
    cores
}

fn cpu_dir(root: &Path, cpu: usize) -> std::path::PathBuf {
    root.join(CPUS).join(format!("cpu{cpu}"))
}

/// The CPUs that run the same core as a CPU, itself included.
fn sibling_list(cpu_dir: &Path) -> Option<CpuSet> {
    ["core_cpus_list", "thread_siblings_list"]
        .into_iter()
        .find_map(|name| read_list(&cpu_dir.join("topology").join(name)))
        .filter(|list| !list.is_empty())
}

/// How fast CPUs are beside each other, from the best source that there is.
struct Capacities {
    of_cpu: BTreeMap<usize, u64>,
    largest: u64,
}

impl Capacities {
    /// Of these sources the first that tells CPUs apart: the `cpu_core` device of hybrid x86, the capacity that the
    /// scheduler uses, and the highest frequency together with the kind of core.
    fn read(root: &Path, cpus: &CpuSet) -> Capacities {
        let fast = read_list(&root.join("sys/devices/cpu_core/cpus"));
        let by_device = |cpu: usize| fast.as_ref().map(|fast| if fast.contains(cpu) { 4 } else { 1 });
        let by_scheduler = |cpu: usize| read_number(&cpu_dir(root, cpu).join("cpu_capacity"));
        let by_frequency = |cpu: usize| estimate(&cpu_dir(root, cpu));
        let sources: [&dyn Fn(usize) -> Option<u64>; 3] = [&by_device, &by_scheduler, &by_frequency];
        let mut best = Capacities { of_cpu: BTreeMap::new(), largest: 0 };
        for source in sources {
            let of_cpu: BTreeMap<usize, u64> =
                cpus.iter().filter_map(|cpu| Some((cpu, source(cpu)?))).collect();
            let largest = of_cpu.values().copied().max().unwrap_or(0);
            let tells_apart = of_cpu.values().any(|&capacity| capacity != largest);
            if tells_apart || best.of_cpu.is_empty() {
                best = Capacities { of_cpu, largest };
            }
            if tells_apart {
                break;
            }
        }
        best
    }

    fn of(&self, cpu: usize) -> Option<u64> {
        self.of_cpu.get(&cpu).copied()
    }

    /// A CPU of which nothing is known is taken for a fast one. Cores of one make differ by less than an eighth in their
    /// highest frequencies. Half keeps the middle class of three, which still helps, and leaves out the little one.
    fn class(&self, cpu: usize) -> CoreClass {
        match self.of(cpu) {
            Some(capacity) if capacity < self.largest.div_ceil(2) => CoreClass::Little,
            Some(capacity) if capacity < self.largest - self.largest / 8 => CoreClass::Mid,
            _ => CoreClass::Big,
        }
    }
}

/// The highest frequency of a CPU, halved for a core that runs instructions in order.
fn estimate(cpu_dir: &Path) -> Option<u64> {
    let frequency = read_number(&cpu_dir.join("cpufreq/cpuinfo_max_freq"))?;
    let midr = fs::read_to_string(cpu_dir.join("regs/identification/midr_el1")).ok();
    let midr = midr.and_then(|text| u64::from_str_radix(text.trim_ascii().strip_prefix("0x")?, 16).ok());
    let in_order = midr.is_some_and(|midr| {
        let (implementer, part) = (midr >> 24 & 0xFF, midr >> 4 & 0xFFF);
        implementer == ARM && IN_ORDER_PARTS.contains(&part)
    });
    Some(if in_order { frequency / 2 } else { frequency })
}

/// The implementer of Arm's own cores in `MIDR_EL1`.
const ARM: u64 = 0x41;

/// Cortex-A34, A53, A35, A55, A510 and A520, from their technical reference manuals.
const IN_ORDER_PARTS: [u64; 6] = [0xD02, 0xD03, 0xD04, 0xD05, 0xD46, 0xD80];

fn read_list(path: &Path) -> Option<CpuSet> {
    CpuSet::parse(&fs::read_to_string(path).ok()?)
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim_ascii().parse().ok()
}
