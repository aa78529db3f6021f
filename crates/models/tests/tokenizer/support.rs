//! Vocabularies for the tests.

use cera_models::gguf::GgufFile;
use cera_models::tokenizer::{EncodeOptions, Tokenizer, TokenizerError, TokenizerOptions};
use cera_testkit::fixtures;
use cera_testkit::gguf::GgufWriter;

/// Types of tokens in files.
pub(crate) mod kind {
    pub(crate) const NORMAL: i32 = 1;
    pub(crate) const UNKNOWN: i32 = 2;
    pub(crate) const CONTROL: i32 = 3;
    pub(crate) const DEFINED: i32 = 4;
    pub(crate) const BYTE: i32 = 6;
}

/// Neither BOS nor control tokens.
pub(crate) const PLAIN: EncodeOptions = EncodeOptions { bos: false, parse_special: false, guard: None };

/// Control tokens, but no BOS.
pub(crate) const SPECIAL: EncodeOptions = EncodeOptions { bos: false, parse_special: true, guard: None };

pub(crate) fn build(bytes: Vec<u8>) -> Result<Tokenizer, TokenizerError> {
    build_with(bytes, &TokenizerOptions::default())
}

pub(crate) fn build_with(bytes: Vec<u8>, options: &TokenizerOptions) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_gguf(GgufFile::parse("toy.gguf", bytes).unwrap().meta(), options)
}

/// The tokenizer of a fixture.
pub(crate) fn open(name: &str) -> Tokenizer {
    build(fixtures::bytes(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What tokens stand for, one by one.
pub(crate) fn pieces(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    ids.iter().map(|&id| String::from_utf8_lossy(tokenizer.piece(id).unwrap()).into_owned()).collect()
}

/// The character that stands for a byte in byte-level vocabularies.
pub(crate) fn byte_char(byte: u8) -> char {
    let printable = |byte: u8| (33..127).contains(&byte) || (161..=172).contains(&byte) || byte >= 174;
    let before = (0..byte).filter(|&byte| !printable(byte)).count() as u32;
    if printable(byte) { char::from(byte) } else { char::from_u32(256 + before).unwrap() }
}

/// A vocabulary under construction.
#[derive(Clone)]
pub(crate) struct Toy {
    pub(crate) tokens: Vec<String>,
    pub(crate) kinds: Vec<i32>,
    pub(crate) scores: Vec<f32>,
    pub(crate) merges: Vec<String>,
    file: GgufWriter,
}

impl Toy {
    fn new(model: &str) -> Toy {
        let file = GgufWriter::new().kv_str("general.architecture", "llama");
        let file = file.kv_str("tokenizer.ggml.model", model);
        Toy { tokens: Vec::new(), kinds: Vec::new(), scores: Vec::new(), merges: Vec::new(), file }
    }

    /// A byte-level vocabulary: the 256 bytes, in order, and nothing else.
    pub(crate) fn bytes() -> Toy {
        let mut toy = Toy::new("gpt2");
        for byte in 0..=255 {
            toy = toy.token(&byte_char(byte).to_string(), kind::NORMAL);
        }
        toy
    }

    /// A SentencePiece vocabulary: unknown, BOS, EOS, the 256 bytes, and the space.
    pub(crate) fn pieces() -> Toy {
        let mut toy = Toy::new("llama");
        for (text, kind) in [("<unk>", kind::UNKNOWN), ("<s>", kind::CONTROL), ("</s>", kind::CONTROL)] {
            toy = toy.token(text, kind);
        }
        for byte in 0..=255u8 {
            toy = toy.token(&format!("<0x{byte:02X}>"), kind::BYTE);
        }
        toy.piece("\u{2581}", -1.0)
    }

    pub(crate) fn token(mut self, text: &str, kind: i32) -> Toy {
        self.tokens.push(text.to_owned());
        self.kinds.push(kind);
        self.scores.push(0.0);
        self
    }

    pub(crate) fn piece(mut self, text: &str, score: f32) -> Toy {
        self = self.token(text, kind::NORMAL);
        *self.scores.last_mut().unwrap() = score;
        self
    }

    /// Adds a merge of two byte-level tokens, with what it makes.
    pub(crate) fn merge(mut self, left: &str, right: &str) -> Toy {
        let of = |text: &str| text.bytes().map(byte_char).collect::<String>();
        self.merges.push(format!("{} {}", of(left), of(right)));
        self.token(&(of(left) + &of(right)), kind::NORMAL)
    }

    pub(crate) fn key(mut self, change: impl FnOnce(GgufWriter) -> GgufWriter) -> Toy {
        self.file = change(self.file);
        self
    }

    pub(crate) fn pre(self, name: &str) -> Toy {
        self.key(|file| file.kv_str("tokenizer.ggml.pre", name))
    }

    pub(crate) fn id(&self, text: &str) -> u32 {
        self.tokens.iter().position(|token| token == text).unwrap() as u32
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        let file = self.file.clone();
        let file = file.kv_strs("tokenizer.ggml.tokens", &self.tokens);
        let file = file.kv_i32s("tokenizer.ggml.token_type", &self.kinds);
        let file = file.kv_f32s("tokenizer.ggml.scores", &self.scores);
        file.kv_strs("tokenizer.ggml.merges", &self.merges).finish()
    }

    pub(crate) fn build(&self) -> Tokenizer {
        build(self.file()).unwrap()
    }
}
