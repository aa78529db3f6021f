//! Tokenizers, from the metadata of GGUF files: a whole model or a vocabulary alone.
//!
//! Two kinds of vocabularies are read, by `tokenizer.ggml.model`:
//!
//! - `gpt2`: byte-level byte pair encoding. `tokenizer.ggml.pre` names the pre-tokenizer, which cuts a text into words. If the
//!   key is missing or the name is not known, the pre-tokenizer `default` is used and a warning is logged, or it is an error
//!   ([`TokenizerOptions::strict`]); [`TokenizerOptions::pre`] overrides the file.
//! - `llama`: SentencePiece byte pair encoding, by scores, with single bytes for characters that no piece has, and with a space
//!   before the text unless `tokenizer.ggml.add_space_prefix` is false.
//!
//! A text is first searched for tokens that match as a whole, leftmost first and the longest of those: user-defined ones always,
//! control tokens only with [`EncodeOptions::parse_special`]. What is between them is encoded as plain text, which never becomes
//! a control token. Tokens that the metadata names as BOS or as an end of turn, or that have the name of an end of turn, are
//! control tokens whatever type the file gives them.
//!
//! `tokenizer.ggml.add_eos_token` has no effect: a model goes on after the texts that are encoded here.
//!
//! Every function takes time that grows with the text as n log n at most.

mod byte_level;
mod bytes;
mod detokenizer;
mod error;
mod pre;
mod sentence_piece;
mod special;
mod stop;
mod vocab;

pub use detokenizer::Detokenizer;
pub use error::TokenizerError;
pub use special::Guard;
pub(crate) use special::is_noncharacter;

use std::borrow::Cow;

use self::byte_level::ByteLevel;
use self::pre::Pre;
use self::sentence_piece::SentencePiece;
use self::special::{Part, Special};
use self::vocab::{Family, Kind, Vocab};
use crate::gguf::{Meta, Value};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";

/// How a tokenizer is built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenizerOptions {
    /// Whether a pre-tokenizer that is missing or not known is an error, not a warning.
    pub strict: bool,
    /// The pre-tokenizer to use instead of the file's.
    pub pre: Option<String>,
}

/// How a text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Whether BOS is put first where the file asks for it ([`Tokenizer::adds_bos`]) and it is not there already.
    pub bos: bool,
    /// Whether the names of control tokens become these tokens.
    pub parse_special: bool,
    /// The character that keeps message text from becoming control tokens; see [`Guard`].
    pub guard: Option<Guard>,
}

impl Default for EncodeOptions {
    /// With BOS; control tokens are not parsed.
    fn default() -> EncodeOptions {
        EncodeOptions { bos: true, parse_special: false, guard: None }
    }
}

/// Converts texts to tokens and back.
#[derive(Debug)]
pub struct Tokenizer {
    vocab: Vocab,
    special: Special,
    model: Model,
    add_bos: bool,
    /// The bytes of all tokens, one after another.
    pieces: Vec<u8>,
    /// Where the bytes of each token end.
    ends: Vec<usize>,
}

#[derive(Debug)]
enum Model {
    ByteLevel(Box<ByteLevel>),
    SentencePiece(Box<SentencePiece>),
}

impl Tokenizer {
    /// Builds the tokenizer of a file from its metadata: `file.meta()` of a [`GgufFile`](crate::gguf::GgufFile) or a
    /// [`GgufSet`](crate::gguf::GgufSet).
    ///
    /// # Errors
    /// [`TokenizerError::Gguf`] if the vocabulary is missing, not sound, or of a kind that is not supported, and, with
    /// [`TokenizerOptions::strict`], if its pre-tokenizer is missing or not known; [`TokenizerError::UnknownPre`] if
    /// the one asked for is not known.
    pub fn from_gguf(meta: Meta<'_>, options: &TokenizerOptions) -> Result<Tokenizer, TokenizerError> {
        let name = meta.str(MODEL)?;
        let family = match name {
            "gpt2" => Family::Bytes,
            "llama" => Family::SentencePiece,
            _ => {
                let found = Value::Str(name.as_bytes());
                return Err(meta.wrong(MODEL, "gpt2 or llama".to_owned(), &found).into());
            }
        };
        let vocab = Vocab::read(meta, family)?;
        let (model, adds) = match family {
            Family::Bytes => {
                let pre = choose_pre(meta, options)?;
                (Model::ByteLevel(Box::new(ByteLevel::new(meta, &vocab, pre)?)), pre.add_bos)
            }
            Family::SentencePiece => {
                (Model::SentencePiece(Box::new(SentencePiece::new(meta, &vocab)?)), true)
            }
        };
        let stated = meta.bool_opt(ADD_BOS)?;
        if stated == Some(true) && vocab.bos.is_none() {
            return Err(meta.missing("tokenizer.ggml.bos_token_id").into());
        }
        let (pieces, ends) = pieces(&vocab, family);
        let add_bos = stated.unwrap_or(adds) && vocab.bos.is_some();
        Ok(Tokenizer { special: Special::new(&vocab)?, vocab, model, add_bos, pieces, ends })
    }

    /// The number of tokens.
    pub fn vocabulary(&self) -> usize {
        self.vocab.len()
    }

    /// The token that begins a text, if there is one.
    pub fn bos(&self) -> Option<u32> {
        self.vocab.bos
    }

    /// The token that ends a text, if there is one.
    pub fn eos(&self) -> Option<u32> {
        self.vocab.eos
    }

    /// Whether texts begin with BOS: as `tokenizer.ggml.add_bos_token` says or, without that key, as the pre-tokenizer's models
    /// do.
    pub fn adds_bos(&self) -> bool {
        self.add_bos
    }

