//! Metadata read with the type that is wanted.

use cera_models::gguf::{FromValue, GgufError, GgufFile, GgufSet, Meta};
use cera_testkit::gguf::GgufWriter;

fn file(writer: &GgufWriter) -> GgufFile {
    GgufFile::parse("m.gguf", writer.finish()).expect("a sound file")
}

/// The message of an error.
fn says<T>(result: Result<T, GgufError>) -> String {
    result.map(drop).expect_err("a wrong value").to_string()
}

#[test]
fn integers_of_every_width_are_read_where_they_fit() {
    let file = file(
        &GgufWriter::new()
            .kv_u8("a", 7)
            .kv_i8("b", 7)
            .kv_u16("c", 7)
            .kv_i16("d", 7)
            .kv_u32("e", 7)
            .kv_i32("f", 7)
            .kv_u64("g", 7)
            .kv_i64("h", 7)
            .kv_i8("minus", -1)
            .kv_u64("large", 1 << 40)
            .kv_f32("float", 7.0)
            .kv_bool("bool", true),
    );
    let meta = file.meta();
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        assert_eq!((meta.u32(key).unwrap(), meta.i32(key).unwrap()), (7, 7));
        assert_eq!((meta.u64(key).unwrap(), meta.usize(key).unwrap()), (7, 7));
        assert_eq!((meta.u32_or(key, 1).unwrap(), meta.u32_opt(key).unwrap()), (7, Some(7)));
    }
    assert_eq!(meta.i32("minus").unwrap(), -1);
    assert_eq!(meta.u64("large").unwrap(), 1 << 40);
    let wrong = "m.gguf: metadata key";
    assert_eq!(
        says(meta.u32("minus")),
        format!("{wrong} minus: expected an integer that fits u32, found i8 -1")
    );
    assert_eq!(
        says(meta.u32_or("large", 3)),
        format!("{wrong} large: expected an integer that fits u32, found u64 1099511627776")
    );
    assert_eq!(
        says(meta.u32("float")),
        format!("{wrong} float: expected an integer that fits u32, found f32 7")
    );
    assert_eq!(
        says(meta.u64_opt("bool")),
        format!("{wrong} bool: expected an integer that fits u64, found bool true")
    );
}

#[test]
fn missing_keys_have_defaults_or_are_named() {
    let file = file(&GgufWriter::new().kv_str("general.architecture", "llama"));
    let meta = file.meta();
    assert_eq!(meta.u32_or("none", 5).unwrap(), 5);
    assert_eq!(meta.f32_or("none", 0.5).unwrap(), 0.5);
    assert!(meta.bool_or("none", true).unwrap());
    assert_eq!(meta.str_or("none", "x").unwrap(), "x");
    assert_eq!(meta.f32_opt("none").unwrap(), None);
    assert!(meta.strings_opt("none").unwrap().is_none());
    assert!(meta.list_opt::<i32>("none").unwrap().is_none());
    assert!(meta.per_layer_opt::<u32>("none", 4).unwrap().is_none());
    assert!(!meta.has("{arch}.block_count").unwrap());
    assert_eq!(says(meta.u32("{arch}.block_count")), "m.gguf: metadata key llama.block_count is missing");
    assert_eq!(says(meta.strings("tokens")), "m.gguf: metadata key tokens is missing");
    assert_eq!(says(meta.list::<u32>("list")), "m.gguf: metadata key list is missing");
    assert_eq!(says(meta.per_layer::<u32>("{arch}.x", 2)), "m.gguf: metadata key llama.x is missing");
}

#[test]
fn keys_of_the_architecture_need_an_architecture() {
    let with =
        file(&GgufWriter::new().kv_str("general.architecture", "qwen3").kv_u32("qwen3.block_count", 3));
    assert_eq!(with.meta().arch().unwrap(), "qwen3");
    assert_eq!(with.meta().u32("{arch}.block_count").unwrap(), 3);
    assert_eq!(with.meta().key("{arch}.a.b").unwrap(), "qwen3.a.b");
    assert_eq!(with.meta().key("tokenizer.ggml.model").unwrap(), "tokenizer.ggml.model");
    let without = file(&GgufWriter::new());
    let missing = "m.gguf: metadata key general.architecture is missing";
    assert_eq!(says(without.meta().u32_or("{arch}.block_count", 3)), missing);
    let number = file(&GgufWriter::new().kv_u32("general.architecture", 1));
    assert!(says(number.meta().arch()).ends_with("expected a UTF-8 string, found u32 1"));
    let bytes = file(&GgufWriter::new().kv_str("general.architecture", b"\xff"));
    assert!(says(bytes.meta().arch()).ends_with("expected a UTF-8 string, found string \"\u{fffd}\""));
}

#[test]
fn floats_are_narrowed_and_other_types_refused() {
    let file = file(
        &GgufWriter::new()
            .kv_f32("single", 0.1)
            .kv_f64("double", 0.1)
            .kv_f64("huge", 1e300)
            .kv_f64("infinite", f64::INFINITY)
            .kv_u32("integer", 1)
            .kv_u8("byte", 1),
    );
    let meta = file.meta();
    assert_eq!((meta.f32("single").unwrap(), meta.f32("double").unwrap()), (0.1, 0.1));
    assert_eq!(meta.f32("infinite").unwrap(), f32::INFINITY);
    assert!(
        says(meta.f32("huge")).contains("metadata key huge: expected a float that fits f32, found f64 1000")
    );
    assert!(says(meta.f32_or("integer", 1.0)).ends_with("expected a float that fits f32, found u32 1"));
    assert!(says(meta.bool("byte")).ends_with("expected a bool, found u8 1"));
}

