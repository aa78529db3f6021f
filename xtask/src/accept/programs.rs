//! The programs that measure, and what they print.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::proc;

/// The release programs of this workspace.
pub(super) struct Programs {
    cera: PathBuf,
    cell: PathBuf,
}

/// A row of `cera bench -o json`, or of llama-bench, which has the first field. Speeds are tokens per second.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct BenchRow {
    pub(super) samples_ts: Vec<f64>,
    #[serde(default)]
    pub(super) tier: Option<String>,
    /// Products per second of the integer dot instruction.
    #[serde(default)]
    pub(super) integer_peak: Option<f64>,
    /// The share of it that prompts reach.
    #[serde(default)]
    pub(super) peak_share: Option<f64>,
    /// Bytes that a generated token streams.
    #[serde(default)]
    pub(super) bytes_per_token: Option<f64>,
    /// Bytes per second that are read.
    #[serde(default)]
    pub(super) read_bandwidth: Option<f64>,
    /// The share of it that generation reaches.
    #[serde(default)]
    pub(super) bandwidth_share: Option<f64>,
}

/// What `cell load` prints.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct LoadCell {
    pub(super) file_bytes: f64,
    pub(super) largest_tensor: f64,
    pub(super) open_ns: f64,
    pub(super) pack_ns: f64,
    pub(super) loaded_bytes: f64,
    pub(super) loaded_peak_bytes: f64,
    pub(super) settled_bytes: f64,
    pub(super) settled_peak_bytes: f64,
    pub(super) state_bytes: f64,
    pub(super) workspace_bytes: f64,
    /// The prompt, then every token.
    pub(super) step_ns: Vec<f64>,
}

/// What `cell kernels` prints.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct KernelsCell {
    pub(super) tier: String,
    /// Products per second of the integer dot instruction on one core, time after time.
    pub(super) peaks: Vec<f64>,
    /// The shares of it that the kernel for several tokens of each format reached.
    pub(super) shares: Vec<(String, Vec<f64>)>,
}

/// What `cell batch` prints.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct BatchCell {
    /// The median time of a step.
    pub(super) step_ns: f64,
    /// Bytes that a step reads, and products that it adds up.
    pub(super) bytes: f64,
    pub(super) macs: f64,
    /// What the machine gave right after: bytes and products per second.
    pub(super) read_bandwidth: f64,
    pub(super) integer_peak: Option<f64>,
}

/// What `cell linear` prints, one number for each depth.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct LinearCell {
    /// The median time of a step in layers of linear attention, and in their recurrence alone.
    pub(super) layers_ns: Vec<f64>,
    pub(super) recurrence_ns: Vec<f64>,
    /// The share of the recurrence in a prompt.
    pub(super) prompt_share: f64,
}

/// What `cell tokenize` prints.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct TokenizeCell {
    pub(super) ratio: f64,
    pub(super) unit: String,
    pub(super) length: usize,
}

/// What `cell idle` prints.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct IdleCell {
    pub(super) threads: usize,
    pub(super) wall_seconds: f64,
    pub(super) cpu_seconds: f64,
}

impl Programs {
    /// Builds the programs in the release profile.
    ///
    /// # Errors
    /// If cargo fails.
    pub(super) fn build() -> Result<Programs> {
        let packages = ["build", "--quiet", "--release", "--bins", "-p", "cera-cli", "-p", "cera-benches"];
        proc::run(proc::cargo().args(packages))?;
        let program = |name: &str| {
            proc::target_dir().join("release").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
        };
        Ok(Programs { cera: program("cera"), cell: program("cell") })
    }

    /// Rows of `cera bench` over a model, on a tier if one is given.
    ///
    /// # Errors
    /// If it fails or prints something else.
    pub(super) fn bench(&self, model: &Path, args: &[String], tier: Option<&str>) -> Result<Vec<BenchRow>> {
        let mut command = self.bench_command(model);
        if let Some(tier) = tier {
            command.env("CERA_CPU_TIER", tier);
        }
        parse(&proc::read(command.args(args))?)
    }

