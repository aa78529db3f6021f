//! Writes the metadata that a reader read with the test writer, which shares no code with it.

use cera_models::gguf::{GgufFile, Value};
use cera_testkit::gguf::{GgufWriter, string};

/// A writer with the metadata of the file in order, without the value of `left_out`.
pub(crate) fn writer_of_keys_but(file: &GgufFile, left_out: &str) -> GgufWriter {
    writer_of_keys(file, |key| key != left_out)
}

/// A writer with some of the metadata of the file in order.
pub(crate) fn writer_of_keys(file: &GgufFile, kept: impl Fn(&str) -> bool) -> GgufWriter {
    let mut writer = GgufWriter::new().version(file.version()).padding(file.alignment());
    for (key, value) in file.metadata().filter(|(key, _)| kept(key)) {
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
