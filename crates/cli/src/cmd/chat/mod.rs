//! `cera chat`: a conversation, line by line.

mod line;

use std::io::IsTerminal;
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cera_core::CancelToken;
use cera_models::chat::Message;
use cera_models::sampling::SamplingParams;
use cera_models::session::{Conversation, ConversationError, Finish, GenerateOptions};
use cera_models::tokenizer::{Tokenizer, TokenizerOptions};
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use serde::{Deserialize, Serialize};

use self::line::{HELP, Line};
use super::experts::Experts;
use super::load::LoadArgs;
use super::sampling::SamplingArgs;
use super::session::{ContextArgs, TemplateArgs, cancel_once, on_interrupt};
use crate::output;

/// Arguments of `cera chat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cera chat -m model.gguf
  cera chat -m model.gguf --system \"You answer in rhymes.\" --temp 1.2

In the chat, /help lists the commands.")]
pub(crate) struct Args {
    #[command(flatten)]
    load: LoadArgs,
    /// What the model is told before the conversation.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    #[command(flatten)]
    template: TemplateArgs,
    /// Tokens of an answer at most [default: until the model ends it or the context is full].
    #[arg(short, long, value_name = "N")]
    n_predict: Option<NonZero<usize>>,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// A conversation with its settings.
struct Chat {
    conversation: Conversation,
    sampling: SamplingParams,
    max_tokens: Option<usize>,
    /// What stops the answer under way.
    cancel: Arc<Mutex<CancelToken>>,
    /// Whether somebody reads the answers.
    read: bool,
}

/// A message in a file of `/save`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    role: String,
    content: String,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let sampling = args.sampling.params();
    sampling.check()?;
    let model = Arc::new(args.load.load()?);
    let meta = model.file().meta();
    let Some(template) = args.template.template(meta)? else {
        bail!("{} has no chat template; give one with --chat-template", model.file().name());
    };
    let tokenizer = Tokenizer::from_gguf(meta, &TokenizerOptions::default())?;
    let session = args.context.session(model.clone())?;
    let mut chat = Chat {
        conversation: Conversation::with(session, tokenizer, template),
        sampling,
        max_tokens: args.n_predict.map(NonZero::get),
        cancel: Arc::default(),
        read: true,
    };
    chat.set_system(args.system.clone());
    let cancel = chat.cancel.clone();
    on_interrupt(move || cancel_once(&cancel.lock().unwrap_or_else(PoisonError::into_inner)))?;
    if std::io::stdin().is_terminal() {
        output::notice("/help lists the commands; the end of input (Ctrl-D) ends the chat");
    }
    chat.talk()
}

impl Chat {
    /// Reads lines and does what they ask, until they end.
    fn talk(&mut self) -> Result<()> {
        let config = Config::builder().auto_add_history(true).build();
        let mut editor = DefaultEditor::with_config(config).context("cannot read lines")?;
        while self.read
            && let Some(line) = read(&mut editor)?
        {
            let done = match Line::parse(&line) {
                Line::Empty => Ok(()),
                Line::Quit => break,
                Line::Say(text) => {
                    self.conversation.say(text);
                    self.answer()
                }
                Line::Regen => self.regenerate(),
                Line::Undo => self.undo(),
                Line::System(text) => {
                    self.set_system(text);
                    Ok(())
                }
                Line::Save(path) => self.save(&path),
                Line::Load(path) => self.load(&path),
                Line::Stats => {
                    output::notice(&self.stats());
                    Ok(())
                }
                Line::Help => output::print(&format!("{HELP}\n")),
                Line::Wrong(what) => {
                    output::notice(&what);
                    Ok(())
                }
            };
            // What one line asks for and cannot be done does not end the chat.
            if let Err(error) = done {
                output::error(&error);
            }
        }
        Ok(())
    }

    /// Answers the last message. A message that gets no answer, by an error or an interrupt, is taken back.
    fn answer(&mut self) -> Result<()> {
        let before = self.conversation.messages.len();
        let answered = self.stream();
        if self.conversation.messages.len() == before {
            self.conversation.messages.pop();
        }
        answered
    }

