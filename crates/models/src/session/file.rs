//! Sessions in files.
//!
//! The layout: a [`Head`], the tokens as u32, the state ([`cera_core::SeqState::write_to`]), an [`Earlier`] with the state and the
//! logits that it speaks of, and the SHA-256 of all that. Integers are little-endian.
//!
//! The earlier state is that of the last checkpoint at the end of a turn: of a model whose state cannot go back by itself, a file
//! so serves another answer to the same prompt, too.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use cera_core::SeqState;
use sha2::{Digest, Sha256};

use super::Session;
use super::checkpoints::{Checkpoint, Checkpoints};

/// How a session file begins.
const MAGIC: [u8; 8] = *b"cera.ses";

/// The version of the layout, and of the pages in it.
const VERSION: u32 = 2;

/// What a session file begins with.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    version: [u8; 4],
    /// Bits of an element of the keys and values.
    kv_bits: [u8; 2],
    /// 1 if the keys are those of sequences that can grow long ([`SeqState::is_long`]), else 0.
    long: [u8; 2],
    /// [`Model::fingerprint`](crate::Model::fingerprint).
    model: [u8; 32],
    tokens: [u8; 8],
    /// How many of the tokens are computed.
    computed: [u8; 8],
}

/// What a session file has of a checkpoint.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Earlier {
    /// Positions of the state; 0 if there is none.
    len: [u8; 8],
    /// The number of logits: none or all.
    logits: [u8; 8],
}

/// What a session file holds.
struct Content {
    state: SeqState,
    tokens: Vec<u32>,
    checkpoints: Checkpoints,
}

/// Why a session cannot be saved to a file or restored from it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct SessionFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub fault: SessionFault,
}

/// What is wrong with a session file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionFault {
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not a session file, or is damaged.
    #[error("{0}")]
    Malformed(String),
    /// It belongs to another model, or to another type of keys and values.
    #[error("the session was saved with {found}; this one has {expected}")]
    Mismatch {
        /// What the file says.
        found: String,
        /// What fits.
        expected: String,
    },
    /// The state cannot be taken.
    #[error(transparent)]
    State(#[from] cera_core::Error),
}

