//! Machines and containers that are not there: trees of files as Linux shows them.

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::probe::darwin::Sysctl;
use crate::settings::Settings;

/// Environment variables and their values.
type Variables = &'static [(&'static str, &'static str)];

/// A root directory with `proc` and `sys` of a machine.
struct Fake {
    root: TempDir,
}

impl Fake {
    fn empty() -> Fake {
        Fake { root: tempfile::tempdir().expect("a temporary directory") }
    }

    /// A machine of cores, each given as its CPUs and its capacity.
    fn machine<'a>(cores: impl IntoIterator<Item = (&'a [usize], Option<u32>)>) -> Fake {
        let mut fake = Fake::empty();
        let mut online = Vec::new();
        for (cpus, capacity) in cores {
            for cpu in cpus {
                let dir = format!("sys/devices/system/cpu/cpu{cpu}");
                fake = fake.file(&format!("{dir}/topology/core_cpus_list"), &list(cpus));
                if let Some(capacity) = capacity {
                    fake = fake.file(&format!("{dir}/cpu_capacity"), &format!("{capacity}\n"));
                }
                online.push(*cpu);
            }
        }
        fake.file("sys/devices/system/cpu/online", &list(&online))
    }

    fn file(self, path: &str, text: &str) -> Fake {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
        self
    }

    /// A process in these control groups.
    fn groups(self, own: &str, mounts: &str) -> Fake {
        self.file("proc/self/cgroup", own).file("proc/self/mountinfo", mounts)
    }

    /// What a process with this affinity mask finds.
    fn seen_by(&self, mask: &str) -> Machine {
        let mask = CpuSet::parse(mask).expect("a mask");
        Machine::read(self.root.path(), Some(&mask), 1)
    }

    /// The default width of a process with this affinity mask.
    fn width(&self, mask: &str) -> Width {
        default_of(self.seen_by(mask).facts)
    }

    /// What a process with this affinity mask and these settings binds, and why, as a sentence.
    fn pinning(&self, mask: &str, settings: Variables) -> String {
        let value = |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
        let settings = Settings::from_lookup(value).expect("valid settings");
        let machine = self.seen_by(mask);
        let width = Width::choose(&settings.threads, machine.facts);
        Pinning::choose(&settings.pin, &width, &machine).to_string()
    }

    fn quota(&self) -> Option<(u64, u64)> {
        cgroup::quota(self.root.path()).map(|q| (q.quota_us, q.period_us))
    }
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",") + "\n"
}

fn default_of(facts: WidthFacts) -> Width {
    let settings = Settings::from_lookup(|_| None).expect("nothing is set");
    Width::choose(&settings.threads, facts)
}

/// `n` cores of one CPU each, from CPU `first` on.
fn plain(first: usize, n: usize, capacity: Option<u32>) -> Vec<(Vec<usize>, Option<u32>)> {
    (first..first + n).map(|cpu| (vec![cpu], capacity)).collect()
}

/// `n` cores of two CPUs each: `first + i` and `first + i + apart`.
fn smt(first: usize, n: usize, step: usize, apart: usize) -> Vec<(Vec<usize>, Option<u32>)> {
    (0..n).map(|i| (vec![first + i * step, first + i * step + apart], None)).collect()
}

fn machine(cores: &[(Vec<usize>, Option<u32>)]) -> Fake {
    Fake::machine(cores.iter().map(|(cpus, capacity)| (cpus.as_slice(), *capacity)))
}

const V2_MOUNT: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

