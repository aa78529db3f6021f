//! A conversation: `cargo run --release -p cera-models --example chat -- MODEL.gguf`, then one message a line.
#![allow(clippy::print_stdout, reason = "an example talks on standard output")]

use std::io::{BufRead, Write};
use std::sync::Arc;

use cera_core::Runtime;
use cera_models::session::{Conversation, GenerateOptions, SessionOptions};
use cera_models::{Model, ModelOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which model?")?;
    let model = Model::load(path, Runtime::from_env()?, ModelOptions::default())?;
    let mut chat = Conversation::new(Arc::new(model), SessionOptions::default())?;
    for line in std::io::stdin().lock().lines() {
        chat.say(line?);
        for piece in chat.reply(GenerateOptions::default())? {
            print!("{}", piece?.text);
            std::io::stdout().flush()?;
        }
        println!();
    }
    Ok(())
}
