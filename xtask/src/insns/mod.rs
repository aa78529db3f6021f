//! `xtask insns`: instructions that the AArch64 kernels execute, counted by the emulator.
//!
//! The example `tile` of `simd-neon` runs a kernel on strips of 16 weight rows and some tokens; a plugin of QEMU counts how
//! often every instruction runs. Differences between runs leave what one more block of 32 elements adds to one call. Of
//! that, what grows with rows and tokens is the tile; what grows with rows alone is the unpacking of weights, and with
//! tokens alone, the arrangement of activations. The listing names instructions by their disassembly, so that the loop can
//! be counted by hand too.

mod count;
mod minimum;
mod trace;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use self::count::{Count, PARTS};
use self::trace::{Executions, Listing};
use crate::proc;
use crate::test::{Arch, Platform};

/// Arguments of `xtask insns`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these tiers, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "neon,neon-dotprod,neon-i8mm")]
    tiers: Vec<String>,
    /// Only these weight formats, separated by commas.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "Q4_0,Q4_1,Q5_0,Q5_1,Q8_0,Q2_K,Q3_K,Q4_K,Q5_K,Q6_K,IQ4_NL,IQ4_XS,MXFP4,F16,BF16,F32"
    )]
    formats: Vec<String>,
    /// Count all that a product of one strip with so many tokens takes, instead of the tile of a long prompt; 1 stands for
    /// the kernel for one token.
    #[arg(long, value_name = "N")]
    tokens: Option<usize>,
    /// Print the instructions of the tile, and how often each runs for a block.
    #[arg(long)]
    listing: bool,
    /// Fail if a tile of Q4_0, Q4_K, Q6_K or Q8_0 with dot or matrix products takes more than 1.15 times its minimum.
    #[arg(long, conflicts_with = "tokens")]
    check: bool,
}

/// Elements of the short rows; the long ones have twice as many. A whole number of blocks of every format.
const SHORT: usize = 1024;
/// Tokens of the short prompt: whole register tiles of every kernel. The long one has twice as many.
const PROMPT: usize = 96;

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    if Arch::host()? == Arch::Aarch64 {
        bail!("instructions are counted by an emulator, on a machine of another architecture");
    }
    let tools = Tools::provide()?;
    let mut above = Vec::new();
    println!("{}", count::HEAD);
    for tier in &args.tiers {
        for format in &args.formats {
            let Some(count) = tools.count(tier, format, args.tokens)? else {
                println!("| {tier} | {format} | that of a lower tier |");
                continue;
            };
            println!("{}", count.row());
            if args.listing {
                println!("{}", count.listing(&tools.listing));
            }
            above.extend(count.fault());
        }
    }
    if args.check && !above.is_empty() {
        bail!("{}", above.join("; "));
    }
    Ok(())
}

/// What counting needs: the program, its disassembly, the plugin.
struct Tools {
    platform: Platform,
    tile: PathBuf,
    listing: Listing,
    plugin: PathBuf,
}

/// The size of a product.
#[derive(Clone, Copy)]
struct Size {
    strips: usize,
    tokens: usize,
}

#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

impl Tools {
    /// Builds all of it.
    fn provide() -> Result<Tools> {
        let platform = Platform::new(Arch::Aarch64)?;
        let mut cargo = platform.cargo_static();
        cargo.args(["build", "--quiet", "--release", "--package", "cera-simd-neon", "--example", "tile"]);
        let messages = proc::read(cargo.arg("--message-format=json-render-diagnostics"))?;
        let mut tile = None;
        for line in messages.lines().filter(|line| line.starts_with('{')) {
            let message: Message = serde_json::from_str(line).context("cargo printed an unknown message")?;
            if message.target.is_some_and(|target| target.name == "tile") {
                tile = message.executable.or(tile);
            }
        }
        let tile = tile.context("cargo built no example named tile")?;
        let mut objdump = Command::new("aarch64-linux-gnu-objdump");
        let text = proc::read(objdump.args(["--disassemble", "--no-show-raw-insn"]).arg(&tile))?;
        Ok(Tools { platform, tile, listing: Listing::parse(&text), plugin: build_plugin()? })
    }