#[test]
fn lists_and_strings_say_which_element_is_wrong() {
    let file = file(
        &GgufWriter::new()
            .kv_i32s("list", &[1, 2, -3])
            .kv_f32s("floats", &[1.0, 2.0])
            .kv_strs("strings", [&b"a"[..], b"\xff", b""])
            .kv_u32("scalar", 1),
    );
    let meta = file.meta();
    assert_eq!(meta.list::<i32>("list").unwrap(), [1, 2, -3]);
    assert_eq!(meta.list::<f32>("floats").unwrap(), [1.0, 2.0]);
    assert!(says(meta.list::<u32>("list")).ends_with("an integer that fits u32 as element 2, found i32 -3"));
    assert!(
        says(meta.list::<u32>("scalar"))
            .ends_with("an array, each element an integer that fits u32, found u32 1")
    );
    assert_eq!(meta.strings("strings").unwrap().iter().collect::<Vec<_>>(), [&b"a"[..], b"\xff", b""]);
    let wrong = says(meta.strings("list"));
    assert!(wrong.ends_with("expected an array of strings, found an array of 3 i32 [1, 2, -3]"), "{wrong}");
    assert!(says(meta.list::<&str>("strings")).contains("a UTF-8 string as element 1"));
}

const HEADS: &str = "{arch}.attention.head_count_kv";

/// The heads of a model of two layers.
fn heads(writer: impl FnOnce(GgufWriter, &str) -> GgufWriter) -> Result<Vec<u32>, GgufError> {
    let base = GgufWriter::new().kv_str("general.architecture", "toy");
    let file = file(&writer(base, "toy.attention.head_count_kv"));
    file.meta().per_layer(HEADS, 2)
}

#[test]
fn heads_are_one_for_all_or_one_per_layer() {
    assert_eq!(heads(|w, key| w.kv_u32(key, 2)).unwrap(), [2, 2]);
    assert_eq!(heads(|w, key| w.kv_u16(key, 2)).unwrap(), [2, 2]);
    assert_eq!(heads(|w, key| w.kv_i32s(key, &[2, 2])).unwrap(), [2, 2]);
    assert_eq!(heads(|w, key| w.kv_u32s(key, &[0, 2])).unwrap(), [0, 2]);
    assert_eq!(heads(|w, key| w.kv_u64s(key, &[0, 2])).unwrap(), [0, 2]);
    let expected =
        "metadata key toy.attention.head_count_kv: expected one value or one per layer (2), found an array";
    for wrong in [&[][..], &[2], &[2; 3], &[2; 88]] {
        let message = says(heads(|w, key| w.kv_u32s(key, wrong)));
        assert!(message.contains(expected), "{message}");
        assert!(message.contains(&format!("of {} u32", wrong.len())), "{message}");
    }
    assert!(says(heads(|w, key| w.kv_i32s(key, &[2, -2]))).contains("as element 1, found i32 -2"));
    assert!(says(heads(|w, key| w.kv_i32(key, -2))).ends_with("an integer that fits u32, found i32 -2"));
    assert!(says(heads(|w, key| w.kv_strs(key, ["a", "b"]))).contains("as element 0, found string"));
}

#[test]
fn a_scalar_is_not_spread_over_more_layers_than_a_file_can_have() {
    let file = file(&GgufWriter::new().kv_str("general.architecture", "toy").kv_u32("heads", 2));
    let message = says(file.meta().per_layer::<u32>("heads", 1 << 31));
    assert!(message.contains("toy.block_count: expected at most 65536, found u64 2147483648"), "{message}");
}

#[test]
fn layers_are_those_that_have_tensors() {
    let layers = |stated: u32| {
        let mut writer =
            GgufWriter::new().kv_str("general.architecture", "toy").kv_u32("toy.block_count", stated);
        for name in ["output.weight", "blk.x.a", "blk.0.a", "blk.1.a", "blk.2.a", "blk.7"] {
            writer = writer.tensor_f32(name, &[1], &[0.0]);
        }
        GgufSet::from_file(file(&writer)).unwrap().layer_count()
    };
    assert_eq!((layers(1).unwrap(), layers(3).unwrap()), (1, 3));
    for wrong in [0, 4, 513, 1 << 31, u32::MAX] {
        let expected =
            format!("toy.block_count: expected 1 to 3, the layers that have tensors, found u32 {wrong}");
        assert!(says(layers(wrong)).ends_with(&expected), "{}", says(layers(wrong)));
    }
}

#[test]
fn a_count_of_zero_is_refused_where_one_is_needed() {
    let file = file(&GgufWriter::new().kv_u32("heads", 0).kv_u64("width", 64));
    let message = says(file.meta().nonzero_u32("heads"));
    assert_eq!(message, "m.gguf: metadata key heads: expected an integer of at least 1, found u32 0");
    assert_eq!(file.meta().nonzero_u32("width").unwrap(), 64);
}

#[test]
fn any_type_can_be_read_by_its_trait() {
    fn read<'a, T: FromValue<'a>>(meta: Meta<'a>, key: &str) -> Option<T> {
        meta.get_opt(key).unwrap()
    }
    let file = file(&GgufWriter::new().kv_i64("a", -5).kv_str("b", "text"));
    assert_eq!(read::<i64>(file.meta(), "a"), Some(-5));
    assert_eq!(read::<&str>(file.meta(), "b"), Some("text"));
    assert_eq!(read::<bool>(file.meta(), "c"), None);
}
