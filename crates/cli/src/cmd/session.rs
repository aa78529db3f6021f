//! How a session is set up, as arguments.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use cera_core::CancelToken;
use cera_models::Model;
use cera_models::chat::{ChatTemplate, TokenTexts};
use cera_models::gguf::Meta;
use cera_models::session::{Session, SessionOptions};

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
}

impl ContextArgs {
    /// An empty session. A context longer than the model's is pointed out.
    pub(crate) fn session(&self, model: Arc<Model>) -> Session {
        let (context, longest) = (self.ctx.map(NonZero::get), model.context_length());
        if let Some(context) = context.filter(|&context| context > longest) {
            output::notice(&format!("the model was made for {longest} tokens of context, not for {context}"));
        }
        Session::new(model, SessionOptions { kv: self.kv.into(), context })
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
