//! A small file with something of everything.

use super::{GgufWriter, TensorEntry, array, string, ty};

/// A sound file of the given version with a metadata value of every type, nested arrays, strings that are not UTF-8, and
/// tensors of three types, one of which cera has no kernels for.
pub fn sample(version: u32) -> GgufWriter {
    let texts = (0..100).map(|i| vec![b'a' + i % 26; usize::from(i % 7)]);
    let inner =
        [array(ty::STRING, 2, [string("a"), string("")].concat()), array(ty::I16, 2, [1, 0, 255, 255])];
    GgufWriter::new()
        .version(version)
        .kv_u8("u8", 200)
        .kv_i8("i8", -100)
        .kv_u16("u16", 60_000)
        .kv_i16("i16", -30_000)
        .kv_u32("u32", 4_000_000_000)
        .kv_i32("i32", -2_000_000_000)
        .kv_u64("u64", u64::MAX)
        .kv_i64("i64", i64::MIN)
        .kv_f32("f32", 0.1)
        .kv_f64("f64", 0.1)
        .kv_bool("bool", true)
        .kv_str("str", "h\u{e9}")
        .kv_str("not utf-8", b"\xff\xfe")
        .alignment(64)
        .kv_u8s("u8s", &[1, 2, 3])
        .kv_i64s("i64s", &[-1, i64::MAX])
        .kv_f32s("f32s", &[f32::NAN, -0.0, 1.5])
        .kv_bools("bools", &[true, false])
        .kv_strs("strs", texts)
        .kv_strs("no strs", Vec::<&str>::new())
        .kv_array("nested", ty::ARRAY, 2, inner.concat())
        .tensor("q", &[64, 3], 2, [7; 108])
        .tensor_entry(TensorEntry::new("other", &[256], 16, [9; 66]))
        .tensor_f32("f", &[2, 1, 3, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
}
