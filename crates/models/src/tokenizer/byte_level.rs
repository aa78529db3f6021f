//! Byte-level byte pair encoding: `tokenizer.ggml.model` = `gpt2`.

use tokenizers::Model as _;
use tokenizers::models::bpe::{self, BPE};

use super::pre::{Pre, Splitter};
use super::vocab::Vocab;
use super::{TokenizerError, bytes};
use crate::gguf::{Meta, Value};

const MERGES: &str = "tokenizer.ggml.merges";

/// Words whose tokens are remembered, per thread.
const CACHED_WORDS: usize = 10_000;

/// The bytes from which on a word is cut where no merge can join the parts.
const CHUNK: usize = 128;

/// Encodes texts by the merges of the file.
#[derive(Debug)]
pub(super) struct ByteLevel {
    model: BPE,
    splitter: Splitter,
    ignore_merges: bool,
    joins: Joins,
}

/// Pairs of bytes that some merge joins: the last of its first token and the first of its second. Between two bytes that are
/// no such pair, a word can be cut, and its parts encoded one by one, without a change of its tokens.
#[derive(Debug)]
struct Joins(Vec<bool>);

impl Joins {
    fn new(merges: &bpe::Merges) -> Joins {
        let mut joins = Joins(vec![false; 1 << 16]);
        for (left, right) in merges {
            let ends = left.chars().next_back().and_then(bytes::byte_of);
            let begins = right.chars().next().and_then(bytes::byte_of);
            if let (Some(last), Some(first)) = (ends, begins) {
                joins.0[Joins::index(last, first)] = true;
            }
        }
        joins
    }

    fn index(last: u8, first: u8) -> usize {
        usize::from(last) << 8 | usize::from(first)
    }

    /// The parts of `word`, all but the last of at least [`CHUNK`] bytes.
    fn parts<'w>(&self, mut word: &'w [u8]) -> impl Iterator<Item = &'w [u8]> {
        std::iter::from_fn(move || {
            let apart = |&at: &usize| !self.0[Joins::index(word[at - 1], word[at])];
            let cut = (CHUNK..word.len()).find(apart).unwrap_or(word.len());
            let (part, rest) = word.split_at(cut);
            word = rest;
            (!part.is_empty()).then_some(part)
        })
    }
}

impl ByteLevel {
    /// Builds the model.
    ///
    /// # Errors
    /// If there are no merges, or one is not two tokens, separated by a space, that make a third.
    pub(super) fn new(meta: Meta<'_>, vocab: &Vocab, pre: &Pre) -> Result<ByteLevel, TokenizerError> {
        let mut merges = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for (i, bytes) in meta.strings(MERGES)?.iter().enumerate() {
            let wrong = |what: &str| meta.wrong(MERGES, format!("{what} as element {i}"), &Value::Str(bytes));
            let text = std::str::from_utf8(bytes).map_err(|_| wrong("UTF-8"))?;
            let pair = split_merge(text).ok_or_else(|| wrong("two tokens with a space between them"))?;
            let whole = [pair.0, pair.1].concat();
            let ids = [pair.0, pair.1, &whole].map(|token| vocab.id(token));
            let [Some(left), Some(right), Some(whole)] = ids else {
                return Err(wrong("two tokens of the vocabulary that make a third").into());
            };
            let is_text = |id| vocab.kind(id).is_some_and(super::vocab::Kind::is_text);
            // Text does not become a control token by merging either. Of a pair that is there twice, the first counts.
            if [left, right, whole].into_iter().all(is_text) && seen.insert((left, right)) {
                merges.push((pair.0.to_owned(), pair.1.to_owned()));
            }
        }
        let tokens: bpe::Vocab = vocab
            .iter()
            .filter(|(.., kind)| kind.is_text())
            .map(|(id, text, _)| (text.to_owned(), id))
            .collect();
        let joins = Joins::new(&merges);
        let model = BPE::builder()
            .vocab_and_merges(tokens, merges)
            .cache_capacity(CACHED_WORDS)
            .build()
            .map_err(|error| TokenizerError::library("building the vocabulary", error))?;
        Ok(ByteLevel { model, splitter: Splitter::new(pre)?, ignore_merges: pre.ignore_merges, joins })
    }

    /// Appends the tokens of `text`. Bytes that have no token are left out, as by the original tokenizers: some vocabularies
    /// lack control characters and the first bytes of planes without characters.
    ///
    /// # Errors
    /// [`TokenizerError::Library`] if the model or a pattern refuses.
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let text = self.splitter.normal_form(text)?;
        let mut encoded = String::new();
        for range in self.splitter.words(&text)? {
            let word = &text.as_bytes()[range];
            if self.ignore_merges {
                encoded.clear();
                bytes::push_encoded(&mut encoded, word);
                if let Some(id) = self.model.token_to_id(&encoded) {
                    out.push(id);
                    continue;
                }
            }
            for part in self.joins.parts(word) {
                encoded.clear();
                bytes::push_encoded(&mut encoded, part);
                let tokens = self
                    .model
                    .tokenize(&encoded)
                    .map_err(|error| TokenizerError::library("encoding a text", error))?;
                out.extend(tokens.iter().map(|token| token.id));
            }
        }
        Ok(())
    }
}

/// The two tokens of a merge. The first may begin with the space that would otherwise end it.
fn split_merge(text: &str) -> Option<(&str, &str)> {
    let first = text.chars().next()?.len_utf8();
    let space = first + text[first..].find(' ')?;
    let (left, right) = (&text[..space], &text[space + 1..]);
    (!right.is_empty()).then_some((left, right))
}
