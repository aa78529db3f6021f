//! Finding tokens that are matched as a whole, and marks that keep message text from matching.

use std::borrow::Cow;
use std::ops::Range;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::TokenizerError;
use super::vocab::{Kind, Vocab};

/// A character that marks the character before it as plain text, which is then part of no token that is matched as a whole.
///
/// A chat template puts messages and control tokens into one string. To tell them apart, choose a guard that no message
/// contains ([`Guard::absent_from`]), pass every message through [`Tokenizer::guarded`](super::Tokenizer::guarded), render
/// the template, and encode the result with `parse_special` and the guard: what the template wrote matches control tokens, what
/// the messages wrote does not, and the guards are gone from the text before it is encoded.
/// [`ChatTemplate::render_guarded`](crate::chat::ChatTemplate::render_guarded) does all of that but the last.
///
/// A guarded message differs from the message only where it has the text of a control token or ends, but for white space,
/// with the beginning of one, so that templates that trim, search and compare messages see what they expect.
///
/// # Limits
///
/// - A template that looks into a message for the text of a control token does not find it: what it would have cut there
///   stays.
/// - A template that deletes a part from the middle of a message, takes it apart and joins it again, or changes its letters
///   can make the text of a control token from it.
/// - Names that a template builds control tokens from, such as `<|` with the role and `|>`, are not guarded by this: roles
///   must come from a known set.
/// - White space at the end of a message that is, or begins, the text of a control token is marked too, and is then not
///   trimmed.
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

    /// `text` without the guard.
    pub fn strip(self, text: &str) -> Cow<'_, str> {
        if text.contains(self.0) { text.replace(self.0, "").into() } else { text.into() }
    }

    /// The parts of `text` that hold neither the guard nor a character that it marks.
    fn unmarked(self, text: &str) -> impl Iterator<Item = Range<usize>> {
        let guards = text.match_indices(self.0).map(|(at, guard)| (at, at + guard.len()));
        let ends = guards.chain([(text.len(), text.len())]);
        ends.scan(0, move |begin, (at, next)| {
            let marked = if at < next { text[..at].chars().next_back() } else { None };
            let end = at - marked.map_or(0, char::len_utf8);
            let part = *begin..end.max(*begin);
            *begin = next;
            Some(part)
        })
    }
}

/// Whether guards can be this character: one of U+FDD0 to U+FDEF, or of the last two of a plane.
pub(crate) fn is_noncharacter(c: char) -> bool {
    ('\u{fdd0}'..='\u{fdef}').contains(&c) || (u32::from(c) & 0xFFFE) == 0xFFFE
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

    /// The leftmost longest token of a part of `text`, and where it is.
    fn find(&self, text: &str, part: Range<usize>) -> Option<(Range<usize>, u32)> {
        let found = self.automaton.find(Input::new(text).span(part))?;
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
    /// Control and unknown tokens.
    control: Option<Matcher>,
    /// The texts of these, sorted.
    control_texts: Vec<Box<str>>,
    /// The length of the longest of these in bytes.
    longest_control: usize,
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
        let mut control_texts: Vec<Box<str>> =
            of(|kind| !kind.is_text()).map(|(_, text)| text.into()).collect();
        control_texts.sort_unstable();
        Ok(Special {
            defined: Matcher::new(of(|kind| kind == Kind::UserDefined))?,
            all: Matcher::new(of(|kind| kind == Kind::UserDefined || !kind.is_text()))?,
            control: Matcher::new(of(|kind| !kind.is_text()))?,
            longest_control: control_texts.iter().map(|text| text.len()).max().unwrap_or(0),
            control_texts,
        })
    }

    /// Cuts `text` into tokens that match as a whole and the text between them, leftmost first and longest of those.
    ///
    /// No token has the guard or the character before it.
    pub(super) fn split(&self, text: &str, control: bool, guard: Option<Guard>) -> Vec<Part> {
        let mut parts = Vec::new();
        let matcher = if control { &self.all } else { &self.defined };
        let mut done = 0;
        let mut search = |mut part: Range<usize>| {
            while let Some((range, id)) = matcher.as_ref().and_then(|m| m.find(text, part.clone())) {
                if done < range.start {
                    parts.push(Part::Text(done..range.start));
                }
                parts.push(Part::Token(id));
                (done, part.start) = (range.end, range.end);
            }
        };
        match guard {
            Some(guard) => guard.unmarked(text).for_each(search),
            None => search(0..text.len()),
        }
        if done < text.len() {
            parts.push(Part::Text(done..text.len()));
        }
        parts
    }

    /// `text` with the guard behind the first character of every place where a control token begins or, at the end of the
    /// text with or without the white space there, may begin.
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
        let Some(control) = &self.control else { return Vec::new() };
        let behind = |at: usize| at + text[at..].chars().next().map_or(0, char::len_utf8);
        let mut places = Vec::new();
        let mut from = 0;
        while let Some((range, _)) = control.find(text, from..text.len()) {
            from = behind(range.start);
            places.push(from);
        }
        // What begins a token with some of the white space also begins it without.
        let trimmed = text.trim_end().len();
        let tail = trimmed.saturating_sub(self.longest_control);
        for (at, _) in text.char_indices().rev().take_while(|&(at, _)| at >= tail) {
            let next = behind(at);
            if self.begins_control(&text[at..next.max(trimmed)]) {
                places.push(next);
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Whether `text` is a proper beginning of the text of a control token.
    fn begins_control(&self, text: &str) -> bool {
        let at = self.control_texts.partition_point(|control| **control <= *text);
        self.control_texts.get(at).is_some_and(|control| control.starts_with(text))
    }
}

#[cfg(test)]
mod tests;
