//! The threads of this process, as the system counts them: one test, so that no other adds to them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use cera_core::{KernelTable, Runtime};

/// The files `status` of the threads of this process.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok()).collect()
}

/// Waits until there are so many threads: one that has ended is counted for a moment longer.
fn wait_for(count: usize) {
    while threads().len() != count {
        std::thread::yield_now();
    }
}

/// How often the threads with the names of workers were taken from and put on a processor.
fn switches() -> Vec<String> {
    let lines = |status: &String| {
        let wanted = |line: &&str| line.contains("ctxt_switches") || line.starts_with("Pid:");
        status.lines().filter(wanted).collect::<Vec<_>>().join(" ")
    };
    threads().iter().filter(|status| status.starts_with("Name:\tcera-")).map(lines).collect()
}

#[test]
fn a_runtime_has_its_width_in_threads_and_none_does_anything_while_idle() {
    if std::env::var_os("CERA_TEST_EMULATED").is_some() {
        // The system counts the emulator's threads.
        return;
    }
    let before = threads().len();
    for width in [1, 2, 7] {
        let runtime = Runtime::with_width(KernelTable::scalar(), width).unwrap();
        wait_for(before + width - 1);
        // Workers that have not been given any work fall asleep, and stay so.
        let asleep = |status: &String| status.contains("State:\tS") && status.starts_with("Name:\tcera-");
        while threads().iter().filter(|status| asleep(status)).count() != width - 1 {
            std::thread::yield_now();
        }
        let (mut seen, mut now) = (Vec::new(), switches());
        while seen != now {
            std::thread::sleep(Duration::from_millis(20));
            (seen, now) = (now, switches());
        }
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(switches(), now, "an idle worker of {width} ran");
        assert_eq!(now.len(), width - 1);
        drop(runtime);
        wait_for(before);
    }
}
