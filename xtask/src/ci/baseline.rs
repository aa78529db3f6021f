//! The program on x86-64 processors that lack what this machine has, as an emulator plays them, and a look for
//! instructions that such processors lack in code that is not chosen at run time.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::scan;
use crate::proc;
use crate::test::{self, Arch, Platform, TIER_VAR};

const QEMU: &str = "qemu-x86_64";
/// Processors, and the tier that the program must choose on each. The emulator stops a program at an instruction that the
/// processor lacks.
const CPUS: [(&str, &str); 5] = [
    ("Conroe", "scalar"),
    ("Nehalem", "scalar"),
    ("SandyBridge", "scalar"),
    ("IvyBridge", "scalar"),
    ("Haswell", "avx2"),
];
/// A tier that the last of the processors lacks, and the features that the refusal must name.
const REFUSED: (&str, [&str; 6]) =
    ("avx512vnni", ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512vnni"]);
const MODEL: &str = "tests/fixtures/quant/model-Q4_K.gguf";

/// Checks the program of the test builds. On another machine than an x86-64 one there is none to check.
///
/// # Errors
/// If it cannot be built or the emulator is missing, and otherwise every fault that was found.
pub(super) fn check() -> Result<()> {
    if Arch::host()? != Arch::X86_64 {
        println!("nothing to do: this machine is no x86-64");
        return Ok(());
    }
    ensure!(proc::find(QEMU).is_some(), "{QEMU} is missing; it is in Debian's package qemu-user");
    let platform = Platform::new(Arch::X86_64)?;
    let mut selection = platform.selection(&[]);
    selection.extend(["--test", "cli"].map(String::from));
    let dir = tempfile::tempdir()?;
    let program = Program {
        cera: test::build(&platform, &selection)?.cera(&platform)?,
        model: proc::root().join(MODEL),
        logits: dir.path().join("logits.safetensors"),
    };
    let mut faults = scan::offenders(&program.cera)?;
    let expected = program.hash(program.native("scalar"))?;
    for (cpu, tier) in CPUS {
        match program.departures(cpu, tier, &expected) {
            Ok(found) => faults.extend(found),
            Err(error) => faults.push(format!("{cpu}: {error:#}")),
        }
    }
    faults.extend(program.refusal(CPUS[CPUS.len() - 1].0)?);
    if !faults.is_empty() {
        bail!("{}", faults.join("; "));
    }
    println!("{} processors, logits {expected}", CPUS.len());
    Ok(())
}

struct Program {
    cera: PathBuf,
    model: PathBuf,
    /// Where the program writes logits.
    logits: PathBuf,
}

impl Program {
    fn native(&self, tier: &str) -> Command {
        let mut command = Command::new(&self.cera);
        command.env(TIER_VAR, tier);
        command
    }

    /// The program on an emulated processor, left to choose its tier; with one thread, as the emulator is not always up to
    /// more.
    fn on(&self, cpu: &str) -> Command {
        let mut command = Command::new(QEMU);
        command.args(["-cpu", cpu]).arg(&self.cera).env_remove(TIER_VAR).env("CERA_THREADS", "1");
        command
    }

    /// What the program does on a processor and should not.
    fn departures(&self, cpu: &str, tier: &str, expected: &str) -> Result<Option<String>> {
        let report: serde_json::Value =
            serde_json::from_str(&stdout(self.on(cpu).args(["tiers", "--json"]))?)?;
        let chosen = report["chosen"].as_str().unwrap_or_default();
        if chosen != tier {
            return Ok(Some(format!("{cpu}: the program chose the tier {chosen:?}, not {tier}")));
        }
        stdout(self.on(cpu).arg("--version"))?;
        stdout(self.on(cpu).arg("inspect").arg(&self.model))?;
        let hash = self.hash(self.on(cpu))?;
        Ok((hash != expected).then(|| format!("{cpu}: logits have the hash {hash}, not {expected}")))
    }

    /// The hash that the program prints for the logits of three tokens.
    fn hash(&self, mut command: Command) -> Result<String> {
        command.arg("logits").arg("--model").arg(&self.model).args(["--tokens", "1,2,3", "--output"]);
        let text = stdout(command.arg(&self.logits))?;
        let hash = text.split_once("sha256 ").map(|(_, hash)| hash.trim().to_string());
        hash.with_context(|| format!("`cera logits` printed no hash: {text:?}"))
    }

    /// What is wrong with how the program refuses a tier that the processor lacks.
    fn refusal(&self, cpu: &str) -> Result<Option<String>> {
        let (tier, features) = REFUSED;
        let output = output(self.on(cpu).env(TIER_VAR, tier).arg("tiers"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let lacks = text.split_once("lacks ").map_or("", |(_, lacks)| lacks);
        let named = features.iter().all(|feature| lacks.contains(feature));
        let refused = output.status.code() == Some(1) && named;
        Ok((!refused).then(|| {
            format!(
                "{cpu}: forcing {tier} must end with 1 and name what is missing: {}, {text:?}",
                output.status
            )
        }))
    }
}

fn output(command: &mut Command) -> Result<Output> {
    let line = proc::describe(command);
    command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{line}`"))
}

/// What the command prints; its messages, among them the emulator's about features that it does not play, only in errors.
fn stdout(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed ({}): {}", proc::describe(command), output.status, text.trim_end());
    }
    Ok(String::from_utf8(output.stdout)?)
}
