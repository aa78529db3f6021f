//! Whether the machine did anything else meanwhile. A busy machine does not slow all programs alike, so that what was
//! compared on one has no meaning, however it came out.

use std::fs;

use anyhow::{Context, Result};

use super::verdict::{Limit, Unit, Verdict};

/// The share of all processors that others may use.
const OTHERS_LIMIT: f64 = 0.05;

/// Processor time since the start of the machine, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    /// Of all processors, idle or not.
    all: u64,
    /// Of all processors while they worked, or were taken by the host.
    busy: u64,
    /// Of this process and the children that have ended.
    own: u64,
}

impl Ticks {
    /// The ticks so far.
    ///
    /// # Errors
    /// If the system does not tell.
    pub(super) fn now() -> Result<Ticks> {
        let read = |path: &str| fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
        let (machine, process) = (read("/proc/stat")?, read("/proc/self/stat")?);
        parse(&machine, &process).context("/proc/stat or /proc/self/stat lacks processor times")
    }

    /// What is to be said of the time from `self` to `end`, in which `check` was made.
    pub(super) fn judge(self, end: Ticks, check: &str) -> Verdict {
        let since = |of: fn(&Ticks) -> u64| of(&end).saturating_sub(of(&self)) as f64;
        let others = (since(|t| t.busy) - since(|t| t.own)).max(0.0);
        let share = others / since(|t| t.all);
        let note = "of the processors were used by others; above the limit no result of this check counts";
        Verdict::judge(&format!("quiet-{check}"), (share, Unit::Percent), Limit::AtMost(OTHERS_LIMIT), note)
    }
}

/// Ticks out of `/proc/stat` and `/proc/self/stat`.
fn parse(machine: &str, process: &str) -> Option<Ticks> {
    let numbers = |text: &str| text.split_whitespace().map(|n| n.parse().ok()).collect::<Option<Vec<u64>>>();
    let cpu = numbers(machine.lines().find_map(|line| line.strip_prefix("cpu "))?)?;
    // Guests' time, which may follow, is in the user time already.
    let [user, nice, system, idle, wait, irq, soft_irq, steal] = *cpu.first_chunk()?;
    let busy = user + nice + system + irq + soft_irq + steal;
    // The name, in parentheses, may contain anything. After it come the state and ten other fields.
    let (_, fields) = process.rsplit_once(')')?;
    let times: Vec<&str> = fields.split_whitespace().skip(11).take(4).collect();
    let own = numbers(&times.join(" ")).filter(|times| times.len() == 4)?.iter().sum();
    Some(Ticks { all: busy + idle + wait, busy, own })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read() {
        let machine = "cpu  100 1 20 1000 50 3 4 5 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let process = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 30 40 50 60 20 0 1 0 99";
        let ticks = Ticks { all: 1183, busy: 133, own: 180 };
        assert_eq!(parse(machine, process), Some(ticks));
        assert_eq!(parse("cpu  1 2 3\n", process), None);
        assert_eq!(parse(machine, "12 (x) S 1 2 3 4 5 6 7 8 9 10 30 40 50"), None);
    }

    #[test]
    fn time_of_others_is_what_is_neither_idle_nor_own() {
        let start = Ticks { all: 1000, busy: 500, own: 100 };
        let line = |busy, own| start.judge(Ticks { all: 2000, busy, own }, "x").to_string();
        assert!(line(1350, 900).starts_with("ok   quiet-x: 5.00 % ("), "{}", line(1350, 900));
        assert!(line(1350, 899).starts_with("FAIL quiet-x: 5.10 % ("), "{}", line(1350, 899));
        assert!(line(1000, 700).starts_with("ok   quiet-x: 0.00 % ("), "ticks are counted roughly");
        assert!(start.judge(start, "x").to_string().starts_with("FAIL"), "no time has passed");
    }
}
