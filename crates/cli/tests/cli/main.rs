//! The `cera` program end to end: arguments in, exit code and streams out.
#![allow(clippy::unwrap_used)]

mod architecture;
mod bench;
mod chat;
mod files;
mod formats;
mod inspect;
mod logits;
mod perplexity;
mod program;
mod run;
mod tiers;
mod tokenize;
mod usage;