impl Session {
    /// Saves the tokens and what is computed of them. The file appears whole or not at all.
    ///
    /// # Errors
    /// [`SessionFault::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SessionFileError> {
        let path = path.as_ref();
        self.write(path).map_err(|error| SessionFileError { path: path.to_owned(), fault: error.into() })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        let mut out = Hashing::new(BufWriter::new(file.as_file_mut()));
        out.write_all(bytemuck::bytes_of(&self.head()))?;
        self.tokens.iter().try_for_each(|token| out.write_all(&token.to_le_bytes()))?;
        self.state.write_to(&mut out)?;
        self.write_earlier(&mut out)?;
        let (mut out, sum) = out.finish();
        out.write_all(&sum)?;
        out.flush()?;
        drop(out);
        file.persist(path)?;
        Ok(())
    }

    fn write_earlier(&self, out: &mut dyn Write) -> io::Result<()> {
        let checkpoint = self.checkpoints.turn_before(self.state.len());
        let (len, logits) =
            checkpoint.map_or((0, &[][..]), |c| (c.len, c.logits.as_ref().map_or(&[], |logits| logits)));
        let head = Earlier { len: (len as u64).to_le_bytes(), logits: (logits.len() as u64).to_le_bytes() };
        out.write_all(bytemuck::bytes_of(&head))?;
        if let Some(checkpoint) = checkpoint {
            let mut state = self.state.fork();
            checkpoint.restore(&mut state).map_err(io::Error::other)?;
            state.write_to(out)?;
        }
        logits.iter().try_for_each(|logit| out.write_all(&logit.to_le_bytes()))
    }

    /// Takes the tokens and the state of a file in place of those held.
    ///
    /// # Errors
    /// [`SessionFileError`]; the session is as it was then.
    pub fn restore(&mut self, path: impl AsRef<Path>) -> Result<(), SessionFileError> {
        let path = path.as_ref();
        let read = self.read(path).map_err(|fault| SessionFileError { path: path.to_owned(), fault });
        let Content { state, tokens, checkpoints } = read?;
        (self.state, self.tokens, self.checkpoints) = (state, tokens, checkpoints);
        (self.logits, self.dropped) = (None, 0);
        (self.chosen, self.answering) = (false, false);
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Content, SessionFault> {
        let mut input = Hashing::new(BufReader::new(File::open(path)?));
        let mut head = Head::zeroed();
        input.read_exact(bytemuck::bytes_of_mut(&mut head)).map_err(cut)?;
        let (count, computed) = self.check(&head)?;
        let mut tokens = Vec::new();
        for _ in 0..count {
            // No more memory than the file has bytes, whatever it claims.
            let mut token = [0; 4];
            input.read_exact(&mut token).map_err(cut)?;
            tokens.push(u32::from_le_bytes(token));
        }
        let vocabulary = self.model.vocabulary();
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(SessionFault::Malformed(format!(
                "token {token} is outside of the vocabulary of {vocabulary}"
            )));
        }
        let mut state = self.state.fork();
        state.read_from(computed, &mut input)?;
        let checkpoints = self.read_earlier(computed, &mut input)?;
        let (input, sum) = input.finish();
        let mut rest = Vec::new();
        input.take(sum.len() as u64 + 1).read_to_end(&mut rest)?;
        match rest == sum {
            true => Ok(Content { state, tokens, checkpoints }),
            false => {
                Err(SessionFault::Malformed("the file is damaged: its checksum does not fit".to_owned()))
            }
        }
    }

    /// The checkpoint of a file whose state has `computed` positions, if this session has a use for it.
    fn read_earlier(&self, computed: usize, input: &mut dyn Read) -> Result<Checkpoints, SessionFault> {
        let mut head = Earlier::zeroed();
        input.read_exact(bytemuck::bytes_of_mut(&mut head)).map_err(cut)?;
        let (len, count) = (u64::from_le_bytes(head.len), u64::from_le_bytes(head.logits));
        let vocabulary = self.model.vocabulary();
        if len > computed as u64 || ![0, vocabulary as u64].contains(&count) || (len == 0 && count > 0) {
            return Err(SessionFault::Malformed(format!(
                "a checkpoint of {len} tokens with {count} logits does not fit {computed} tokens and a vocabulary of \
                 {vocabulary}"
            )));
        }
        let mut checkpoints = Checkpoints::default();
        if len == 0 {
            return Ok(checkpoints);
        }
        let mut state = self.state.fork();
        state.read_from(len as usize, input)?;
        let mut logits = vec![0; 4 * count as usize];
        input.read_exact(&mut logits).map_err(cut)?;
        let logits = logits.as_chunks().0.iter().map(|&logit| f32::from_le_bytes(logit));
        let logits = (count > 0).then(|| Arc::new(logits.collect()));
        if self.keeps_checkpoints {
            checkpoints.add(Checkpoint::new(&state, true, logits), &self.options.checkpoints);
        }
        Ok(checkpoints)
    }

    /// The numbers of tokens and of computed ones that `head` states, if this session can take them.
    fn check(&self, head: &Head) -> Result<(usize, usize), SessionFault> {
        let own = self.head();
        if head.magic != own.magic {
            return Err(SessionFault::Malformed("this is not a session file".to_owned()));
        }
        if head.version != own.version {
            let found = u32::from_le_bytes(head.version);
            return Err(SessionFault::Malformed(format!("a session file of version {found}, not {VERSION}")));
        }
        if head.model != own.model {
            let (found, expected) = ("another model".to_owned(), "another fingerprint".to_owned());
            return Err(SessionFault::Mismatch { found, expected });
        }
        if head.kv_bits != own.kv_bits {
            let shown = |bits| format!("keys and values of {} bits", u16::from_le_bytes(bits));
            return Err(SessionFault::Mismatch { found: shown(head.kv_bits), expected: shown(own.kv_bits) });
        }
        if head.long != own.long {
            let shown = |long: [u8; 2]| match long {
                [0, 0] => "keys of short contexts".to_owned(),
                _ => "keys of long contexts".to_owned(),
            };
            return Err(SessionFault::Mismatch { found: shown(head.long), expected: shown(own.long) });
        }
        let (count, computed) = (u64::from_le_bytes(head.tokens), u64::from_le_bytes(head.computed));
        // The token that was chosen last is not computed: it may be the one after a full context.
        let context = self.context() as u64;
        if computed > count || computed > context || count > context.saturating_add(1) {
            return Err(SessionFault::Malformed(format!(
                "{count} tokens, {computed} of them computed, do not fit a context of {}",
                self.context()
            )));
        }
        Ok((count as usize, computed as usize))
    }

    fn head(&self) -> Head {
        Head {
            magic: MAGIC,
            version: VERSION.to_le_bytes(),
            kv_bits: (8 * self.state.kv_type().bytes() as u16).to_le_bytes(),
            long: u16::from(self.state.is_long()).to_le_bytes(),
            model: self.model.fingerprint(),
            tokens: (self.tokens.len() as u64).to_le_bytes(),
            computed: (self.state.len() as u64).to_le_bytes(),
        }
    }
}

/// The fault that a read of a fixed number of bytes has.
fn cut(error: io::Error) -> SessionFault {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => SessionFault::Malformed("the file ends early".to_owned()),
        _ => SessionFault::Io(error),
    }
}

/// A stream whose bytes are hashed as they pass.
struct Hashing<T> {
    inner: T,
    hasher: Sha256,
}

impl<T> Hashing<T> {
    fn new(inner: T) -> Hashing<T> {
        Hashing { inner, hasher: Sha256::new() }
    }

    /// The stream, and the hash of what passed.
    fn finish(self) -> (T, [u8; 32]) {
        (self.inner, self.hasher.finalize().into())
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.hasher.update(&bytes[..read]);
        Ok(read)
    }
}
