//! Developer tasks of cera: `cargo xtask --help` lists them.
//!
//! Each command is one module. Commands print what they do on stderr or stdout, end with exit code 0 when all went well,
//! and otherwise with 1 and one line that names the fault.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks on its standard streams"
)]

mod accept;
mod bless;
mod ci;
mod demo;
mod fuzz;
mod insns;
mod model;
mod proc;
mod synth;
mod test;

use clap::{Parser, Subcommand};

/// Developer tasks of cera.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Fetch a small model, build cera and have it answer a question.
    Demo(demo::Args),
    /// Fetch a demo model into the cache folder and print its path.
    Model(model::Args),
    /// Write a GGUF file with random weights of a given shape and type.
    Synth(synth::Args),
    /// Run the tests, the tier-dependent ones in one process per tier.
    Test(test::Args),
    /// Rewrite the golden file from a run on every tier of every architecture; refused when tiers disagree.
    Bless(bless::Args),
    /// Run the fuzz targets with the nightly toolchain.
    Fuzz(fuzz::Args),
    /// Run everything that a change must pass.
    Ci(ci::Args),
    /// Count the instructions of the AArch64 kernels, emulated.
    Insns(insns::Args),
    /// Hold speed and memory against their thresholds, on a quiet machine.
    Accept(accept::Args),
}

fn main() -> std::process::ExitCode {
    let result = match Cli::parse().task {
        Task::Demo(args) => demo::run(&args),
        Task::Model(args) => model::run(&args),
        Task::Synth(args) => synth::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Bless(args) => bless::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Ci(args) => ci::run(&args),
        Task::Insns(args) => insns::run(&args),
        Task::Accept(args) => accept::run(&args),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
