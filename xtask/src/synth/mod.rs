//! `xtask synth`: a llama model with random weights of a given shape and type, in a GGUF file that other engines load too.
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
use std::io::{BufWriter, Write};
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
    let partial = with_suffix(&args.output, ".partial");
    let bytes =
        write(&partial, &shape, args).with_context(|| format!("cannot write {}", partial.display()))?;
    fs::rename(&partial, &args.output).with_context(|| format!("cannot write {}", args.output.display()))?;
    let elements: u64 = shape.tensors().iter().map(Tensor::elements).sum();
    println!(
        "{}: {:.1} M weights in {:.1} MB",
        args.output.display(),
        elements as f64 / 1e6,
        bytes as f64 / 1e6
    );
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Writes the whole file and returns its size in bytes.
fn write(path: &Path, shape: &Shape, args: &Args) -> Result<u64> {
    let tensors: Vec<(Tensor, Format)> = shape
        .tensors()
        .into_iter()
        .map(|tensor| {
            let format = args.mix.format_of(&tensor, shape, args.pure);
            (tensor, format)
        })
        .collect();
    let mut header = gguf::Header::default();
    shape.describe(&mut header);
    header.u32("general.file_type", args.mix.file_type());
    vocab::describe(shape.vocabulary, &mut header);
    for (tensor, format) in &tensors {
        header.tensor(&tensor.name, &tensor.dims, *format);
    }
    let mut file = BufWriter::with_capacity(CHUNK, File::create(path)?);
    let mut written = header.finish(&mut file)?;
    for (index, (tensor, format)) in tensors.iter().enumerate() {
        let mut rng = ChaCha8Rng::seed_from_u64(args.seed);
        rng.set_stream(index as u64);
        written += write_tensor(&mut file, tensor, *format, &mut rng)?;
    }
    file.flush()?;
    Ok(written)
}

/// Writes one tensor with the padding after it and returns the number of bytes.
fn write_tensor(file: &mut impl Write, tensor: &Tensor, format: Format, rng: &mut ChaCha8Rng) -> Result<u64> {
    let blocks = tensor.elements() / format.block_len() as u64;
    let mut left = blocks * format.block_bytes() as u64;
    let padding = left.next_multiple_of(gguf::ALIGNMENT) - left;
    let total = left + padding;
    let mut buffer = vec![0; CHUNK / format.block_bytes() * format.block_bytes()];
    while left > 0 {
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        match tensor.role {
            Role::Norm => blocks::fill_norm(tensor.spread, rng, &mut buffer[..take]),
            _ => blocks::fill(format, tensor.spread, rng, &mut buffer[..take])?,
        }
        file.write_all(&buffer[..take])?;
        left -= take as u64;
    }
    file.write_all(&[0; gguf::ALIGNMENT as usize][..padding as usize])?;
    Ok(total)
}

#[cfg(test)]
mod tests;