/// Checks the default of machines with affinity masks, as the sentence that explains it.
fn check(cases: &[(Fake, &str, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .map(|(fake, mask, expected)| (fake.width(mask).to_string(), mask, expected))
        .filter(|(found, _, expected)| found != *expected)
        .map(|(found, mask, expected)| format!("mask {mask}: found {found:?}, expected {expected:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_default_is_one_thread_per_physical_core() {
    check(&[
        (machine(&plain(0, 16, None)), "0-15", "16 threads: one for each physical core (16 CPUs)"),
        (machine(&smt(0, 8, 1, 8)), "0-15", "8 threads: one for each physical core (16 CPUs)"),
        (machine(&smt(0, 8, 2, 1)), "0-15", "8 threads: one for each physical core (16 CPUs)"),
        // Two sockets of 16 cores, two CPUs each.
        (machine(&smt(0, 32, 1, 32)), "0-63", "32 threads: one for each physical core (64 CPUs)"),
        (machine(&plain(0, 1, None)), "0", "1 thread: one for each physical core (1 CPU)"),
    ]);
}

#[test]
fn slow_cores_count_only_where_there_are_no_others() {
    let six_and_eight = || {
        let cores = [smt(0, 6, 2, 1), plain(12, 8, None)].concat();
        machine(&cores)
            .file("sys/devices/cpu_core/cpus", "0-11\n")
            .file("sys/devices/cpu_atom/cpus", "12-19\n")
    };
    check(&[
        (six_and_eight(), "0-19", "6 threads: one for each fast core of 14 cores (20 CPUs)"),
        (six_and_eight(), "12-19", "8 threads: the affinity mask allows 8 of 20 CPUs"),
        (six_and_eight(), "8-13", "2 threads: one for each fast core of 4 cores (6 CPUs)"),
        (big_little(), "0-7", "4 threads: one for each fast core of 8 cores (8 CPUs)"),
        (big_little(), "0-3", "4 threads: the affinity mask allows 4 of 8 CPUs"),
        (one_three_four(), "0-7", "4 threads: one for each fast core of 8 cores (8 CPUs)"),
    ]);
}

/// Four little cores and four big ones, in this order.
fn big_little() -> Fake {
    machine(&[plain(0, 4, Some(446)), plain(4, 4, Some(1024))].concat())
}

/// Four little cores, three of the middle class and a big one.
fn one_three_four() -> Fake {
    machine(&[plain(0, 4, Some(300)), plain(4, 3, Some(870)), plain(7, 1, Some(1024))].concat())
}

fn cores(big: usize, mid: usize, little: usize) -> Option<Cores> {
    Some(Cores { big, mid, little })
}

#[test]
fn classes_are_relative_to_the_fastest_core_that_is_allowed() {
    let favoured = || machine(&[plain(0, 6, Some(980)), plain(6, 2, Some(1024))].concat());
    let with_limit = || {
        let fake = big_little().groups("0::/\n", V2_MOUNT);
        fake.file("sys/fs/cgroup/cpu.max", "200000 100000\n")
    };
    let cases = [
        ("4+4", big_little(), "0-7", cores(4, 0, 4)),
        ("4+4 without the big ones", big_little(), "0-3", cores(4, 0, 0)),
        ("4+4 with one of the big ones", big_little(), "0-4", cores(1, 0, 4)),
        ("4+4 under a quota", with_limit(), "0-7", cores(4, 0, 4)),
        ("1+3+4", one_three_four(), "0-7", cores(1, 3, 4)),
        ("1+3+4 without the big one", one_three_four(), "0-6", cores(3, 0, 4)),
        ("1+3+4, the little ones alone", one_three_four(), "1-2", cores(2, 0, 0)),
        ("8+0", machine(&plain(0, 8, Some(1024))), "0-7", cores(8, 0, 0)),
        ("one cluster of slow cores", machine(&plain(0, 4, Some(512))), "0-3", cores(4, 0, 0)),
        ("cores that differ a little", favoured(), "0-7", cores(8, 0, 0)),
        ("SMT", machine(&smt(0, 4, 1, 4)), "0-7", cores(4, 0, 0)),
        ("nothing known", Fake::empty(), "0-7", None),
    ];
    for (name, fake, mask, expected) in cases {
        assert_eq!(fake.seen_by(mask).facts.cores, expected, "{name}");
    }
}

/// `n` cores of a frequency, in kHz, and of a kind, from CPU `first` on.
fn clocked(fake: Fake, (first, n): (usize, usize), khz: &str, midr: &str) -> Fake {
    (first..first + n).fold(fake, |fake, cpu| {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}");
        let fake = fake.file(&format!("{dir}/topology/core_cpus_list"), &list(&[cpu]));
        let fake =
            if khz.is_empty() { fake } else { fake.file(&format!("{dir}/cpufreq/cpuinfo_max_freq"), khz) };
        if midr.is_empty() { fake } else { fake.file(&format!("{dir}/regs/identification/midr_el1"), midr) }
    })
}

#[test]
fn without_capacities_frequency_and_kind_decide() {
    let two = |slow: (&str, &str), fast: (&str, &str)| {
        let fake = clocked(Fake::empty(), (0, 4), slow.0, slow.1);
        clocked(fake, (4, 2), fast.0, fast.1)
    };
    let (a53, a72) = ("0x00000000410fd034\n", "0x00000000410fd082\n");
    let other_maker = "0x00000000510fd034\n";
    let cases = [
        ("in order and out of order", two(("1416000\n", a53), ("1800000\n", a72)), cores(2, 0, 4)),
        ("two clusters of one kind", two(("1200000\n", a53), ("2000000\n", a53)), cores(2, 4, 0)),
        (
            "another maker's part of that number",
            two(("1416000\n", other_maker), ("1800000\n", a72)),
            cores(2, 4, 0),
        ),
        ("frequencies alone", two(("800000\n", ""), ("2000000\n", "")), cores(2, 0, 4)),
        ("turbo of some", two(("4900000\n", ""), ("5200000\n", "")), cores(6, 0, 0)),
        ("kinds without frequencies", two(("", a53), ("", a72)), cores(6, 0, 0)),
        ("damaged", two(("fast\n", "0xzz"), ("\n", "")), cores(6, 0, 0)),
    ];
    for (name, fake, expected) in cases {
        assert_eq!(fake.seen_by("0-5").facts.cores, expected, "{name}");
    }
    let equal_capacities = clocked(machine(&plain(0, 4, Some(1024))), (0, 2), "600000\n", "");
    let equal_capacities = clocked(equal_capacities, (2, 2), "2000000\n", "");
    assert_eq!(equal_capacities.seen_by("0-3").facts.cores, cores(2, 0, 2), "capacities that say nothing");
    let hotplug = machine(&[plain(0, 2, Some(1024)), plain(2, 2, None)].concat());
    assert_eq!(hotplug.seen_by("0-3").facts.cores, cores(4, 0, 0), "unknown is fast");
}

#[test]
fn workers_are_bound_only_where_that_can_only_help() {
    let six_and_eight = || {
        let fake = machine(&[smt(0, 6, 2, 1), plain(12, 8, None)].concat());
        fake.file("sys/devices/cpu_core/cpus", "0-11\n").file("sys/devices/cpu_atom/cpus", "12-19\n")
    };
    let limited = |limit: &str| {
        let fake = big_little().groups("0::/\n", V2_MOUNT);
        fake.file("sys/fs/cgroup/cpu.max", limit)
    };
    let none = |why: &str| format!("no worker is bound to a core: {why}");
    let slow = |bound: &str| format!("{bound}: it keeps them off the slow cores");
    let (alike, unknown) =
        ("there are no slow cores to keep off", "this system does not tell its cores apart");
    let (shared, threads) =
        ("the CPU quota says that the cores are shared", "there is not one thread for each fast core");
    let cases: [(&str, Fake, &str, Variables, String); 18] = [
        ("4+4", big_little(), "0-7", &[], slow("workers 1 to 3 are bound to the CPUs 5, 6, 7")),
        ("1+3+4", one_three_four(), "0-7", &[], slow("workers 1 to 3 are bound to the CPUs 4, 5, 6")),
        (
            "6 with SMT, and 8",
            six_and_eight(),
            "0-19",
            &[],
            slow("workers 1 to 5 are bound to the CPUs 2, 4, 6, 8, 10"),
        ),
        ("two of the big ones", big_little(), "0-5", &[], slow("worker 1 is bound to CPU 5")),
        ("one of the big ones", big_little(), "0-4", &[], none("it keeps them off the slow cores")),
        ("none of the big ones", big_little(), "0-3", &[], none(alike)),
        ("the big ones alone", big_little(), "4-7", &[], none(alike)),
        ("8+0", machine(&plain(0, 8, Some(1024))), "0-7", &[], none(alike)),
        ("SMT", machine(&smt(0, 8, 1, 8)), "0-15", &[], none(alike)),
        ("nothing known", Fake::empty(), "0-7", &[], none(unknown)),
        ("a quota", limited("200000 100000"), "0-7", &[], none(shared)),
        ("a quota of more than all", limited("900000 100000"), "0-7", &[], none(shared)),
        ("no limit", limited("max 100000"), "0-7", &[], slow("workers 1 to 3 are bound to the CPUs 5, 6, 7")),
        ("fewer threads", big_little(), "0-7", &[("CERA_THREADS", "2")], none(threads)),
        ("more threads", big_little(), "0-7", &[("CERA_THREADS", "8")], none(threads)),
        ("refused", big_little(), "0-7", &[("CERA_PIN", "off")], none("set by CERA_PIN")),
        (
            "asked for where all are alike",
            machine(&smt(0, 4, 2, 1)),
            "0-7",
            &[("CERA_PIN", "on")],
            "workers 1 to 3 are bound to the CPUs 2, 4, 6: set by CERA_PIN".to_owned(),
        ),
        (
            "asked for with a thread more than there are cores",
            big_little(),
            "1-5",
            &[("CERA_PIN", "on"), ("CERA_THREADS", "6")],
            "workers 1 to 4 are bound to the CPUs 5, 1, 2, 3: set by CERA_PIN".to_owned(),
        ),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .map(|(name, fake, mask, settings, expected)| (name, fake.pinning(mask, settings), expected))
        .filter(|(_, found, expected)| found != *expected)
        .map(|(name, found, expected)| format!("{name}: found {found:?}, expected {expected:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(Fake::empty().pinning("0-7", &[("CERA_PIN", "on")]), none(unknown));
}

/// A Darwin kernel's numbers.
struct Kernel(Numbers);

type Numbers = &'static [(&'static str, u64)];

impl Sysctl for Kernel {
    fn number(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }

    fn text(&self, _: &str) -> Option<String> {
        None
    }
}

#[test]
fn darwin_cores_come_in_levels() {
    const LEVELS: &str = "hw.nperflevels";
    const L0: &str = "hw.perflevel0.physicalcpu";
    const L1: &str = "hw.perflevel1.physicalcpu";
    const L2: &str = "hw.perflevel2.physicalcpu";
    let cases: [(&str, Numbers, Option<Cores>); 9] = [
        ("m1", &[(LEVELS, 2), (L0, 4), (L1, 4), ("hw.physicalcpu", 8)], cores(4, 0, 4)),
        ("three levels", &[(LEVELS, 3), (L0, 2), (L1, 4), (L2, 6)], cores(2, 4, 6)),
        ("one level", &[(LEVELS, 1), (L0, 6)], cores(6, 0, 0)),
        ("no levels", &[("hw.physicalcpu", 4)], cores(4, 0, 0)),
        ("no levels, said so", &[(LEVELS, 0), ("hw.physicalcpu", 4)], cores(4, 0, 0)),
        ("levels without cores", &[(LEVELS, 2), ("hw.physicalcpu", 4)], cores(4, 0, 0)),
        ("a level too many", &[(LEVELS, 9), (L0, 4), (L1, 4), ("hw.physicalcpu", 8)], cores(8, 0, 0)),
        ("slow cores alone", &[(LEVELS, 2), (L0, 0), (L1, 4)], None),
        ("nothing", &[], None),
    ];
    for (name, numbers, expected) in cases {
        assert_eq!(Cores::of_darwin(&Kernel(numbers)), expected, "{name}");
    }
    let facts = WidthFacts { allowed: 8, online: None, cores: cores(4, 0, 4), quota: None };
    assert_eq!(default_of(facts).to_string(), "4 threads: one for each fast core of 8 cores (8 CPUs)");
}

#[test]
fn the_affinity_mask_is_believed_over_sysfs() {
    let sysfs_without_cores = Fake::empty().file("sys/devices/system/cpu/online", "0-7");
    check(&[
        (machine(&plain(0, 64, None)), "5,9,20-21", "4 threads: the affinity mask allows 4 of 64 CPUs"),
        (machine(&smt(0, 8, 2, 1)), "0", "1 thread: the affinity mask allows 1 of 16 CPUs"),
        (machine(&smt(0, 8, 2, 1)), "0-3", "2 threads: one for each physical core (4 CPUs)"),
        (machine(&smt(0, 8, 2, 1)), "1,3,5", "3 threads: the affinity mask allows 3 of 16 CPUs"),
        (machine(&plain(0, 4, None)), "8-11", "4 threads: for 4 CPUs, of which nothing else is known"),
        (Fake::empty(), "0-5", "6 threads: for 6 CPUs, of which nothing else is known"),
        (sysfs_without_cores, "0-5", "6 threads: the affinity mask allows 6 of 8 CPUs"),
    ]);
}

#[test]
fn a_quota_is_rounded_down_and_never_to_zero() {
    let cases = [
        ("max 100000", 8, WidthReason::Cores),
        ("150000 100000", 1, WidthReason::Quota),
        ("199999 100000", 1, WidthReason::Quota),
        ("200000 100000", 2, WidthReason::Quota),
        ("50000 100000", 1, WidthReason::Quota),
        ("300000 200000", 1, WidthReason::Quota),
        ("800000 100000", 8, WidthReason::Cores),
        ("9000000 100000", 8, WidthReason::Cores),
        ("350000", 3, WidthReason::Quota),
        ("18446744073709551615 1", 8, WidthReason::Cores),
        ("100000 0", 8, WidthReason::Cores),
        ("-1 100000", 8, WidthReason::Cores),
        ("rubbish", 8, WidthReason::Cores),
        ("", 8, WidthReason::Cores),
    ];
    for (text, threads, reason) in cases {
        let fake = machine(&plain(0, 8, None)).groups("0::/\n", V2_MOUNT).file("sys/fs/cgroup/cpu.max", text);
        let width = fake.width("0-7");
        assert_eq!((width.threads, width.reason), (threads, reason), "{text:?}");
    }
    let fake = machine(&plain(0, 8, None))
        .groups("0::/\n", V2_MOUNT)
        .file("sys/fs/cgroup/cpu.max", "150000 100000\n");
    assert_eq!(fake.width("0-7").to_string(), "1 thread: the CPU quota is 1.50 CPUs, rounded down");
    assert_eq!(fake.width("3").reason, WidthReason::Affinity);
}

#[test]
fn the_tightest_quota_of_a_group_and_its_ancestors_counts() {
    let in_slice = || Fake::empty().groups("0::/user.slice/app/leaf\n", V2_MOUNT);
    let user = "sys/fs/cgroup/user.slice/cpu.max";
    let app = "sys/fs/cgroup/user.slice/app/cpu.max";
    let leaf = "sys/fs/cgroup/user.slice/app/leaf/cpu.max";
    assert_eq!(in_slice().quota(), None);
    assert_eq!(in_slice().file(leaf, "max 100000").file(app, "max 100000").quota(), None);
    assert_eq!(
        in_slice().file(leaf, "max 100000").file(user, "250000 100000").quota(),
        Some((250_000, 100_000))
    );
    assert_eq!(
        in_slice().file(leaf, "400000 100000").file(app, "20000 10000").quota(),
        Some((20_000, 10_000))
    );
    assert_eq!(
        in_slice().file(leaf, "10000 10000").file(app, "200000 100000").quota(),
        Some((10_000, 10_000))
    );
    let sibling = "sys/fs/cgroup/user.slice/other/cpu.max";
    assert_eq!(in_slice().file(sibling, "100000 100000").quota(), None);
}

#[test]
fn groups_are_found_where_they_are_mounted() {
    let v1_mount = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                    34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
    let v1_own = "3:cpuset:/\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n";
    let v1 = |quota: &str, period: &str| {
        Fake::empty()
            .groups(v1_own, v1_mount)
            .file("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", quota)
            .file("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", period)
    };
    assert_eq!(v1("150000\n", "100000\n").quota(), Some((150_000, 100_000)), "v1");
    assert_eq!(v1("-1\n", "100000\n").quota(), None, "v1 without a limit");
    let parent = v1("-1\n", "100000\n").file("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "300000");
    assert_eq!(parent.quota(), Some((300_000, 100_000)), "v1, limited above, period not shown");

    let hybrid = v1("400000", "100000")
        .groups(
            &format!("{v1_own}0::/docker/abc\n"),
            &format!("{v1_mount}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"),
        )
        .file("sys/fs/cgroup/unified/docker/abc/cpu.max", "200000 100000");
    assert_eq!(hybrid.quota(), Some((200_000, 100_000)), "both generations");

    let bind = "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
    let limit = "sys/fs/cgroup/cpu.max";
    let in_bind = |own: &str| Fake::empty().groups(own, bind).file(limit, "100000 100000").quota();
    assert_eq!(in_bind("0::/docker/abc\n"), Some((100_000, 100_000)), "the mount shows the group as its top");
    assert_eq!(in_bind("0::/elsewhere\n"), Some((100_000, 100_000)), "the group is outside of the mount");
    assert_eq!(in_bind("0::/../../x\n"), Some((100_000, 100_000)), "the group is outside of the namespace");
    let nested = Fake::empty().groups("0::/docker/abc/in\n", bind).file("sys/fs/cgroup/in/cpu.max", "5 10");
    assert_eq!(nested.quota(), Some((5, 10)), "a group below the one that the mount shows");

    let odd = Fake::empty()
        .groups("0::/a b\n", "31 23 0:28 / /mnt/c\\040g rw - cgroup2 none rw\n")
        .file("mnt/c g/a b/cpu.max", "7 10");
    assert_eq!(odd.quota(), Some((7, 10)), "blanks in paths");
    let colon = Fake::empty().groups("0::/a:b\n", V2_MOUNT).file("sys/fs/cgroup/a:b/cpu.max", "7 10");
    assert_eq!(colon.quota(), Some((7, 10)), "colons in paths");

    let damaged =
        Fake::empty().groups("0::\n0\n\n:::::\nx:cpu\n", " - \n1 2 3 - cgroup2\n1 2 3 / / - \n - cgroup x\n");
    assert_eq!(damaged.quota(), None, "damaged tables");
    assert_eq!(Fake::empty().file("proc/self/cgroup", "0::/\n").quota(), None, "no table of mounts");
}

#[test]
fn a_width_asked_for_is_taken() {
    let fake = machine(&plain(0, 2, None));
    let facts = Machine::read(fake.root.path(), CpuSet::parse("0-1").as_ref(), 1).facts;
    let mut settings = Settings::from_lookup(|n| (n == THREADS_VARIABLE).then(|| "16".into())).unwrap();
    let width = Width::choose(&settings.threads, facts);
    assert_eq!((width.threads, width.to_string().as_str()), (16, "16 threads: set by CERA_THREADS"));
    settings.threads.set_argument(ThreadCount::new(1).unwrap());
    let width = Width::choose(&settings.threads, facts);
    assert_eq!((width.threads, width.to_string().as_str()), (1, "1 thread: as asked for"));
    assert_eq!(width.facts, facts);
}

#[test]
fn without_a_mask_the_other_facts_still_count() {
    let fake = machine(&smt(0, 4, 1, 4));
    let width = default_of(Machine::read(fake.root.path(), None, 8).facts);
    assert_eq!((width.threads, width.reason), (4, WidthReason::Cores));
    let width = default_of(Machine::read(fake.root.path(), None, 2).facts);
    assert_eq!((width.threads, width.reason), (2, WidthReason::Affinity));
    let width = default_of(Machine::read(Fake::empty().root.path(), None, 0).facts);
    assert_eq!((width.threads, width.reason), (1, WidthReason::Cpus));
}

#[test]
fn cpu_lists_are_read_strictly() {
    let ids = |text: &str| CpuSet::parse(text).map(|set| set.iter().collect::<Vec<_>>());
    assert_eq!(ids("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
    assert_eq!(ids("5"), Some(vec![5]));
    assert_eq!(ids("\n"), Some(vec![]));
    for wrong in ["a", "1-", "-1", "3-1", "1,,2", "1;2", "0-99999999", "0-18446744073709551616", "0x1"] {
        assert_eq!(ids(wrong), None, "{wrong:?}");
    }
}

#[test]
fn thread_counts_have_bounds() {
    assert_eq!(ThreadCount::new(1).map(ThreadCount::get), Ok(1));
    assert_eq!(ThreadCount::new(ThreadCount::MAX).map(ThreadCount::get), Ok(4096));
    assert!(ThreadCount::new(0).is_err() && ThreadCount::new(4097).is_err());
    assert_eq!("12".parse::<ThreadCount>().unwrap().to_string(), "12");
}

#[test]
fn this_machine_has_a_width() {
    let facts = Machine::native().facts;
    let width = default_of(facts);
    let available = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    assert!((1..=available).contains(&width.threads), "{width} of {facts:?}");
}

#[test]
fn no_more_threads_run_at_once_than_there_are_processors() {
    let available = thread::available_parallelism().unwrap().get();
    assert_eq!(
        [0, 1, available, available + 1, usize::MAX].map(running_at_once),
        [1, 1, available, available, available]
    );
}