    /// As [`Programs::bench`], on two processors of those that this process may use.
    ///
    /// # Errors
    /// As [`Programs::bench`], and if there are no two processors.
    pub(super) fn bench_on_two(&self, model: &Path, args: &[String]) -> Result<Vec<BenchRow>> {
        let status = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
        let allowed = allowed_processors(&status).context("/proc/self/status lacks Cpus_allowed_list")?;
        ensure!(allowed.len() >= 2, "this process may use one processor only");
        let mut command = self.bench_command(model);
        command.args(args);
        if allowed.len() > 2 {
            let inner: Vec<OsString> = std::iter::once(command.get_program())
                .chain(command.get_args())
                .map(OsString::from)
                .collect();
            command = Command::new("taskset");
            command.args(["--cpu-list", &format!("{},{}", allowed[0], allowed[1])]).args(inner);
        }
        parse(&proc::read(&mut command)?)
    }

    fn bench_command(&self, model: &Path) -> Command {
        let mut command = Command::new(&self.cera);
        command.arg("bench").args(["-o", "json"]).arg("-m").arg(model);
        command
    }

    /// What a cell prints.
    ///
    /// # Errors
    /// If it fails or prints something else.
    pub(super) fn cell<T: DeserializeOwned>(
        &self,
        what: &str,
        model: Option<&Path>,
        args: &[&str],
    ) -> Result<T> {
        parse(&proc::read(Command::new(&self.cell).arg(what).args(model).args(args))?)
    }

    /// How long the process of a cell runs.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn cell_time(&self, what: &str, model: &Path, args: &[&str]) -> Result<Duration> {
        let start = Instant::now();
        proc::read(Command::new(&self.cell).arg(what).arg(model).args(args))?;
        Ok(start.elapsed())
    }
}

/// What a program printed as JSON.
///
/// # Errors
/// If it printed something else.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).with_context(|| format!("not the JSON that was expected: {}", text.trim()))
}

/// The processors that a process may use, by the text of its `/proc` status: numbers and ranges, `0-2,5`.
fn allowed_processors(status: &str) -> Option<Vec<usize>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut all = Vec::new();
    for part in list.trim().split(',') {
        match part.split_once('-') {
            Some((first, last)) => all.extend(first.parse::<usize>().ok()?..=last.parse().ok()?),
            None => all.push(part.parse().ok()?),
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_numbers_and_ranges() {
        let parse =
            |list: &str| allowed_processors(&format!("Name:\tx\nCpus_allowed_list:\t{list}\nx:\t1\n"));
        assert_eq!(parse("0-1"), Some(vec![0, 1]));
        assert_eq!(parse("3,5-7,9"), Some(vec![3, 5, 6, 7, 9]));
        assert_eq!(parse("x"), None);
        assert_eq!(allowed_processors("Name:\tx\n"), None);
    }

    #[test]
    fn rows_of_both_benches_are_read() {
        let peer = r#"[{"build_commit": "x", "n_prompt": 0, "n_gen": 64, "avg_ts": 50.5, "samples_ts": [50.0, 51]}]"#;
        let rows: Vec<BenchRow> = parse(peer).expect("rows");
        assert_eq!(rows[0].samples_ts, [50.0, 51.0]);
        assert!(rows[0].tier.is_none() && rows[0].peak_share.is_none());
        let own = r#"[{"n_prompt": 512, "n_gen": 0, "samples_ts": [1.5], "tier": "avx2", "integer_peak": 4e11,
            "peak_share": 0.5, "read_bandwidth": 3e10, "bandwidth_share": null}]"#;
        let rows: Vec<BenchRow> = parse(own).expect("rows");
        assert_eq!((rows[0].peak_share, rows[0].bandwidth_share), (Some(0.5), None));
        let fault = parse::<Vec<BenchRow>>("| a table |").expect_err("no JSON").to_string();
        assert!(fault.contains("| a table |"), "{fault}");
    }
}