    /// The tokens at which a model has said what it had to say, ascending: EOS, the end of turn and end of message that the
    /// metadata name, and tokens that have the name of an end of turn.
    pub fn stop_tokens(&self) -> &[u32] {
        &self.vocab.stops
    }

    /// The token whose text in the file is `text`, such as `<|im_start|>`.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.vocab.id(text)
    }

    /// Whether a token is a control token, which steers the model and is no part of its answer.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocab.kind(id).is_some_and(|kind| !kind.is_text())
    }

    /// The tokens of `text`.
    ///
    /// # Errors
    /// [`TokenizerError::Unencodable`] if a SentencePiece vocabulary that has neither single bytes nor an unknown token has no
    /// token for a character. Byte-level vocabularies leave out bytes that have no token.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        // The space before the text goes to the first part that is text.
        let mut begins = true;
        for part in self.special.split(text, options.parse_special, options.guard) {
            match part {
                Part::Token(id) => {
                    ids.push(id);
                    begins = true;
                }
                Part::Text(range) => {
                    let text =
                        options.guard.map_or(text[range.clone()].into(), |guard| guard.strip(&text[range]));
                    match &self.model {
                        Model::ByteLevel(model) => model.encode(&text, &mut ids)?,
                        Model::SentencePiece(model) if !text.is_empty() => {
                            model.encode(&text, begins, &mut ids)?;
                        }
                        Model::SentencePiece(_) => continue,
                    }
                    begins = false;
                }
            }
        }
        if options.bos
            && self.add_bos
            && let Some(bos) = self.vocab.bos
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// `text`, which does not contain `guard`, with `guard` where it has the text of a control token; see [`Guard`].
    pub fn guarded<'t>(&self, text: &'t str, guard: Guard) -> Cow<'t, str> {
        self.special.guarded(text, guard)
    }

    /// The text of a whole sequence of tokens, control tokens with their names. Bytes that are no UTF-8 become U+FFFD. A space that
    /// [`Tokenizer::encode`] put before the text is left out.
    ///
    /// # Errors
    /// [`TokenizerError::Token`] if a token is outside of the vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        let mut detokenizer = Detokenizer::new(self);
        let mut text = String::new();
        for &id in ids {
            text.push_str(&detokenizer.push(id)?);
        }
        Ok(text + &detokenizer.finish())
    }

    /// The bytes that a token stands for, which need not be UTF-8; of a control token, its name.
    ///
    /// # Errors
    /// [`TokenizerError::Token`] if the token is outside of the vocabulary.
    pub fn piece(&self, id: u32) -> Result<&[u8], TokenizerError> {
        let end = self.ends.get(id as usize);
        let end = *end.ok_or(TokenizerError::Token { id, vocabulary: self.vocabulary() })?;
        let begin = (id as usize).checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        Ok(&self.pieces[begin.unwrap_or(0)..end])
    }

    fn adds_space_prefix(&self) -> bool {
        matches!(&self.model, Model::SentencePiece(model) if model.add_prefix())
    }
}

/// The pre-tokenizer that the options or the file name, or the one that stands in for it.
fn choose_pre(meta: Meta<'_>, options: &TokenizerOptions) -> Result<&'static Pre, TokenizerError> {
    let unknown = |name: &str| TokenizerError::UnknownPre { name: name.to_owned(), known: pre::names() };
    if let Some(name) = &options.pre {
        return pre::find(name).ok_or_else(|| unknown(name));
    }
    let name = meta.str_opt(PRE)?;
    if let Some(pre) = name.and_then(pre::find) {
        return Ok(pre);
    }
    let error = match name {
        None => meta.missing(PRE),
        Some(name) => {
            let expected = format!("one of {}", pre::names());
            meta.wrong(PRE, expected, &Value::Str(name.as_bytes()))
        }
    };
    if options.strict {
        return Err(error.into());
    }
    tracing::warn!(
        "{error}; texts are split as by {}, and may not be what the model was trained on",
        pre::FALLBACK
    );
    pre::find(pre::FALLBACK).ok_or_else(|| unknown(pre::FALLBACK))
}

/// The bytes of every token, and where those of each end.
fn pieces(vocab: &Vocab, family: Family) -> (Vec<u8>, Vec<usize>) {
    let mut pieces = Vec::new();
    let mut ends = Vec::with_capacity(vocab.len());
    for id in 0..vocab.len() as u32 {
        if let (Some(text), Some(kind)) = (vocab.text(id), vocab.kind(id)) {
            push_piece(&mut pieces, text, kind, family);
        }
        ends.push(pieces.len());
    }
    (pieces, ends)
}

fn push_piece(out: &mut Vec<u8>, text: &str, kind: Kind, family: Family) {
    let bytes: Cow<'_, [u8]> = match (family, kind) {
        (_, Kind::Control | Kind::Unknown) | (Family::Bytes, Kind::UserDefined) => text.as_bytes().into(),
        (Family::Bytes, _) => bytes::decoded(text).map_or_else(|| text.as_bytes().into(), Cow::from),
        (Family::SentencePiece, Kind::Byte) => match byte_of_name(text) {
            Some(byte) => vec![byte].into(),
            None => text.as_bytes().into(),
        },
        (Family::SentencePiece, _) => text.replace(sentence_piece::SPACE, " ").into_bytes().into(),
    };
    out.extend_from_slice(&bytes);
}

/// The byte that a token of the name `<0x0A>` stands for.
fn byte_of_name(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 2)
}