    fn stream(&mut self) -> Result<()> {
        let cancel = CancelToken::new();
        *self.cancel.lock().unwrap_or_else(PoisonError::into_inner) = cancel.clone();
        let (sampling, max_tokens) = (self.sampling.clone(), self.max_tokens);
        let options = GenerateOptions { sampling, max_tokens, cancel, ..GenerateOptions::default() };
        let dropped = self.conversation.session().dropped();
        let mut reply = self.conversation.reply(options)?;
        while self.read
            && let Some(piece) = reply.next()
        {
            self.read = output::stream(&piece.map_err(ConversationError::from)?.text)?;
        }
        self.read &= output::stream("\n")?;
        match reply.finish() {
            Some(Finish::ContextFull) => {
                output::notice("[the context is full: /undo, begin anew, or start with --context-shift]");
            }
            Some(Finish::MaxTokens) => output::notice("[cut: -n says how long answers may be]"),
            Some(Finish::Cancelled) => output::notice("[stopped]"),
            _ => {}
        }
        drop(reply);
        if self.conversation.session().dropped() > dropped {
            output::notice("[the context was full: the oldest tokens are dropped]");
        }
        Ok(())
    }

    /// Answers the last message again, with other random numbers.
    fn regenerate(&mut self) -> Result<()> {
        let answer = self.conversation.messages.pop_if(|message| message.role == "assistant");
        let answer = answer.context("there is no answer to give again")?;
        self.sampling.seed = self.sampling.seed.wrapping_add(1);
        let before = self.conversation.messages.len();
        let answered = self.stream();
        if self.conversation.messages.len() == before {
            self.conversation.messages.push(answer);
        }
        answered
    }

    /// Takes back the last message of the user and what follows it.
    fn undo(&mut self) -> Result<()> {
        let messages = &mut self.conversation.messages;
        let last = messages.iter().rposition(|message| message.role == "user");
        messages.truncate(last.context("there is nothing to take back")?);
        Ok(())
    }

    fn set_system(&mut self, text: Option<String>) {
        let messages = &mut self.conversation.messages;
        messages.retain(|message| message.role != "system");
        if let Some(text) = text {
            messages.insert(0, Message::new("system", text));
        }
    }

    fn save(&self, path: &Path) -> Result<()> {
        let messages = self.conversation.messages.iter();
        let saved = messages.map(|message| Saved {
            role: message.role.clone(),
            content: message.content.clone().unwrap_or_default(),
        });
        let json = serde_json::to_string_pretty(&saved.collect::<Vec<_>>())? + "\n";
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))
    }

    fn load(&mut self, path: &Path) -> Result<()> {
        let text = super::input::file_text(path)?;
        let saved: Vec<Saved> = serde_json::from_str(&text)
            .with_context(|| format!("{} holds no messages of a chat", path.display()))?;
        if let Some(other) =
            saved.iter().find(|message| !["system", "user", "assistant"].contains(&message.role.as_str()))
        {
            bail!("{}: the role {} is not known", path.display(), other.role);
        }
        self.conversation.messages =
            saved.into_iter().map(|message| Message::new(message.role, message.content)).collect();
        Ok(())
    }

    fn stats(&self) -> String {
        let session = self.conversation.session();
        let stats = session.stats();
        let speed = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE);
        format!(
            "prompts {} tokens computed, {:.1} tokens/s, {} reused, {} recomputed; answers {} tokens, {:.1} tokens/s; {} of {} \
             tokens of the context ({} dropped), {:.1} MB when full",
            stats.prompt,
            speed(stats.prompt, stats.prompt_time),
            stats.reused,
            stats.recomputed,
            stats.generated,
            speed(stats.generated, stats.generated_time),
            session.tokens().len(),
            session.context(),
            session.dropped(),
            session.context_bytes() as f64 / 1e6,
        ) + &Experts::of(session.model()).map_or(String::new(), |experts| experts.note())
    }
}

/// The next line, with those that it goes on in; `None` at the end of input.
fn read(editor: &mut DefaultEditor) -> Result<Option<String>> {
    let mut whole = String::new();
    loop {
        let prompt = if whole.is_empty() { "> " } else { ". " };
        match editor.readline(prompt) {
            Ok(line) => match line.strip_suffix('\\') {
                Some(begun) => {
                    whole.push_str(begun);
                    whole.push('\n');
                }
                None => return Ok(Some(whole + &line)),
            },
            // The line is given up, not the chat.
            Err(ReadlineError::Interrupted) => whole.clear(),
            Err(ReadlineError::Eof) => return Ok((!whole.is_empty()).then_some(whole)),
            Err(error) => return Err(error).context("cannot read a line"),
        }
    }
}
