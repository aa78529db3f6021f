//! `xtask synth`: a model with random weights of a given shape and type, in a GGUF file that other engines load too.
//!
//! The same arguments give the same bytes. Weights have the spread that keeps activations near 1: a standard deviation of
//! one over the square root of the inputs (0.022 for 2048), norms near 1. What the model says means nothing; how long it
//! takes does.

mod blocks;
mod gguf;
mod mix;
mod shape;
mod vocab;

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cera_quant::Format;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use mix::Mix;
use shape::{Role, Shape, Tensor};

/// About how many bytes are made at a time.
const CHUNK: usize = 1 << 20;

/// Arguments of `xtask synth`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The sizes of the model.
    #[arg(long, value_parser = shape::names())]
    shape: String,
    /// A format for all matrices (Q4_0, Q4_K, BF16, ...) or a mix of K formats (Q4_K_M, Q5_K_S, ...).
    #[arg(long = "type", value_parser = mix::parse)]
    mix: Mix,
    /// The format also for the embedding, and the head if there is one, where llama.cpp's quantizer takes a finer one.
    #[arg(long)]
    pure: bool,
    /// Another number of layers than the shape has.
    #[arg(long)]
    layers: Option<u32>,
    /// The seed of the weights.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The file to write.
    #[arg(short, long)]
    output: PathBuf,
}

/// Writes the file.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(mut shape) = Shape::named(&args.shape) else { bail!("there is no shape {}", args.shape) };
    shape.layers = args.layers.unwrap_or(shape.layers);
    let recipe = Recipe::new(&shape, args.mix, args.pure);
    recipe.make(args.seed, &args.output)?;
    let elements: u64 = recipe.tensors.iter().map(|(tensor, _)| tensor.elements()).sum();
    println!(
        "{}: {:.1} M weights in {:.1} MB",
        args.output.display(),
        elements as f64 / 1e6,
        recipe.bytes() as f64 / 1e6
    );
    Ok(())
}

/// Makes sure that `dir` has the model of a shape and a type, with the default seed, and returns its path. A file that is
/// there is taken if it has the size and the head of the model.
///
/// # Errors
/// If there is no such shape or type, or the file cannot be written.
pub(crate) fn provide(shape: &str, mix: &str, dir: &Path) -> Result<PathBuf> {
    let found = Shape::named(shape).with_context(|| format!("there is no shape {shape}"))?;
    let recipe = Recipe::new(&found, mix::parse(mix).map_err(anyhow::Error::msg)?, false);
    let path = dir.join(format!("{shape}-{mix}.gguf"));
    if !recipe.is_in(&path) {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        recipe.make(0, &path)?;
    }
    Ok(path)
}

/// Bytes of the weights that a token is multiplied by in a model of a shape and a type: of experts those that it is given
/// to, of the embedding none unless it is the head.
///
/// # Errors
/// If there is no such shape or type.
pub(crate) fn active_bytes(shape: &str, mix: &str) -> Result<u64> {
    let shape = Shape::named(shape).with_context(|| format!("there is no shape {shape}"))?;
    let recipe = Recipe::new(&shape, mix::parse(mix).map_err(anyhow::Error::msg)?, false);
    let of_token = |(tensor, format): &(Tensor, Format)| match tensor.dims[..] {
        [_] => 0,
        _ if tensor.name.starts_with("token_embd") && !shape.tied => 0,
        [_, _, stack] if tensor.name.contains("_exps.") => {
            data_bytes(tensor, *format) / u64::from(stack) * u64::from(shape.experts_used())
        }
        _ => data_bytes(tensor, *format),
    };
    Ok(recipe.tensors.iter().map(of_token).sum())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Everything of a file but its random bits.
struct Recipe {
    head: Vec<u8>,
    tensors: Vec<(Tensor, Format)>,
}

impl Recipe {
    fn new(shape: &Shape, mix: Mix, pure: bool) -> Recipe {
        let format = |tensor: Tensor| {
            let format = mix.format_of(&tensor, shape, pure);
            (tensor, format)
        };
        let tensors: Vec<(Tensor, Format)> = shape.tensors().into_iter().map(format).collect();
        let mut header = gguf::Header::default();
        shape.describe(&mut header);
        header.u32("general.file_type", mix.file_type());
        vocab::describe(shape.vocabulary, &mut header);
        for (tensor, format) in &tensors {
            header.tensor(&tensor.name, &tensor.dims, *format);
        }
        Recipe { head: header.finish(), tensors }
    }

    /// Bytes of the file.
    fn bytes(&self) -> u64 {
        let data = self.tensors.iter().map(|(tensor, format)| data_bytes(tensor, *format));
        self.head.len() as u64 + data.map(|bytes| bytes.next_multiple_of(gguf::ALIGNMENT)).sum::<u64>()
    }

    /// Whether the file at `path` is of this recipe, with whatever random bits.
    fn is_in(&self, path: &Path) -> bool {
        let mut head = vec![0; self.head.len()];
        let mut file = match File::open(path) {
            Ok(file) if file.metadata().is_ok_and(|meta| meta.len() == self.bytes()) => file,
            _ => return false,
        };
        file.read_exact(&mut head).is_ok() && head == self.head
    }

    /// Writes the file, whole or not at all.
    fn make(&self, seed: u64, path: &Path) -> Result<()> {
        let partial = with_suffix(path, ".partial");
        self.write(seed, &partial).with_context(|| format!("cannot write {}", partial.display()))?;
        fs::rename(&partial, path).with_context(|| format!("cannot write {}", path.display()))
    }

    fn write(&self, seed: u64, path: &Path) -> Result<()> {
        let mut file = BufWriter::with_capacity(CHUNK, File::create(path)?);
        file.write_all(&self.head)?;
        for (index, (tensor, format)) in self.tensors.iter().enumerate() {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(index as u64);
            write_tensor(&mut file, tensor, *format, &mut rng)?;
        }
        file.flush()?;
        Ok(())
    }
}

/// Bytes of a tensor's data, without padding.
fn data_bytes(tensor: &Tensor, format: Format) -> u64 {
    tensor.elements() / format.block_len() as u64 * format.block_bytes() as u64
}

/// Writes one tensor with the padding after it.
fn write_tensor(file: &mut impl Write, tensor: &Tensor, format: Format, rng: &mut ChaCha8Rng) -> Result<()> {
    let mut left = data_bytes(tensor, format);
    let padding = left.next_multiple_of(gguf::ALIGNMENT) - left;
    let mut buffer = vec![0; CHUNK / format.block_bytes() * format.block_bytes()];
    while left > 0 {
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        match tensor.role {
            Role::Unquantized => {
                blocks::fill_around(tensor.center, tensor.spread, rng, &mut buffer[..take]);
            }
            _ => blocks::fill(format, tensor.spread, rng, &mut buffer[..take])?,
        }
        file.write_all(&buffer[..take])?;
        left -= take as u64;
    }
    file.write_all(&[0; gguf::ALIGNMENT as usize][..padding as usize])?;
    Ok(())
}

#[cfg(test)]
mod tests;
