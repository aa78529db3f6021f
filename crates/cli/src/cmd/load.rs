//! Loading the model of a command.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use bytesize::ByteSize;
use cera_core::width::{PinMode, ThreadCount};
use cera_core::{ProgramOptions, Runtime, Settings};
use cera_models::{Model, ModelOptions};
use indicatif::{ProgressBar, ProgressStyle};

/// What a command runs on.
#[derive(Debug, clap::Args)]
pub(crate) struct ThreadArgs {
    /// Threads [default: CERA_THREADS, else as `cera tiers` tells].
    #[arg(short, long, value_name = "N")]
    threads: Option<ThreadCount>,
    /// Bind workers to cores: auto, off or on [default: CERA_PIN, else auto, as `cera tiers` tells].
    #[arg(long, value_name = "MODE")]
    pin: Option<PinMode>,
}

impl ThreadArgs {
    /// A runtime as the settings and this argument ask for.
    pub(crate) fn runtime(&self) -> Result<Arc<Runtime>> {
        let mut settings = Settings::from_env()?;
        if let Some(threads) = self.threads {
            settings.threads.set_argument(threads);
        }
        if let Some(pin) = self.pin {
            settings.pin.set_argument(pin);
        }
        Ok(Runtime::from_settings(&settings)?)
    }
}

/// Which model a command runs, and on what.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// The model, a GGUF file; of a split model, any of its files.
    #[arg(short, long, value_name = "FILE")]
    model: PathBuf,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Do not pack the weights at load; the results do not depend on it.
    #[arg(long, conflicts_with = "memory")]
    no_repack: bool,
    #[command(flatten)]
    memory: MemoryArg,
}

/// How much memory weights may take.
#[derive(Debug, clap::Args)]
pub(crate) struct MemoryArg {
    /// The most memory for weights, as in 8GiB. Of a mixture of experts that needs more, the experts used last are kept;
    /// others are read when they are chosen. The results do not depend on it.
    #[arg(long, value_name = "BYTES")]
    memory: Option<ByteSize>,
}

impl MemoryArg {
    /// Bytes.
    pub(crate) fn bytes(&self) -> Option<usize> {
        self.memory.map(|memory| usize::try_from(memory.as_u64()).unwrap_or(usize::MAX))
    }
}

impl LoadArgs {
    /// Loads the model to run as it does by default.
    pub(crate) fn load(&self) -> Result<Model> {
        self.load_with(ProgramOptions::default())
    }

    /// Loads the model. A bar on standard error shows progress, if that is a terminal.
    pub(crate) fn load_with(&self, program: ProgramOptions) -> Result<Model> {
        let runtime = self.threads.runtime()?;
        let options = ModelOptions {
            repack: !self.no_repack,
            memory: self.memory.bytes(),
            program,
            ..ModelOptions::default()
        };
        let style = ProgressStyle::with_template("loading {bar:30} {bytes} of {total_bytes}")?;
        let bar = ProgressBar::new(0).with_style(style);
        let model = Model::load_with(&self.model, runtime, options, &mut |progress| {
            bar.set_length(progress.total as u64);
            bar.set_position(progress.bytes as u64);
        });
        bar.finish_and_clear();
        Ok(model?)
    }
}
