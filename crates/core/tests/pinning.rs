//! Workers that are bound to cores, as the system sees them: one test, so that no other's threads have the same names.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use cera_core::{Runtime, Settings};

/// The name of a thread of this process and the CPUs that it may run on.
fn threads() -> Vec<(String, String)> {
    let field = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok());
    statuses.map(|status| (field(&status, "Name:"), field(&status, "Cpus_allowed_list:"))).collect()
}

#[test]
fn workers_are_bound_if_that_is_asked_for_and_the_caller_never_is() {
    let caller = || threads().iter().find(|(name, _)| !name.starts_with("cera-")).unwrap().1.clone();
    let before = caller();
    let settings = |pin: &'static str| {
        let value = move |name| match name {
            "CERA_PIN" => Some(pin.into()),
            "CERA_THREADS" => Some("3".into()),
            _ => None,
        };
        Settings::from_lookup(value).unwrap()
    };
    let workers = || -> Vec<String> {
        let mut workers: Vec<_> =
            threads().into_iter().filter(|(name, _)| name.starts_with("cera-")).collect();
        workers.sort();
        workers.into_iter().map(|(_, cpus)| cpus).collect()
    };
    let off = Runtime::from_settings(&settings("off")).unwrap();
    assert_eq!(workers(), [before.as_str(), before.as_str()]);
    drop(off);
    while !workers().is_empty() {
        std::thread::yield_now();
    }
    match Runtime::from_settings(&settings("on")) {
        Ok(_on) => {
            let cores = cera_core::width::Machine::native().cores.len();
            let bound = workers().into_iter().filter(|cpus| cpus.parse::<usize>().is_ok()).count();
            assert!(bound >= 2.min(cores - 1), "{:?}", workers());
        }
        Err(error) => assert!(error.to_string().contains("does not tell its cores apart"), "{error}"),
    }
    assert_eq!(caller(), before);
}
