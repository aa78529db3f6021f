//! The vocabulary of a file: texts, types and the tokens that have a role.

use std::collections::HashMap;

use super::{TokenizerError, stop};
use crate::gguf::{Meta, Strings, Value};

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";

/// What a token is, by its type in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text.
    Normal,
    /// Stands for what no token stands for.
    Unknown,
    /// Steers the model; no text of a message becomes it.
    Control,
    /// Text that is never split.
    UserDefined,
    /// Never meant to be seen.
    Unused,
    /// One byte.
    Byte,
}

impl Kind {
    fn from_type(ty: i64) -> Option<Kind> {
        // 0 is "undefined", which files have for text.
        Some(match ty {
            0 | 1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => return None,
        })
    }

    /// Whether text can become the token without being asked to.
    pub(super) fn is_text(self) -> bool {
        !matches!(self, Kind::Control | Kind::Unknown)
    }
}

/// Which of the two kinds of vocabularies a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Byte-level byte pair encoding.
    Bytes,
    /// SentencePiece byte pair encoding.
    SentencePiece,
}

/// The vocabulary of a file. Every id that it gives is less than [`Vocab::len`].
#[derive(Debug)]
pub(super) struct Vocab {
    texts: Vec<Box<str>>,
    kinds: Vec<Kind>,
    ids: HashMap<Box<str>, u32>,
    /// What begins a text.
    pub(super) bos: Option<u32>,
    /// What ends it.
    pub(super) eos: Option<u32>,
    /// What stands for what has no token.
    pub(super) unknown: Option<u32>,
    /// What ends a turn, sorted.
    pub(super) stops: Vec<u32>,
}

impl Vocab {
    /// Reads the vocabulary.
    ///
    /// # Errors
    /// If a key is missing, or has another type, length or range than the others ask for; if a text is not UTF-8 or is there
    /// twice.
    pub(super) fn read(meta: Meta<'_>, family: Family) -> Result<Vocab, TokenizerError> {
        let strings = meta.strings(TOKENS)?;
        let kinds = read_kinds(meta, strings.len())?;
        let (texts, ids) = read_texts(meta, strings)?;
        let mut vocab = Vocab { texts, kinds, ids, bos: None, eos: None, unknown: None, stops: Vec::new() };
        let role = |name: &str, default: Option<u32>| {
            let key = format!("tokenizer.ggml.{name}_token_id");
            // The usual ids of a SentencePiece vocabulary, where its types bear them out.
            let usual = |&id: &u32| vocab.kind(id).is_some_and(|kind| !kind.is_text());
            let default = default.filter(|id| family == Family::SentencePiece && usual(id));
            match meta.u32_opt(&key)? {
                None => Ok(default),
                // Some files have -1, as an unsigned number, for a role that no token has.
                Some(u32::MAX) => Ok(None),
                Some(id) if vocab.kind(id).is_some() => Ok(Some(id)),
                Some(id) => Err(meta.wrong(
                    &key,
                    format!("a token of the vocabulary of {}", vocab.len()),
                    &Value::U32(id),
                )),
            }
        };
        let (bos, eos, unknown) = (role("bos", Some(1))?, role("eos", Some(2))?, role("unknown", Some(0))?);
        let turns = [eos, role("eot", None)?, role("eom", None)?];
        (vocab.bos, vocab.eos, vocab.unknown) = (bos, eos, unknown);
        let mut stops = stop::known(&vocab);
        stops.extend(turns.into_iter().flatten());
        stops.sort_unstable();
        stops.dedup();
        for id in stops.iter().copied().chain(bos) {
            vocab.kinds[id as usize] = Kind::Control;
        }
        vocab.stops = stops;
        Ok(vocab)
    }

    /// The number of tokens, which fits `u32`.
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The text of a token as it stands in the file.
    pub(super) fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize).map(|text| &**text)
    }

    /// What a token is.
    pub(super) fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(id as usize).copied()
    }

    /// The token whose text in the file is `text`.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// Ids, texts and types, without tokens that have no text.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str, Kind)> {
        let entries = self.texts.iter().zip(&self.kinds).enumerate();
        entries.map(|(id, (text, &kind))| (id as u32, &**text, kind)).filter(|(_, text, _)| !text.is_empty())
    }
}

fn read_kinds(meta: Meta<'_>, tokens: usize) -> Result<Vec<Kind>, TokenizerError> {
    let Some(value) = meta.value(TYPES)? else { return Ok(vec![Kind::Normal; tokens]) };
    if value.as_array().is_some_and(|array| array.len() != tokens) {
        return Err(meta.wrong(TYPES, format!("one for each of the {tokens} tokens"), &value).into());
    }
    let types: Vec<i64> = meta.list(TYPES)?;
    let kinds = types.iter().enumerate().map(|(i, &ty)| {
        Kind::from_type(ty)
            .ok_or_else(|| meta.wrong(TYPES, format!("0 to 6 as element {i}"), &Value::I64(ty)).into())
    });
    kinds.collect()
}

type Texts = (Vec<Box<str>>, HashMap<Box<str>, u32>);

fn read_texts(meta: Meta<'_>, strings: Strings<'_>) -> Result<Texts, TokenizerError> {
    if strings.is_empty() || u32::try_from(strings.len()).is_err() {
        let expected = format!("1 to {} strings", u32::MAX);
        return Err(meta.wrong(TOKENS, expected, &Value::U64(strings.len() as u64)).into());
    }
    let mut texts = Vec::with_capacity(strings.len());
    let mut ids = HashMap::with_capacity(strings.len());
    for (id, bytes) in (0u32..).zip(strings) {
        let text: Box<str> = match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => {
                return Err(meta.wrong(TOKENS, format!("UTF-8 as element {id}"), &Value::Str(bytes)).into());
            }
        };
        if !text.is_empty()
            && let Some(first) = ids.insert(text.clone(), id)
        {
            let expected = format!("another text as element {id} than that of element {first}");
            return Err(meta.wrong(TOKENS, expected, &Value::Str(bytes)).into());
        }
        texts.push(text);
    }
    Ok((texts, ids))
}
