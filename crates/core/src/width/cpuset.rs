//! Sets of CPU numbers.

use std::collections::BTreeSet;

/// The numbers of some CPUs of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuSet {
    ids: BTreeSet<usize>,
}

/// CPU numbers from here on are taken for damage. Linux builds go up to 8192.
const END_OF_IDS: usize = 1 << 16;

impl CpuSet {
    /// A list as Linux writes it, such as `0-3,8,10-11`; an empty one is the empty set. `None` if it is not a list.
    pub fn parse(list: &str) -> Option<CpuSet> {
        let list = list.trim_ascii();
        if list.is_empty() {
            return Some(CpuSet::default());
        }
        let mut ids = BTreeSet::new();
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= END_OF_IDS {
                return None;
            }
            ids.extend(first..=last);
        }
        Some(CpuSet { ids })
    }

    /// How many CPUs.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether the CPU is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.ids.contains(&cpu)
    }

    /// The lowest number.
    pub fn first(&self) -> Option<usize> {
        self.ids.first().copied()
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.ids.iter().copied()
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(ids: I) -> CpuSet {
        CpuSet { ids: ids.into_iter().collect() }
    }
}
