//! SentencePiece byte pair encoding: `tokenizer.ggml.model` = `llama`.

use std::borrow::Cow;
use std::cmp::Reverse;

use tokenizers::Model as _;
use tokenizers::models::bpe::{self, BPE};

use super::TokenizerError;
use super::vocab::{Kind, Vocab};
use crate::gguf::{Meta, Value};

const SCORES: &str = "tokenizer.ggml.scores";
const ADD_PREFIX: &str = "tokenizer.ggml.add_space_prefix";

/// The character that pieces have for a space.
pub(super) const SPACE: char = '\u{2581}';

/// Longer pieces, in bytes, are not made by merging: the ways to cut a piece grow with its length.
const MAX_MERGED: usize = 1024;

/// Encodes texts by the scores of the file.
#[derive(Debug)]
pub(super) struct SentencePiece {
    model: BPE,
    add_prefix: bool,
    /// Whether every character has tokens, be they those of its bytes or the unknown one.
    total: bool,
}

impl SentencePiece {
    /// Builds the model. Two neighbours merge if their texts make a piece, that of the best score first, the leftmost of
    /// those. As merges with ranks: pieces by falling score, then falling length, so that runs of one character whose pieces
    /// have one score grow from the left.
    ///
    /// # Errors
    /// If there are no scores, or they are not as many as tokens, or not all are numbers.
    pub(super) fn new(meta: Meta<'_>, vocab: &Vocab) -> Result<SentencePiece, TokenizerError> {
        let scores = read_scores(meta, vocab.len())?;
        let mut tokens: bpe::Vocab = vocab
            .iter()
            .filter(|(.., kind)| kind.is_text())
            .map(|(id, text, _)| (text.to_owned(), id))
            .collect();
        let merges = merges(vocab, &scores, &tokens);
        let bytes = (0..=u8::MAX).all(|byte| tokens.contains_key(&format!("<{byte:#04X}>")));
        let mut builder = BPE::builder().byte_fallback(bytes).fuse_unk(true).cache_capacity(0);
        let unknown = vocab.unknown.and_then(|id| Some((id, vocab.text(id)?)));
        if let Some((id, text)) = unknown.filter(|(_, text)| !text.is_empty()) {
            tokens.insert(text.to_owned(), id);
            builder = builder.unk_token(text.to_owned());
        }
        let model = builder
            .vocab_and_merges(tokens, merges)
            .build()
            .map_err(|error| TokenizerError::library("building the vocabulary", error))?;
        let add_prefix = meta.bool_or(ADD_PREFIX, true)?;
        Ok(SentencePiece { total: bytes || model.unk_token.is_some(), model, add_prefix })
    }

    /// Whether a space is put before a text, and before the text behind a token that was matched as a whole.
    pub(super) fn add_prefix(&self) -> bool {
        self.add_prefix
    }

    /// Appends the tokens of `text`, which begins the whole or follows a special token if `prefixed`.
    ///
    /// # Errors
    /// [`TokenizerError::Unencodable`] for a character without token, where bytes have none.
    pub(super) fn encode(
        &self,
        text: &str,
        prefixed: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut escaped: Cow<'_, str> = text.into();
        if text.contains(' ') {
            escaped = text.replace(' ', SPACE.encode_utf8(&mut [0; 4])).into();
        }
        if prefixed && self.add_prefix {
            escaped.to_mut().insert(0, SPACE);
        }
        if !self.total {
            let known = |c: char| self.model.token_to_id(c.encode_utf8(&mut [0; 4])).is_some();
            if let Some(character) = escaped.chars().find(|&c| !known(c)) {
                return Err(TokenizerError::Unencodable { character });
            }
        }
        let tokens = self
            .model
            .tokenize(&escaped)
            .map_err(|error| TokenizerError::library("encoding a text", error))?;
        out.extend(tokens.iter().map(|token| token.id));
        Ok(())
    }
}

fn read_scores(meta: Meta<'_>, tokens: usize) -> Result<Vec<f32>, TokenizerError> {
    let scores: Vec<f32> = meta.list(SCORES)?;
    if scores.len() != tokens {
        let expected = format!("one for each of the {tokens} tokens");
        return Err(meta.wrong(SCORES, expected, &Value::U64(scores.len() as u64)).into());
    }
    match scores.iter().position(|score| score.is_nan()) {
        Some(i) => Err(meta.wrong(SCORES, format!("a number as element {i}"), &Value::F32(f32::NAN)).into()),
        None => Ok(scores),
    }
}

/// Every way to make a piece of two others, best first.
fn merges(vocab: &Vocab, scores: &[f32], tokens: &bpe::Vocab) -> bpe::Merges {
    let is_piece = |text: &str| {
        let id = tokens.get(text);
        id.is_some_and(|&id| vocab.kind(id) != Some(Kind::Byte))
    };
    let mut pieces: Vec<(f32, &str)> = vocab
        .iter()
        .filter(|&(_, text, kind)| kind.is_text() && kind != Kind::Byte && text.len() <= MAX_MERGED)
        .filter_map(|(id, text, _)| Some((*scores.get(id as usize)?, text)))
        .collect();
    // Minus zero is the score zero.
    pieces.sort_by(|a, b| (b.0 + 0.0).total_cmp(&(a.0 + 0.0)).then_with(|| b.1.len().cmp(&a.1.len())));
    let mut merges = Vec::new();
    for (_, text) in pieces {
        let mut cuts: Vec<usize> = text.char_indices().skip(1).map(|(at, _)| at).collect();
        cuts.sort_by_key(|&at| Reverse(at));
        for at in cuts {
            let (left, right) = text.split_at(at);
            if is_piece(left) && is_piece(right) {
                merges.push((left.to_owned(), right.to_owned()));
            }
        }
    }
    merges
}
