//! What a line of a chat asks for.

use std::path::PathBuf;

/// The commands, as `/help` shows them.
pub(super) const HELP: &str = "\
/system [TEXT]  tell the model what it is to be; without a text, nothing
/regen          answer the last message again, in other words
/undo           take the last message and its answer back
/save FILE      write the messages to a file
/load FILE      take the messages of a file
/stats          what was computed and reused, and how fast
/quit           end; so does the end of input
Ctrl-C stops an answer. A line that ends with \\ goes on.";

/// A line, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing.
    Empty,
    /// A message.
    Say(String),
    /// `/system`.
    System(Option<String>),
    /// `/regen`.
    Regen,
    /// `/undo`.
    Undo,
    /// `/save`.
    Save(PathBuf),
    /// `/load`.
    Load(PathBuf),
    /// `/stats`.
    Stats,
    /// `/help`.
    Help,
    /// `/quit`.
    Quit,
    /// A command that is none, or lacks its argument; says so.
    Wrong(String),
}

impl Line {
    /// Reads a line.
    pub(super) fn parse(line: &str) -> Line {
        let line = line.trim();
        if line.is_empty() {
            return Line::Empty;
        }
        let Some(command) = line.strip_prefix('/') else { return Line::Say(line.to_owned()) };
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let argument = argument.trim();
        let path = || PathBuf::from(argument);
        match (name, argument.is_empty()) {
            ("system", empty) => Line::System((!empty).then(|| argument.to_owned())),
            ("save" | "load", true) => Line::Wrong(format!("/{name} needs the name of a file")),
            ("save", false) => Line::Save(path()),
            ("load", false) => Line::Load(path()),
            ("regen", true) => Line::Regen,
            ("undo", true) => Line::Undo,
            ("stats", true) => Line::Stats,
            ("help", true) => Line::Help,
            ("quit" | "exit", true) => Line::Quit,
            ("regen" | "undo" | "stats" | "help" | "quit" | "exit", false) => {
                Line::Wrong(format!("/{name} takes no argument"))
            }
            _ => Line::Wrong(format!("/{name} is no command; /help lists them")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        let say = |text: &str| Line::Say(text.to_owned());
        for (line, expected) in [
            ("", Line::Empty),
            (" \t", Line::Empty),
            (" what is 1/2? ", say("what is 1/2?")),
            ("/system", Line::System(None)),
            ("/system  be brief ", Line::System(Some("be brief".to_owned()))),
            ("/regen", Line::Regen),
            ("/undo ", Line::Undo),
            ("/save a b.json", Line::Save("a b.json".into())),
            ("/load\tx", Line::Load("x".into())),
            ("/stats", Line::Stats),
            ("/help", Line::Help),
            ("/quit", Line::Quit),
            ("/exit", Line::Quit),
            ("/save", Line::Wrong("/save needs the name of a file".to_owned())),
            ("/undo 2", Line::Wrong("/undo takes no argument".to_owned())),
            ("/usr", Line::Wrong("/usr is no command; /help lists them".to_owned())),
        ] {
            assert_eq!(Line::parse(line), expected, "{line:?}");
        }
    }
}
