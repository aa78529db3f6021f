//! `cera run`: the answer to a prompt.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use cera_core::CancelToken;
use cera_models::chat::{Message, RenderOptions};
use cera_models::gguf::GgufSet;
use cera_models::session::{Finish, GenerateOptions, Session, encode_chat};
use cera_models::tokenizer::{EncodeOptions, Tokenizer, TokenizerOptions};
use serde::Serialize;

use super::experts::Experts;
use super::input;
use super::load::LoadArgs;
use super::sampling::SamplingArgs;
use super::session::{ContextArgs, TemplateArgs, cancel_once, on_interrupt, reuse};
use crate::output;

/// Arguments of `cera run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cera run -m model.gguf -p \"What is the capital of France?\"
  cera run -m model.gguf -f question.txt --system \"Answer in one word.\" --temp 0
  cera run -m model.gguf --raw -p \"Once upon a time\" -n 100
  git diff | cera run -m model.gguf --system \"Describe this change.\" --json")]
pub(crate) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    /// The prompt; without it and --file, standard input.
    #[arg(short, long, value_name = "TEXT", conflicts_with = "file", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// A file with the prompt.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// What the model is told before the prompt.
    #[arg(long, value_name = "TEXT", conflicts_with = "raw", allow_hyphen_values = true)]
    system: Option<String>,
    /// Continue the prompt as plain text, without the chat template.
    #[arg(long, conflicts_with = "chat_template")]
    raw: bool,
    #[command(flatten)]
    template: TemplateArgs,
    /// Tokens of the answer at most [default: until the model ends it or the context is full].
    #[arg(short, long, value_name = "N")]
    n_predict: Option<NonZero<usize>>,
    /// A text that ends the answer and is no part of it. May be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    #[command(flatten)]
    context: ContextArgs,
    /// Keep what is computed in this file, and take from it what the prompt has in common with the last one.
    #[arg(long, value_name = "FILE")]
    prompt_cache: Option<PathBuf>,
    /// Print one JSON object instead of the text as it comes.
    #[arg(long)]
    json: bool,
    /// Do not print the timing.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// The result as JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    model: &'a str,
    tier: &'static str,
    threads: usize,
    text: &'a str,
    finish: &'static str,
    prompt_tokens: usize,
    reused_tokens: usize,
    recomputed_tokens: usize,
    dropped_tokens: usize,
    generated_tokens: usize,
    load_seconds: f64,
    prompt_seconds: f64,
    generate_seconds: f64,
    context: usize,
    context_bytes: usize,
    /// Where not all experts are in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    experts: Option<Experts>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let sampling = args.sampling.params();
    sampling.check()?;
    let mut prompt = input::text(args.prompt.as_deref(), args.file.as_deref())?;
    if args.prompt.is_none() {
        // The end of the last line is the file's, not the prompt's.
        prompt.truncate(prompt.strip_suffix('\n').map_or(prompt.len(), str::len));
    }
    if prompt.is_empty() {
        bail!("the prompt is empty");
    }
    let model = Arc::new(args.load.load()?);
    let tokenizer = Tokenizer::from_gguf(model.file().meta(), &TokenizerOptions::default())?;
    let mut session = args.context.session(model.clone())?;
    if let Some(path) = args.prompt_cache.as_ref().filter(|path| path.exists()) {
        session.restore(path)?;
    }
    let tokens = prompt_tokens(args, &prompt, model.file(), &tokenizer)?;
    session.set_tokens(&tokens);
    let cancel = CancelToken::new();
    let interrupt = cancel.clone();
    on_interrupt(move || cancel_once(&interrupt))?;
    let options = GenerateOptions {
        sampling,
        max_tokens: args.n_predict.map(NonZero::get),
        stops: args.stop.clone(),
        cancel,
    };
    let mut generation = session.generate(&tokenizer, options)?;
    let (mut text, mut generated) = (String::new(), 0);
    for piece in &mut generation {
        let piece = piece?;
        generated += usize::from(piece.choice.is_some());
        text.push_str(&piece.text);
        if !args.json && !output::stream(&piece.text)? {
            break;
        }
    }
    let finish = generation.finish().map_or("cancelled", Finish::label);
    if let Some(path) = &args.prompt_cache {
        session.save(path)?;
    }
    if !args.json {
        // A reader that has gone away needs no end of the line.
        let _read = output::stream("\n")?;
        if !args.quiet {
            let experts = Experts::of(&model).map_or(String::new(), |experts| experts.note());
            output::notice(&(timing(&session, (tokens.len(), generated), finish) + &experts));
        }
        return Ok(());
    }
    let stats = session.stats();
    output::print_json(&Report {
        model: model.file().name(),
        tier: model.program().runtime().table().tier().label(),
        threads: model.program().runtime().width(),
        text: &text,
        finish,
        prompt_tokens: tokens.len(),
        reused_tokens: stats.reused,
        recomputed_tokens: stats.recomputed,
        dropped_tokens: session.dropped(),
        generated_tokens: generated,
        load_seconds: (model.load_stats().open + model.load_stats().pack).as_secs_f64(),
        prompt_seconds: stats.prompt_time.as_secs_f64(),
        generate_seconds: stats.generated_time.as_secs_f64(),
        context: session.context(),
        context_bytes: session.context_bytes(),
        experts: Experts::of(&model),
    })
}

/// The tokens of the prompt: by the chat template, or of the text alone.
fn prompt_tokens(args: &Args, prompt: &str, file: &GgufSet, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let template = if args.raw { None } else { args.template.template(file.meta())? };
    if let Some(template) = template {
        let mut messages: Vec<Message> =
            args.system.iter().map(|text| Message::new("system", text)).collect();
        messages.push(Message::new("user", prompt));
        let render = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
        return Ok(encode_chat(&template, &messages, &render, tokenizer)?);
    }
    if !args.raw {
        let file = file.name();
        if args.system.is_some() {
            bail!("{file} has no chat template that would take --system; give one with --chat-template");
        }
        output::notice(&format!("{file} has no chat template: the prompt is continued as plain text"));
    }
    Ok(tokenizer.encode(prompt, EncodeOptions::default())?)
}

/// One line: what was computed, how fast, in what context.
fn timing(session: &Session, (prompt, generated): (usize, usize), finish: &str) -> String {
    let stats = session.stats();
    let load = session.model().load_stats();
    let speed = |tokens: usize, time: std::time::Duration| match tokens {
        0 => String::new(),
        _ => format!(", {:.1} tokens/s", tokens as f64 / time.as_secs_f64()),
    };
    format!(
        "load {:.2} s; prompt {prompt} tokens{}{}; answer {generated} tokens{} ({finish}); context {}, {:.1} MB when full",
        (load.open + load.pack).as_secs_f64(),
        reuse(session),
        speed(stats.prompt, stats.prompt_time),
        speed(stats.generated, stats.generated_time),
        session.context(),
        session.context_bytes() as f64 / 1e6,
    )
}
