//! Writes what a reader read with the test writer, which shares no code with it.

use cera_models::gguf::GgufFile;
use cera_testkit::gguf::{GgufWriter, TensorEntry};

use self::rewrite::writer_of_keys_but;

mod rewrite;

/// The file written anew: metadata and tensors in order, tensors one after the other.
pub(crate) fn rewrite(file: &GgufFile) -> Vec<u8> {
    let mut writer = writer_of_keys(file);
    for info in file.tensors() {
        let data = file.tensor_data(info).expect("the data of a tensor");
        writer = writer.tensor_entry(TensorEntry::new(info.name(), info.dims(), info.ty().id(), &*data));
    }
    writer.finish()
}

/// The file up to the first tensor entry, written anew. The format leaves no choice there, so that it must be equal to
/// the bytes that were read.
pub(crate) fn rewrite_keys(file: &GgufFile) -> Vec<u8> {
    writer_of_keys(file).claim_tensors(file.tensors().len() as u64).finish()
}

fn writer_of_keys(file: &GgufFile) -> GgufWriter {
    writer_of_keys_but(file, "")
}

/// Panics unless `bytes`, which were read as `file`, and the file written anew have the same content.
pub(crate) fn check(file: &GgufFile, bytes: &[u8]) {
    let keys = rewrite_keys(file);
    assert_eq!(bytes.get(..keys.len()), Some(&keys[..]), "metadata of {}", file.name());
    let again = GgufFile::parse("again", rewrite(file)).expect("a file written anew");
    assert_eq!((again.version(), again.alignment()), (file.version(), file.alignment()));
    assert_eq!(rewrite_keys(&again), keys);
    assert_eq!(again.tensors().len(), file.tensors().len());
    for (a, b) in again.tensors().iter().zip(file.tensors()) {
        assert_eq!((a.name(), a.dims(), a.ty()), (b.name(), b.dims(), b.ty()));
        let data = |file: &GgufFile, info| file.tensor_data(info).expect("the data of a tensor").to_vec();
        assert_eq!(data(&again, a), data(file, b));
        assert_eq!(file.tensor(b.name()).map(|found| found.file_range()), Some(b.file_range()));
    }
}
