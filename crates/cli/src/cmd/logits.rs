//! `cera logits`: the logits of a token sequence, to a safetensors file.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use cera_core::{ProgramOptions, SeqStep, Want};
use cera_models::logits_hash;
use safetensors::{Dtype, tensor::TensorView};

use super::KvArg;
use super::load::LoadArgs;
use crate::output;

/// Arguments of `cera logits`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    /// Token ids, separated by commas.
    #[arg(long, value_name = "IDS", value_delimiter = ',', required = true)]
    tokens: Vec<u32>,
    /// Only the logits of the last token.
    #[arg(long)]
    last: bool,
    /// The element type of the KV cache.
    #[arg(long, value_enum, default_value = "f16")]
    kv: KvArg,
    /// Tokens of a prefill pass at most; the logits do not depend on it.
    #[arg(long, value_name = "N", default_value = "512", value_parser = clap::value_parser!(u32).range(1..))]
    chunk: u32,
    /// Where to write the tensor `logits`, f32 [n, vocabulary], in the safetensors format.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let program = ProgramOptions { chunk: args.chunk as usize, ..ProgramOptions::default() };
    let model = args.load.load_with(program)?;
    let mut state = model.new_state(args.kv.into());
    let want = if args.last { Want::Last } else { Want::All };
    let steps = &mut [SeqStep { state: &mut state, tokens: &args.tokens, want }];
    let logits = model.step(steps)?;
    let vocabulary = logits.vocabulary();
    let rows = logits.data().len() / vocabulary;
    let hash = logits_hash(logits.data())?;
    let bytes: Vec<u8> = logits.data().iter().flat_map(|x| x.to_le_bytes()).collect();
    let tensor = TensorView::new(Dtype::F32, vec![rows, vocabulary], &bytes)?;
    let metadata = HashMap::from([("sha256".to_owned(), hash.clone())]);
    // Written in place: a device or a link stays what it is.
    let file = safetensors::serialize([("logits", tensor)], Some(metadata))?;
    std::fs::write(&args.output, file).with_context(|| format!("cannot write {}", args.output.display()))?;
    output::print(&format!("logits [{rows}, {vocabulary}] sha256 {hash}\n"))
}
