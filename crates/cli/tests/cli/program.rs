//! Running the program, and what its results must look like.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use safetensors::{Dtype, SafeTensors};
use tempfile::TempDir;

/// A command that starts `cera`, free of the settings of this process.
///
/// Where the program is of another architecture than the machine, `CERA_TEST_RUNNER` has the words that start it.
pub(crate) fn cera() -> Command {
    let runner = std::env::var("CERA_TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace().chain([env!("CARGO_BIN_EXE_cera")]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    for setting in ["CERA_CPU_TIER", "CERA_THREADS", "CERA_PIN", "CERA_SPIN_US", "CERA_LOG"] {
        command.env_remove(setting);
    }
    if !runner.is_empty() {
        // That the emulated machine is slow needs no saying.
        command.env("CERA_LOG", "error");
    }
    command
}

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn of(command: &mut Command) -> Run {
        let Output { status, stdout, stderr } = command.output().expect("a started program");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Run { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// What was printed by a run that went well.
    pub(crate) fn success(self) -> String {
        assert!(self.code == Some(0) && self.stderr.is_empty(), "{self:?}");
        self.stdout
    }

    /// The message of a run that failed, or what is wrong with the way in which it failed.
    pub(crate) fn check_failure(self) -> Result<String, Run> {
        let line = self.stderr.strip_suffix('\n').and_then(|line| line.strip_prefix("error: "));
        match line {
            Some(line)
                if self.code == Some(1)
                    && self.stdout.is_empty()
                    && !line.is_empty()
                    && !line.contains('\n') =>
            {
                Ok(line.to_owned())
            }
            _ => Err(self),
        }
    }

    /// The message of a run that failed: exit code 1, one line on standard error, nothing on standard output.
    pub(crate) fn failure(self) -> String {
        self.check_failure().unwrap_or_else(|run| panic!("{run:?}"))
    }

    /// What was said about wrong usage: exit code 2, nothing on standard output.
    pub(crate) fn wrong_usage(self) -> String {
        assert!(self.code == Some(2) && self.stdout.is_empty() && !self.stderr.is_empty(), "{self:?}");
        self.stderr
    }
}

/// Runs the program with these arguments.
pub(crate) fn run(args: &[&dyn AsRef<OsStr>]) -> Run {
    let mut command = cera();
    for arg in args {
        command.arg(arg.as_ref());
    }
    Run::of(&mut command)
}

/// What the program prints as JSON.
pub(crate) fn json(command: &mut Command) -> serde_json::Value {
    serde_json::from_str(&Run::of(command.arg("--json")).success()).expect("JSON")
}

/// A file of the fixtures.
pub(crate) fn fixture(name: &str) -> PathBuf {
    cera_testkit::fixtures::dir().join(name)
}

/// A folder of files that goes away with it.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a written file");
        path
    }
}

/// The result of `cera logits`.
#[derive(Debug, PartialEq)]
pub(crate) struct Logits {
    pub(crate) rows: usize,
    pub(crate) vocabulary: usize,
    pub(crate) data: Vec<f32>,
    /// The hash that stands in the file.
    pub(crate) sha256: String,
}

impl Logits {
    fn read(path: &Path) -> Logits {
        let bytes = std::fs::read(path).expect("the output");
        let (_, header) = SafeTensors::read_metadata(&bytes).expect("safetensors");
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        assert_eq!(file.names(), ["logits"]);
        let view = file.tensor("logits").expect("the tensor");
        let &[rows, vocabulary] = view.shape() else { panic!("shape {:?}", view.shape()) };
        assert_eq!(view.dtype(), Dtype::F32);
        let data = view.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        let sha256 = header.metadata().as_ref().expect("metadata")["sha256"].clone();
        Logits { rows, vocabulary, data, sha256 }
    }

    pub(crate) fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.vocabulary..][..self.vocabulary]
    }
}

/// A run of `cera logits` with more arguments, to a file that goes away.
pub(crate) fn try_logits(model: &Path, tokens: &[u32], more: &[&str]) -> Result<Logits, Run> {
    try_logits_in(cera(), model, tokens, more)
}

fn try_logits_in(mut command: Command, model: &Path, tokens: &[u32], more: &[&str]) -> Result<Logits, Run> {
    let folder = Folder::new();
    let output = folder.path("out.safetensors");
    let tokens: Vec<String> = tokens.iter().map(ToString::to_string).collect();
    command.arg("logits").arg("-m").arg(model).args(["--tokens", &tokens.join(",")]).args(more);
    let run = Run::of(command.arg("-o").arg(&output));
    if run.code != Some(0) {
        assert!(!output.exists(), "{run:?} left an output");
        return Err(run);
    }
    let (stdout, logits) = (run.success(), Logits::read(&output));
    let said = format!("logits [{}, {}] sha256 {}\n", logits.rows, logits.vocabulary, logits.sha256);
    assert_eq!(stdout, said);
    Ok(logits)
}

/// The logits of a run that goes well.
pub(crate) fn logits(model: &Path, tokens: &[u32], more: &[&str]) -> Logits {
    try_logits(model, tokens, more).unwrap_or_else(|run| panic!("{run:?}"))
}

/// The logits of a run that goes well where the environment has this setting.
pub(crate) fn logits_with(model: &Path, tokens: &[u32], (name, value): (&str, &str)) -> Logits {
    let mut command = cera();
    command.env(name, value);
    try_logits_in(command, model, tokens, &[]).unwrap_or_else(|run| panic!("{run:?}"))
}

/// The message of a run of `cera logits` that fails.
pub(crate) fn logits_failure(model: &Path, tokens: &[u32], more: &[&str]) -> String {
    match try_logits(model, tokens, more) {
        Ok(logits) => panic!("{} rows of logits", logits.rows),
        Err(run) => run.failure(),
    }
}
