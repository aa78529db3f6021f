//! Finding tokens that are matched as a whole, and marks that keep message text from matching.

use std::borrow::Cow;
use std::ops::Range;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::TokenizerError;
use super::vocab::{Kind, Vocab};

/// A character that marks the character before it as plain text, which is then part of no control token.
///
/// A chat template puts messages and control tokens into one string. To tell them apart, choose a guard that no message
/// contains ([`Guard::absent_from`]), pass every message through [`Tokenizer::guarded`](super::Tokenizer::guarded), render
/// the template, and encode the result with `parse_special` and the guard: what the template wrote matches control tokens, what
/// the messages wrote does not, and the guards are gone from the text before it is encoded. A guarded message differs from
/// the message only where it has the text of a control token or ends with the beginning of one, so that templates that
/// trim, search and compare messages see what they expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard(char);

impl Guard {
    /// The first of the 66 noncharacters of Unicode that no text of `texts` contains, if there is one.
    pub fn absent_from<'t>(texts: impl IntoIterator<Item = &'t str>) -> Option<Guard> {
        let mut free: Vec<char> = noncharacters().collect();
        for text in texts {
            // Every noncharacter begins with one of these bytes.
            if text.bytes().any(|byte| byte == 0xEF || byte >= 0xF0) {
                free.retain(|&c| !text.contains(c));
            }
        }
        free.first().copied().map(Guard)
    }

    /// The character.
    pub fn char(self) -> char {
        self.0
    }
}

/// The noncharacters of Unicode: U+FDD0 to U+FDEF, and the last two of every plane.
fn noncharacters() -> impl Iterator<Item = char> {
    let planes = (0..=0x10u32).flat_map(|plane| [plane << 16 | 0xFFFE, plane << 16 | 0xFFFF]);
    (0xFDD0..=0xFDEF).chain(planes).filter_map(char::from_u32)
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Text between tokens, never empty.
    Text(Range<usize>),
    /// A token that is matched as a whole.
    Token(u32),
}

/// Some tokens of a vocabulary, as an automaton.
#[derive(Debug)]
struct Matcher {
    automaton: AhoCorasick,
    ids: Vec<u32>,
}

impl Matcher {
    fn new<'v>(tokens: impl Iterator<Item = (u32, &'v str)>) -> Result<Option<Matcher>, TokenizerError> {
        let (ids, texts): (Vec<u32>, Vec<&str>) = tokens.unzip();
        if ids.is_empty() {
            return Ok(None);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts)
            .map_err(|error| TokenizerError::library("building the matcher of special tokens", error))?;
        Ok(Some(Matcher { automaton, ids }))
    }

    /// The leftmost longest token of `text` from `from` on, and where it is.
    fn find(&self, text: &str, from: usize) -> Option<(Range<usize>, u32)> {
        let found = self.automaton.find(Input::new(text).span(from..text.len()))?;
        Some((found.range(), *self.ids.get(found.pattern().as_usize())?))
    }
}

/// The tokens of a vocabulary that are matched as a whole.
#[derive(Debug)]
pub(super) struct Special {
    /// User-defined tokens.
    defined: Option<Matcher>,
    /// User-defined, control and unknown tokens.
    all: Option<Matcher>,
    /// Texts of control and unknown tokens, sorted.
    control: Vec<Box<str>>,
}

impl Special {
    /// The special tokens of `vocab`.
    ///
    /// # Errors
    /// [`TokenizerError::Library`] if there are too many for an automaton.
    pub(super) fn new(vocab: &Vocab) -> Result<Special, TokenizerError> {
        let of = |wanted: fn(Kind) -> bool| {
            vocab.iter().filter(move |&(.., kind)| wanted(kind)).map(|(id, text, _)| (id, text))
        };
        let mut control: Vec<Box<str>> = of(|kind| !kind.is_text()).map(|(_, text)| text.into()).collect();
        control.sort_unstable();
        Ok(Special {
            defined: Matcher::new(of(|kind| kind == Kind::UserDefined))?,
            all: Matcher::new(of(|kind| kind == Kind::UserDefined || !kind.is_text()))?,
            control,
        })
    }

    /// Cuts `text` into tokens that match as a whole and the text between them, leftmost first and longest of those.
    ///
    /// A match that ends right before the guard is none: the guard says that its last character is plain text.
    pub(super) fn split(&self, text: &str, control: bool, guard: Option<Guard>) -> Vec<Part> {
        let mut parts = Vec::new();
        let matcher = if control { &self.all } else { &self.defined };
        let (mut done, mut from) = (0, 0);
        while let Some((range, id)) = matcher.as_ref().and_then(|m| m.find(text, from)) {
            if guard.is_some_and(|guard| text[range.end..].starts_with(guard.0)) {
                from = range.start + text[range.start..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            if done < range.start {
                parts.push(Part::Text(done..range.start));
            }
            parts.push(Part::Token(id));
            (done, from) = (range.end, range.end);
        }
        if done < text.len() {
            parts.push(Part::Text(done..text.len()));
        }
        parts
    }

    /// `text` with the guard behind the first character of every place where a control token begins or, at the end of the
    /// text, may begin.
    pub(super) fn guarded<'t>(&self, text: &'t str, guard: Guard) -> Cow<'t, str> {
        let places = self.places(text);
        if places.is_empty() {
            return text.into();
        }
        let mut out = String::with_capacity(text.len() + places.len() * guard.0.len_utf8());
        let mut done = 0;
        for place in places {
            out.push_str(&text[done..place]);
            out.push(guard.0);
            done = place;
        }
        out.push_str(&text[done..]);
        out.into()
    }

    /// Where [`Special::guarded`] inserts, ascending.
    fn places(&self, text: &str) -> Vec<usize> {
        let Some(all) = &self.all else { return Vec::new() };
        let longest = self.control.iter().map(|text| text.len()).max().unwrap_or(0);
        let behind = |at: usize| at + text[at..].chars().next().map_or(0, char::len_utf8);
        let mut places = Vec::new();
        let mut from = 0;
        while let Some((range, _)) = all.find(text, from) {
            from = behind(range.start);
            if self.is_control(&text[range]) {
                places.push(from);
            }
        }
        let tail = text.len().saturating_sub(longest);
        for (at, _) in text.char_indices().rev().take_while(|&(at, _)| at >= tail) {
            if self.begins_control(&text[at..]) {
                places.push(behind(at));
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    fn is_control(&self, text: &str) -> bool {
        self.control.binary_search_by(|control| (**control).cmp(text)).is_ok()
    }

    /// Whether `text` is a proper beginning of the text of a control token.
    fn begins_control(&self, text: &str) -> bool {
        let at = self.control.partition_point(|control| **control <= *text);
        self.control.get(at).is_some_and(|control| control.starts_with(text))
    }
}

#[cfg(test)]
mod tests;
