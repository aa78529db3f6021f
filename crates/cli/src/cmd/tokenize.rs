//! `cera tokenize`: text to token ids and back.

use std::path::PathBuf;

use anyhow::Result;
use cera_models::gguf::{GgufFile, LoadMode};
use cera_models::tokenizer::{EncodeOptions, Tokenizer, TokenizerOptions};

use super::input;
use crate::output;

/// Arguments of `cera tokenize`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model or vocabulary, a GGUF file; of a split model, the first.
    #[arg(short, long, value_name = "FILE")]
    model: PathBuf,
    /// The text; without it and --file, standard input.
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// A file with the text.
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Do not begin with BOS, whatever the model asks for.
    #[arg(long)]
    no_bos: bool,
    /// Let the names of control tokens in the text become these tokens.
    #[arg(long)]
    parse_special: bool,
    /// Print the text of these token ids, separated by commas, instead.
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        conflicts_with_all = ["text", "file", "no_bos", "parse_special"]
    )]
    decode: Option<Vec<u32>>,
    /// Split words as by this pre-tokenizer, instead of the one that the file names.
    #[arg(long, value_name = "NAME")]
    pre: Option<String>,
    /// Fail where the file's pre-tokenizer is missing or not known, instead of warning.
    #[arg(long)]
    strict: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let file = GgufFile::open(&args.model, LoadMode::Map)?;
    let options = TokenizerOptions { strict: args.strict, pre: args.pre.clone() };
    let tokenizer = Tokenizer::from_gguf(file.meta(), &options)?;
    if let Some(ids) = &args.decode {
        return output::stream(&tokenizer.decode(ids)?).map(drop);
    }
    let text = input::text(args.text.as_deref(), args.file.as_deref())?;
    let options =
        EncodeOptions { bos: !args.no_bos, parse_special: args.parse_special, ..EncodeOptions::default() };
    let ids = tokenizer.encode(&text, options)?;
    output::print(&(serde_json::to_string(&ids)? + "\n"))
}
