//! Any bytes as a GGUF file: refused with one line, or accepted, usable, and equal to what the test writer makes of it.

#![no_main]

use cera_models::gguf::{GgufFile, GgufSet, Value};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/models/tests/support/roundtrip.rs"]
mod roundtrip;

fuzz_target!(|bytes: &[u8]| {
    match GgufFile::parse("fuzz.gguf", bytes.to_vec()) {
        Err(error) => check_message(&error.to_string()),
        Ok(file) => {
            roundtrip::check(&file, bytes);
            use_everything(file);
        }
    }
});

fn check_message(message: &str) {
    assert!(message.starts_with("fuzz.gguf: "), "{message}");
    assert!(!message.contains(char::is_control), "{message}");
}

/// Reads all metadata in every way; what does not fit must be an error.
fn use_everything(file: GgufFile) {
    let meta = file.meta();
    let mut fits = 0;
    for (key, value) in file.metadata() {
        assert!(!value.to_string().contains(char::is_control));
        fits += usize::from(meta.u32(key).is_ok());
        fits += usize::from(meta.f32_or(key, 0.0).is_ok());
        fits += usize::from(meta.bool_opt(key).is_ok());
        fits += usize::from(meta.str(key).is_ok());
        fits += usize::from(meta.list::<i64>(key).is_ok());
        fits += usize::from(meta.per_layer::<u32>(key, 2).is_ok());
        if let Value::Array(array) = value {
            assert_eq!(array.iter().count(), array.len());
            if let Some(strings) = array.strings() {
                assert!(strings.iter().enumerate().all(|(i, string)| strings.get(i) == Some(string)));
            }
        }
    }
    std::hint::black_box(fits);
    match GgufSet::from_file(file) {
        Err(error) => check_message(&error.to_string()),
        Ok(set) => {
            if let Err(error) = set.layer_count() {
                check_message(&error.to_string());
            }
        }
    }
}
