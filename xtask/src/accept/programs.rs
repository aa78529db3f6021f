//! The programs that measure, and what they print.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::proc;

/// The release programs of this workspace.
pub(super) struct Programs {
    cera: PathBuf,
    cell: PathBuf,
}

/// A row of `cera bench -o json`, or of llama-bench, which has the first three fields. Speeds are tokens per second.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct BenchRow {
    pub(super) n_prompt: usize,
    pub(super) n_gen: usize,
    pub(super) samples_ts: Vec<f64>,
    #[serde(default)]
    pub(super) tier: Option<String>,
    /// Products per second of the integer dot instruction.
    #[serde(default)]
    pub(super) integer_peak: Option<f64>,
    /// The share of it that prompts reach.
    #[serde(default)]
    pub(super) peak_share: Option<f64>,
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

    /// Rows of `cera bench` over a model.
    ///
    /// # Errors
    /// If it fails or prints something else.
    pub(super) fn bench(&self, model: &Path, args: &[String]) -> Result<Vec<BenchRow>> {
        parse(&proc::read(self.bench_command(model).args(args))?)
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
    pub(super) fn cell<T: DeserializeOwned>(&self, what: &str, model: &Path, args: &[&str]) -> Result<T> {
        parse(&proc::read(Command::new(&self.cell).arg(what).arg(model).args(args))?)
    }
}

/// Rows of llama-bench.
///
/// # Errors
/// If it fails or prints something else.
pub(super) fn peer_bench(peer: &Path, model: &Path, args: &[String]) -> Result<Vec<BenchRow>> {
    let mut command = Command::new(peer);
    // Builds that were not installed find their libraries beside them.
    let folder = peer.parent().map(Path::to_owned).into_iter();
    let others = std::env::var_os("LD_LIBRARY_PATH");
    let libraries = folder.chain(others.iter().flat_map(std::env::split_paths));
    command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries)?);
    parse(&proc::read(command.args(["-o", "json"]).arg("-m").arg(model).args(args))?)
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
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
        assert_eq!((rows[0].n_prompt, rows[0].n_gen, &rows[0].samples_ts[..]), (0, 64, &[50.0, 51.0][..]));
        assert!(rows[0].tier.is_none() && rows[0].peak_share.is_none());
        let own = r#"[{"n_prompt": 512, "n_gen": 0, "samples_ts": [1.5], "tier": "avx2", "integer_peak": 4e11,
            "peak_share": 0.5, "read_bandwidth": 3e10, "bandwidth_share": null}]"#;
        let rows: Vec<BenchRow> = parse(own).expect("rows");
        assert_eq!((rows[0].peak_share, rows[0].bandwidth_share), (Some(0.5), None));
        let fault = parse::<Vec<BenchRow>>("| a table |").expect_err("no JSON").to_string();
        assert!(fault.contains("| a table |"), "{fault}");
    }
}
