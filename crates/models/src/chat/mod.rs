//! Chat templates: how messages become the text that a model was trained on.
//!
//! A [`ChatTemplate`] is the Jinja template that a model file carries, rendered as Hugging Face's `transformers` renders
//! it: blocks trimmed on both sides, loop controls, `raise_exception`, `strftime_now`, `tojson` as Python's `json.dumps`,
//! the Python methods that templates call, and the variables `messages`, `add_generation_prompt`, `bos_token`,
//! `eos_token`, `tools` and `documents` (both none unless given). `{% generation %}` blocks render what they hold.
//!
//! There is no built-in template and no fallback. A model file without a template gives `None`, and what to do then is
//! the caller's decision, to be shown to the user; a template that does not parse or does not render is a [`ChatError`].
//!
//! # Limits
//!
//! Templates come with untrusted files. A render has a budget of work and memory and an output size, which grow with the
//! messages only, a depth of calls, and a stack for the deepest values that the budget can build; it reaches no files,
//! clocks (but for `strftime_now`) or other templates. The budget covers what the engine charges for: steps, text, lists
//! that are built. It does not cover lists joined by `+` over and over, nor the text and the comparison of lists that hold
//! one another many times over: a template written to exhaust the machine can still do it by these.
//!
//! # Differences from Jinja2
//!
//! `'%s' % values` is not supported, but `'%s' | format(value)` is. An unknown directive of `strftime_now` is an error.
//! Identifiers are ASCII. `{% do %}`, `{% include %}`, `{% import %}`, `{% extends %}` and `{% block %}` are syntax errors.
//! None can be iterated, as an empty list.
//!
//! # Text that is not the template's
//!
//! Text of a message can look like a control token. [`ChatTemplate::render_guarded`] marks all such places, so that the
//! tokenizer recognises control tokens in what the template wrote and nowhere else; see
//! [`Guard`](crate::tokenizer::Guard).

mod date;
mod engine;
mod error;
mod json;
mod message;
mod python;
mod template;

pub use date::DateTime;
pub use error::ChatError;
pub use message::{Message, RenderOptions};
pub use template::{ChatTemplate, TokenTexts};

#[cfg(test)]
mod tests;
