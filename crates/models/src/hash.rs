//! Hashes: of logits, which "the same bits" is checked by, and of model files.

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::gguf::{GgufError, GgufSet};

/// A logit that is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("logit {index} is not a number")]
pub struct NotANumber {
    /// Its position among all logits.
    pub index: usize,
}

/// SHA-256 over the little-endian f32 logits, in lower-case hexadecimal.
///
/// # Errors
/// [`NotANumber`] if a logit is NaN: the bits of NaN are outside of the promise of equal bits.
pub fn logits_hash(logits: &[f32]) -> Result<String, NotANumber> {
    if let Some(index) = logits.iter().position(|x| x.is_nan()) {
        return Err(NotANumber { index });
    }
    let mut hasher = Sha256::new();
    for chunk in logits.chunks(4096) {
        let bytes: Vec<u8> = chunk.iter().flat_map(|x| x.to_le_bytes()).collect();
        hasher.update(&bytes);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Samples of a tensor's data that a fingerprint takes, and their bytes.
const SAMPLES: (usize, usize) = (4, 256);

/// What tells one model from another: SHA-256 over the head of every file of the set and samples of every tensor's data,
/// [`SAMPLES`] of them at even distances.
///
/// Two models that were trained apart differ all over; files that differ in a few weights by intent may pass for one.
///
/// # Errors
/// A [`GgufError`] if the data cannot be read.
pub(crate) fn fingerprint(set: &GgufSet) -> Result<[u8; 32], GgufError> {
    let (count, width) = SAMPLES;
    let mut hasher = Sha256::new();
    for file in set.files() {
        hasher.update((file.head().len() as u64).to_le_bytes());
        hasher.update(file.head());
        for info in file.tensors() {
            let Range { start, end } = info.file_range();
            for at in (start..end).step_by(((end - start) / count).max(width)) {
                hasher.update(&*file.part(at..end.min(at + width))?);
            }
        }
    }
    Ok(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_bytes() {
        // sha256 of no bytes, and of 00 00 80 3f (1.0).
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(logits_hash(&[]).as_deref(), Ok(empty));
        let one = "e00e5eb9444182f352323374ef4e08ebcb784725fdd4fd612d7730540b3e0c8c";
        assert_eq!(logits_hash(&[1.0]).as_deref(), Ok(one));
    }

    #[test]
    fn nan_is_refused_with_its_place() {
        assert_eq!(logits_hash(&[0.0, f32::NAN]), Err(NotANumber { index: 1 }));
        assert!(logits_hash(&[f32::INFINITY]).is_ok());
    }
}
