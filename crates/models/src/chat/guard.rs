//! Marks that keep the text of messages from being read as control tokens.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::message::map_texts;
use super::{ChatError, Message, RenderOptions};

/// The noncharacters that marks are taken from. Unicode sets them aside for internal use: no text has a meaning for them.
fn noncharacters() -> impl Iterator<Item = char> {
    ('\u{fdd0}'..='\u{fdef}').chain((0..=16).flat_map(|plane| {
        [0xfffe, 0xffff].into_iter().filter_map(move |low| char::from_u32((plane << 16) | low))
    }))
}

/// Whether marks can be this character.
pub(super) fn is_noncharacter(c: char) -> bool {
    ('\u{fdd0}'..='\u{fdef}').contains(&c) || (c as u32 & 0xfffe) == 0xfffe
}

/// The marks of a render: what they are and how to take them out.
///
/// The mark is a noncharacter that occurs in no message, variable, control text or template. In every text of the messages
/// and variables it stands after the first character of each occurrence of a control text, and after the first character
/// of the beginning of one at the end of a text, with or without the white space that templates trim. A control text of a
/// single character is replaced by a noncharacter of its own.
///
/// So no control text is found in what came from messages, whatever is next to it; a tokenizer looks for control tokens
/// in the guarded text, and passes the segments in between, [stripped](Guard::strip), to its ordinary part.
///
/// # Limits
///
/// - A template that looks into message text for a control text does not find it: what it would have cut there stays.
/// - A template that deletes a part from the middle of message text can join the halves of a control text.
/// - Names that a template builds control tokens from, such as `<|` with the role and `|>`, are not message text: roles
///   must come from a known set.
/// - Control texts of white space only are marked too, but then trimming may stop at the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    mark: char,
    /// The control texts of one character and what stands for them.
    stand_ins: Vec<(char, char)>,
    controls: Controls,
}

/// The control texts, by what is needed to find them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Controls {
    texts: HashSet<String>,
    /// For a first character, the lengths in bytes of the texts that begin with it, ascending.
    lengths: HashMap<char, Vec<usize>>,
}

impl Controls {
    fn insert(&mut self, text: &str) {
        let Some(first) = text.chars().next() else { return };
        let lengths = self.lengths.entry(first).or_default();
        if let Err(at) = lengths.binary_search(&text.len()) {
            lengths.insert(at, text.len());
        }
        self.texts.insert(text.to_owned());
    }

    /// Whether a control text begins `text`, whose first character is `first`.
    fn begins(&self, first: char, text: &str) -> bool {
        let lengths = self.lengths.get(&first).map_or(&[][..], Vec::as_slice);
        lengths.iter().any(|&len| text.get(..len).is_some_and(|head| self.texts.contains(head)))
    }

    /// Whether `text`, whose first character is `first`, is the beginning of a longer control text.
    fn is_begun(&self, first: char, text: &str) -> bool {
        let longest = self.lengths.get(&first).and_then(|lengths| lengths.last());
        longest.is_some_and(|&len| text.len() < len)
            && self.texts.iter().any(|control| control.len() > text.len() && control.starts_with(text))
    }
}

impl Guard {
    /// The guard for these messages.
    pub(super) fn new<S: AsRef<str>>(
        messages: &[Message],
        options: &RenderOptions,
        source: &str,
        controls: &[S],
    ) -> Result<Guard, ChatError> {
        let mut taken = HashSet::new();
        let mut take = |text: &str| taken.extend(text.chars().filter(|&c| is_noncharacter(c)));
        take(source);
        messages.iter().for_each(|message| message.texts(&mut take));
        map_texts(&options.variables, &mut take);
        controls.iter().for_each(|control| take(control.as_ref()));
        let mut free = noncharacters().filter(|c| !taken.contains(c));
        let mut guard = Guard {
            mark: free.next().ok_or(ChatError::NoGuard)?,
            stand_ins: Vec::new(),
            controls: Controls::default(),
        };
        for control in controls {
            let mut chars = control.as_ref().chars();
            match (chars.next(), chars.next()) {
                (Some(only), None) if guard.stand_in(only).is_none() => {
                    guard.stand_ins.push((only, free.next().ok_or(ChatError::NoGuard)?));
                }
                (Some(_), Some(_)) => guard.controls.insert(control.as_ref()),
                _ => {}
            }
        }
        Ok(guard)
    }

    /// The character that marks message text.
    pub fn mark(&self) -> char {
        self.mark
    }

    /// `text`, a part of the guarded text, without marks.
    pub fn strip<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !text.contains(is_noncharacter) {
            return Cow::Borrowed(text);
        }
        let back =
            |c| self.stand_ins.iter().find(|(_, stand_in)| *stand_in == c).map_or(c, |(only, _)| *only);
        Cow::Owned(text.chars().filter(|&c| c != self.mark).map(back).collect())
    }

    /// A text of a message with its marks.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut marked = String::with_capacity(text.len());
        let ends = [text, text.trim_end()];
        for (at, c) in text.char_indices() {
            marked.push(self.stand_in(c).unwrap_or(c));
            if !self.controls.lengths.contains_key(&c) {
                continue;
            }
            let begun = ends.iter().any(|end| {
                end.get(at..).is_some_and(|end| !end.trim().is_empty() && self.controls.is_begun(c, end))
            });
            if begun || self.controls.begins(c, &text[at..]) {
                marked.push(self.mark);
            }
        }
        marked
    }

    /// The guarded text.
    pub(super) fn into_guarded(self, text: String) -> Guarded {
        Guarded { text, guard: self }
    }

    fn stand_in(&self, c: char) -> Option<char> {
        self.stand_ins.iter().find(|(only, _)| *only == c).map(|(_, stand_in)| *stand_in)
    }
}

/// Rendered messages with marks in the text that is not the template's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    text: String,
    guard: Guard,
}

impl Guarded {
    /// The text with marks: control texts in it are the template's own.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The marks, to strip the segments between control tokens with.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The text without marks.
    pub fn plain(&self) -> Cow<'_, str> {
        self.guard.strip(&self.text)
    }
}
