//! Starting other programs: the workspace root, cargo, and commands whose failure is an error.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The folder that cargo builds into.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// A cargo command in the workspace, free of the variables that `cargo run` set for this program.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    strip_cargo_run(&mut command);
    command
}

/// Removes what `cargo run` tells the program it starts about its package; a child must not take it for its own.
pub(crate) fn strip_cargo_run(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") || text == "CARGO_BIN_NAME" {
            command.env_remove(&name);
        }
    }
}

/// The command as a line that a reader can type.
pub(crate) fn describe(command: &Command) -> String {
    let short = |part: &OsStr| {
        let path = Path::new(part);
        let name = if path.is_absolute() { path.file_name().unwrap_or(part) } else { part };
        name.to_string_lossy().into_owned()
    };
    let mut words = vec![short(command.get_program())];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Runs the command with inherited streams.
///
/// # Errors
/// If it cannot be started or ends with a failure.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs the command with its output held back, and shows that only if it failed.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_quietly(command: &mut Command) -> Result<()> {
    let line = describe(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("`{line}` failed ({})", output.status);
    }
    Ok(())
}

/// Runs the command and returns what it printed on standard output; standard error is inherited.
///
/// # Errors
/// If it cannot be started, ends with a failure, or prints something other than UTF-8.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({})", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed something other than UTF-8"))
}

/// Runs the command with both streams captured; `None` if it cannot be started.
pub(crate) fn probe(command: &mut Command) -> Option<Output> {
    command.stdin(Stdio::null()).output().ok()
}

/// Where `program` is found along `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
