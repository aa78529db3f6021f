//! How a session is set up, as arguments.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cera_core::CancelToken;
use cera_models::Model;
use cera_models::chat::{ChatTemplate, TokenTexts};
use cera_models::gguf::Meta;
use cera_models::session::{CheckpointOptions, ContextShift, Session, SessionOptions};

use super::{KvArg, input};
use crate::output;

/// The context of a session.
#[derive(Debug, clap::Args)]
pub(crate) struct ContextArgs {
    /// Tokens of prompts and answers at most [default: what the model was made for].
    #[arg(short, long, value_name = "N")]
    ctx: Option<NonZero<usize>>,
    /// The element type of the KV cache.
    #[arg(long, value_enum, default_value = "f16")]
    kv: KvArg,
    /// When the context is full, go on without the oldest tokens: half of what the context has room for besides those of --keep.
    /// Without this, a prompt that is too long is refused, and an answer ends where the context does.
    #[arg(long)]
    context_shift: bool,
    /// Tokens at the beginning that stay when the context shifts [default: 4].
    #[arg(long, value_name = "N", requires = "context_shift")]
    keep: Option<usize>,
    /// Tokens between the states that are kept to go back to, of models that cannot go back by themselves [default: 512].
    #[arg(long, value_name = "N")]
    checkpoint_every: Option<NonZero<usize>>,
}

/// Tokens that stay when the context shifts: attention leans on the very first ones.
const KEEP: usize = 4;

impl ContextArgs {
    /// An empty session. A context longer than the model's is pointed out.
    pub(crate) fn session(&self, model: Arc<Model>) -> Result<Session> {
        let (context, longest) = (self.ctx.map(NonZero::get), model.context_length());
        if let Some(context) = context.filter(|&context| context > longest) {
            output::notice(&format!("the model was made for {longest} tokens of context, not for {context}"));
        }
        let keep = self.keep.unwrap_or(KEEP);
        let shift = self.context_shift.then_some(ContextShift { keep });
        let context_length = context.unwrap_or(longest);
        if shift.is_some_and(|shift| !shift.fits(context_length)) {
            bail!("--keep {keep} leaves no room in a context of {context_length} tokens");
        }
        let mut checkpoints = CheckpointOptions::default();
        checkpoints.every = self.checkpoint_every.unwrap_or(checkpoints.every);
        Ok(Session::new(model, SessionOptions { kv: self.kv.into(), context, shift, checkpoints }))
    }
}

/// What became of tokens that were computed before, as an addition to a number of tokens: `(7 reused, 2 recomputed)`, with the
/// tokens that gave way.
pub(crate) fn reuse(session: &Session) -> String {
    let stats = session.stats();
    let counts = [(stats.reused, "reused"), (stats.recomputed, "recomputed"), (session.dropped(), "dropped")];
    let shown = counts.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}"));
    match shown.collect::<Vec<_>>() {
        shown if shown.is_empty() => String::new(),
        shown => format!(" ({})", shown.join(", ")),
    }
}

/// The chat template of a session.
#[derive(Debug, clap::Args)]
pub(crate) struct TemplateArgs {
    /// A Jinja chat template to use instead of the model's.
    #[arg(long, value_name = "FILE")]
    chat_template: Option<PathBuf>,
}

impl TemplateArgs {
    /// The template given, else the model's, if it has one.
    pub(crate) fn template(&self, meta: Meta<'_>) -> Result<Option<ChatTemplate>> {
        Ok(match &self.chat_template {
            Some(path) => Some(ChatTemplate::new(&input::file_text(path)?, TokenTexts::from_gguf(meta)?)?),
            None => ChatTemplate::from_gguf(meta)?,
        })
    }
}

/// Calls `interrupted` on Ctrl-C; `false` from it ends the program.
pub(crate) fn on_interrupt(mut interrupted: impl FnMut() -> bool + Send + 'static) -> Result<()> {
    ctrlc::set_handler(move || {
        if !interrupted() {
            std::process::exit(130);
        }
    })
    .context("cannot handle interrupts")
}

/// Cancels by `cancel`; `false` if that was done before.
pub(crate) fn cancel_once(cancel: &CancelToken) -> bool {
    let first = !cancel.is_cancelled();
    cancel.cancel();
    first
}
