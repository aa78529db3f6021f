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

/// Encodes texts by the merges of the file.
#[derive(Debug)]
pub(super) struct ByteLevel {
    model: BPE,
    splitter: Splitter,
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
        let model = BPE::builder()
            .vocab_and_merges(tokens, merges)
            .ignore_merges(pre.ignore_merges)
            .cache_capacity(CACHED_WORDS)
            .build()
            .map_err(|error| TokenizerError::library("building the vocabulary", error))?;
        Ok(ByteLevel { model, splitter: Splitter::new(pre)? })
    }

    /// Appends the tokens of `text`. Bytes that have no token are left out, as by the original tokenizers: some vocabularies
    /// lack control characters and the first bytes of planes without characters.
    ///
    /// # Errors
    /// [`TokenizerError::Library`] if the model or a pattern refuses.
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let text = self.splitter.normal_form(text)?;
        let mut word = String::new();
        for range in self.splitter.words(&text)? {
            word.clear();
            bytes::push_encoded(&mut word, &text.as_bytes()[range]);
            let tokens = self
                .model
                .tokenize(&word)
                .map_err(|error| TokenizerError::library("encoding a text", error))?;
            out.extend(tokens.iter().map(|token| token.id));
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