    /// What a kernel executes for a block, or nothing if the tier has no kernel of its own for the format.
    fn count(&self, tier: &str, format: &str, tokens: Option<usize>) -> Result<Option<Count>> {
        let mut found = (0, 0);
        let mut per_block = |strips: usize, tokens: usize| -> Result<Option<Executions>> {
            let mut sum = Executions::default();
            for (k, times, sign) in
                [(2 * SHORT, 2, 1.0), (2 * SHORT, 1, -1.0), (SHORT, 2, -1.0), (SHORT, 1, 1.0)]
            {
                let run = self.run_tile(tier, format, Size { strips, tokens }, (k, times))?;
                let Some((shape, executions)) = run else { return Ok(None) };
                sum.add(&executions, sign * count::BLOCK as f64 / SHORT as f64);
                found = shape;
            }
            Ok(Some(sum))
        };
        let Some(tokens) = tokens else {
            let mut parts = [const { Executions::empty() }; PARTS];
            for (strips, tokens) in [(1, PROMPT), (1, 2 * PROMPT), (2, PROMPT), (2, 2 * PROMPT)] {
                let Some(executions) = per_block(strips, tokens)? else { return Ok(None) };
                count::distribute(&mut parts, &executions, (strips, tokens / PROMPT), PROMPT);
            }
            return Ok(Some(Count::of_parts((tier, format), found, parts)));
        };
        Ok(per_block(1, tokens)?.map(|executions| Count::of_whole((tier, format), found, tokens, executions)))
    }

    /// The register tile of the kernel, and what a run executed.
    fn run_tile(
        &self,
        tier: &str,
        format: &str,
        size: Size,
        (k, times): (usize, usize),
    ) -> Result<Option<((usize, usize), Executions)>> {
        let out = folder()?.join("trace");
        let mut command = self.platform.command(&self.tile, "");
        command.env("QEMU_PLUGIN", format!("{},out={}", self.plugin.display(), out.display()));
        let numbers = [size.strips, size.tokens, k, times].map(|number| number.to_string());
        command.args([tier, format]).args(numbers);
        let output =
            command.output().with_context(|| format!("cannot start `{}`", proc::describe(&command)))?;
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if stderr.contains("no such kernel") {
            return Ok(None);
        }
        let shape = stdout.split_whitespace().map(str::parse).collect::<Result<Vec<usize>, _>>();
        let (true, Ok([rows, columns])) = (output.status.success(), shape.as_deref()) else {
            bail!("`{}` failed: {stderr}", proc::describe(&command))
        };
        let trace =
            std::fs::read_to_string(&out).with_context(|| format!("cannot read {}", out.display()))?;
        Ok(Some(((*rows, *columns), Executions::parse(&trace)?)))
    }
}

fn folder() -> Result<PathBuf> {
    let dir = proc::target_dir().join("xtask/insns");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir)
}

/// Compiles the plugin for this machine's emulator.
fn build_plugin() -> Result<PathBuf> {
    let plugin = folder()?.join("plugin.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/insns/plugin.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC"]).arg(format!("-DPLUGIN_VERSION={}", plugin_version()?));
    proc::run(compiler.arg("-o").arg(&plugin).arg(source))?;
    Ok(plugin)
}

/// The version of the plugin interface that the emulator asks for.
fn plugin_version() -> Result<u32> {
    let text = proc::read(Command::new("qemu-aarch64").arg("--version"))?;
    let version = text.split_whitespace().find_map(|word| word.split_once('.')?.0.parse::<u32>().ok());
    Ok(if version.context("the emulator names no version")? >= 9 { 2 } else { 1 })
}
