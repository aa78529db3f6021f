//! The CPU quota of the control group that this process is in.
//!
//! Source: cgroups(7), proc_pid_mountinfo(5), Linux `Documentation/admin-guide/cgroup-v2.rst` (`cpu.max`) and
//! `Documentation/scheduler/sched-bwc.rst` (`cpu.cfs_quota_us`).

use std::fs;
use std::path::{Component, Path, PathBuf};

/// How much CPU time a control group may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuQuota {
    /// Microseconds of CPU time per period.
    pub quota_us: u64,
    /// Microseconds per period; not zero.
    pub period_us: u64,
}

impl CpuQuota {
    /// Whole CPUs, rounded down.
    pub fn whole_cpus(self) -> usize {
        usize::try_from(self.quota_us / self.period_us).unwrap_or(usize::MAX)
    }

    /// CPUs.
    pub fn cpus(self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }

    fn is_below(self, other: CpuQuota) -> bool {
        let scaled = |a: u64, b: u64| u128::from(a) * u128::from(b);
        scaled(self.quota_us, other.period_us) < scaled(other.quota_us, self.period_us)
    }
}

/// The two generations of control groups. A process may be in groups of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Where a hierarchy of groups is mounted.
struct Mount {
    version: Version,
    /// The group that the mount point shows.
    group: PathBuf,
    /// The mount point.
    point: PathBuf,
}

const DEFAULT_PERIOD_US: u64 = 100_000;

/// The tightest quota of the groups that this process is in and of their ancestors, as far as they are mounted.
pub(super) fn quota(root: &Path) -> Option<CpuQuota> {
    let own_groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let mounts: Vec<Mount> = mounts.lines().filter_map(parse_mount).collect();

    let mut tightest: Option<CpuQuota> = None;
    for (version, group) in own_groups.lines().filter_map(parse_group) {
        for mount in mounts.iter().filter(|m| m.version == version) {
            for dir in dirs_up(root, mount, Path::new(group)) {
                if let Some(quota) = read_quota(version, &dir)
                    && tightest.is_none_or(|t| quota.is_below(t))
                {
                    tightest = Some(quota);
                }
            }
        }
    }
    tightest
}

/// The group of a line of `/proc/self/cgroup`, if it can have a CPU quota.
fn parse_group(line: &str) -> Option<(Version, &str)> {
    let mut fields = line.splitn(3, ':');
    let (id, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
    if id == "0" && controllers.is_empty() {
        return Some((Version::V2, group));
    }
    controllers.split(',').any(|c| c == "cpu").then_some((Version::V1, group))
}

/// A line of `/proc/self/mountinfo`, if it mounts a hierarchy that can have CPU quotas.
fn parse_mount(line: &str) -> Option<Mount> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (group, point) = (unescape(mount.next()?), unescape(mount.next()?));
    let mut filesystem = filesystem.split(' ');
    let version = match filesystem.next()? {
        "cgroup2" => Version::V2,
        "cgroup" if filesystem.nth(1)?.split(',').any(|option| option == "cpu") => Version::V1,
        _ => return None,
    };
    Some(Mount { version, group: group.into(), point: point.into() })
}

/// The text of a field of mountinfo, where blanks and backslashes are written as octal numbers.
fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// The directories of a group and of its ancestors, up to the mount point. A group outside of what the mount shows, as
/// in a container that sees its own group as the top, stands for the mount point.
fn dirs_up(root: &Path, mount: &Mount, group: &Path) -> Vec<PathBuf> {
    let point = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
    let below = group.strip_prefix(&mount.group).unwrap_or(Path::new(""));
    let below =
        if below.components().all(|c| matches!(c, Component::Normal(_))) { below } else { Path::new("") };
    below.ancestors().map(|part| point.join(part)).collect()
}

/// The quota in a directory of a hierarchy; `None` if there is none or it is not limited.
fn read_quota(version: Version, dir: &Path) -> Option<CpuQuota> {
    let text = |name: &str| fs::read_to_string(dir.join(name)).ok();
    let (quota, period) = match version {
        Version::V2 => {
            let line = text("cpu.max")?;
            let mut fields = line.split_ascii_whitespace();
            (fields.next()?.to_owned(), fields.next().map(str::to_owned))
        }
        Version::V1 => (text("cpu.cfs_quota_us")?, text("cpu.cfs_period_us")),
    };
    // `max` and -1 mean no limit, and are not numbers here.
    let quota_us = quota.trim_ascii().parse().ok()?;
    let period_us = match period {
        Some(period) => period.trim_ascii().parse().ok()?,
        None => DEFAULT_PERIOD_US,
    };
    (period_us > 0).then_some(CpuQuota { quota_us, period_us })
}
