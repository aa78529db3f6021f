//! The programs of others that cera is compared with, and how they are told of: `--peer NAME=PATH`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::ValueEnum;

use super::programs::{BenchRow, parse};
use crate::proc;

/// A program of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PeerName {
    /// llama.cpp's llama-bench, built for the processor.
    LlamaBench,
    /// The same, built without AVX-512, which the tier `avx2` is compared with.
    LlamaBenchAvx2,
}

/// A program of others and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) name: PeerName,
    path: PathBuf,
}

impl Peer {
    /// Out of `NAME=PATH`.
    ///
    /// # Errors
    /// If there is no such name or file.
    pub(super) fn parse(text: &str) -> Result<Peer, String> {
        let (name, path) = text.split_once('=').ok_or_else(|| "NAME=PATH is expected".to_owned())?;
        let name = PeerName::from_str(name, false).map_err(|_| {
            let names = PeerName::value_variants().iter().filter_map(|name| name.to_possible_value());
            let names: Vec<String> = names.map(|name| name.get_name().to_owned()).collect();
            format!("there is no peer {name}; there are {}", names.join(", "))
        })?;
        let path = PathBuf::from(path);
        if path.is_file() { Ok(Peer { name, path }) } else { Err(format!("{} is no file", path.display())) }
    }

    /// The rows that it prints for a model, and how long the process ran.
    ///
    /// # Errors
    /// If it fails or prints something else.
    pub(super) fn bench(&self, model: &Path, args: &[String]) -> Result<(Vec<BenchRow>, Duration)> {
        let mut command = Command::new(&self.path);
        // Builds that were not installed find their libraries beside them.
        let folder = self.path.parent().map(Path::to_owned).into_iter();
        let others = std::env::var_os("LD_LIBRARY_PATH");
        let libraries = folder.chain(others.iter().flat_map(std::env::split_paths));
        command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries)?);
        let start = Instant::now();
        let text = proc::read(command.args(["-o", "json"]).arg("-m").arg(model).args(args))?;
        let time = start.elapsed();
        let rows: Vec<BenchRow> = parse(&text)?;
        ensure!(!rows.is_empty(), "{} printed no row", self.path.display());
        Ok((rows, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_named() {
        let file = format!(
            "llama-bench-avx2={}",
            file!().replace("xtask/", concat!(env!("CARGO_MANIFEST_DIR"), "/"))
        );
        assert_eq!(Peer::parse(&file).map(|peer| peer.name), Ok(PeerName::LlamaBenchAvx2));
        for (text, fault) in [
            ("/usr/bin/llama-bench", "NAME=PATH is expected"),
            ("llama-bench=/no/such/file", "/no/such/file is no file"),
            ("candle=x", "there is no peer candle; there are llama-bench, llama-bench-avx2"),
        ] {
            assert_eq!(Peer::parse(text), Err(fault.to_owned()));
        }
    }
}
