//! Writes what a reader read with the test writer, which shares no code with it.

use cera_models::gguf::{GgufFile, Value};
use cera_testkit::gguf::{GgufWriter, TensorEntry, string};

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

/// A writer with the metadata of the file in order, without the value of `left_out`.
pub(crate) fn writer_of_keys_but(file: &GgufFile, left_out: &str) -> GgufWriter {
    let mut writer = GgufWriter::new().version(file.version()).padding(file.alignment());
    for (key, value) in file.metadata().filter(|(key, _)| *key != left_out) {
        writer = writer.kv_raw(key, value.ty().id(), encode(value));
    }
    writer
}

/// A value as it stands in a file.
fn encode(value: Value<'_>) -> Vec<u8> {
    match value {
        Value::U8(v) => v.to_le_bytes().to_vec(),
        Value::I8(v) => v.to_le_bytes().to_vec(),
        Value::U16(v) => v.to_le_bytes().to_vec(),
        Value::I16(v) => v.to_le_bytes().to_vec(),
        Value::U32(v) => v.to_le_bytes().to_vec(),
        Value::I32(v) => v.to_le_bytes().to_vec(),
        Value::F32(v) => v.to_le_bytes().to_vec(),
        Value::Bool(v) => vec![u8::from(v)],
        Value::Str(v) => string(v),
        Value::U64(v) => v.to_le_bytes().to_vec(),
        Value::I64(v) => v.to_le_bytes().to_vec(),
        Value::F64(v) => v.to_le_bytes().to_vec(),
        Value::Array(array) => {
            let mut out = array.element_type().id().to_le_bytes().to_vec();
            out.extend((array.len() as u64).to_le_bytes());
            match array.strings() {
                Some(strings) => {
                    (0..strings.len()).for_each(|i| out.extend(string(strings.get(i).expect("a string"))))
                }
                None => array.iter().for_each(|element| out.extend(encode(element))),
            }
            out
        }
    }
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
