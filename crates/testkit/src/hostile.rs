//! GGUF files that must be refused: each under 200 bytes, each wrong in one way.

use crate::gguf::{GgufWriter, KvEntry, TensorEntry, array, string, ty};

/// A file that must be refused.
#[derive(Debug, Clone)]
pub struct Hostile {
    /// What is wrong with it.
    pub name: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
    /// Words that the error message must contain.
    pub says: &'static str,
}

/// Name and bytes of every hostile file.
pub fn headers() -> Vec<(&'static str, Vec<u8>)> {
    cases().into_iter().map(|case| (case.name, case.bytes)).collect()
}

/// Every hostile file.
pub fn cases() -> Vec<Hostile> {
    let groups =
        [prelude(), counts(), keys(), values(), arrays(), alignments(), tensor_entries(), tensor_places()];
    groups.into_iter().flatten().collect()
}

const F32: u32 = 0;
const Q4_0: u32 = 2;
const Q4_K: u32 = 12;

fn hostile(name: &'static str, says: &'static str, bytes: impl AsRef<[u8]>) -> Hostile {
    Hostile { name, bytes: bytes.as_ref().to_vec(), says }
}

fn writer(name: &'static str, says: &'static str, writer: GgufWriter) -> Hostile {
    hostile(name, says, writer.finish())
}

/// A file with one metadata entry, stated as given.
fn value(name: &'static str, says: &'static str, type_id: u32, bytes: impl AsRef<[u8]>) -> Hostile {
    writer(name, says, GgufWriter::new().kv_raw("key.k", type_id, bytes))
}

/// A file with one tensor, stated as given.
fn tensor(name: &'static str, says: &'static str, entry: TensorEntry) -> Hostile {
    writer(name, says, GgufWriter::new().padding(8).kv_u32("general.alignment", 8).tensor_entry(entry))
}

fn prelude() -> Vec<Hostile> {
    let new = GgufWriter::new;
    vec![
        hostile("empty file", "not a GGUF file", b""),
        hostile("one byte", "not a GGUF file", b"G"),
        hostile("wrong magic", "found \"GGUX\"", new().magic(*b"GGUX").finish()),
        hostile("magic reversed", "not a GGUF file", new().magic(*b"FUGG").finish()),
        hostile("magic of a predecessor", "a predecessor of GGUF", new().magic(*b"tjgg").finish()),
        hostile("zeros", "not a GGUF file", [0; 100]),
        hostile(
            "git lfs pointer",
            "Git LFS",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
        ),
        hostile("a zip", "not a GGUF file", b"PK\x03\x04 and so on"),
        writer("cut after the magic", "the version at byte 4 needs 4 bytes, 0 are left", new().truncate(4)),
        writer("cut in the version", "needs 4 bytes, 3 are left", new().truncate(7)),
        writer("cut in the tensor count", "the number of tensors at byte 8", new().truncate(12)),
        writer("cut in the key count", "the number of metadata keys at byte 16", new().truncate(23)),
        writer("version 0", "GGUF version 0", new().version(0)),
        writer("version 1", "GGUF version 1", new().version(1)),
        writer("version 4", "GGUF version 4", new().version(4)),
        writer("version of all bits", "GGUF version 4294967295", new().version(u32::MAX)),
        writer("big-endian version 2", "big-endian GGUF file (version 2)", new().version(2_u32.swap_bytes())),
        writer("big-endian version 3", "big-endian GGUF file (version 3)", new().version(3_u32.swap_bytes())),
        writer("two files joined", "another GGUF header follows", new().append(new().finish())),
    ]
}

fn counts() -> Vec<Hostile> {
    let one = || GgufWriter::new().kv_u32("key.k", 1);
    let keys = |name, count| writer(name, "metadata keys do not fit", one().claim_keys(count));
    let tensors = |name, count| writer(name, "tensors do not fit", one().claim_tensors(count));
    vec![
        keys("2^32 keys", 1 << 32),
        keys("2^63 keys", 1 << 63),
        keys("2^64 - 1 keys", u64::MAX),
        keys("keys times their size wrap", u64::MAX / 14 + 1),
        keys("two keys claimed, one there", 2),
        tensors("2^32 tensors", 1 << 32),
        tensors("2^63 tensors", 1 << 63),
        tensors("2^64 - 1 tensors", u64::MAX),
        tensors("one tensor claimed, none there", 1),
    ]
}

fn keys() -> Vec<Hostile> {
    let key = |name, says, key: &[u8], len: Option<u64>| {
        let entry = KvEntry { key_len: len, ..KvEntry::new(key, ty::U32, [1, 0, 0, 0]) };
        writer(name, says, GgufWriter::new().kv_entry(entry))
    };
    let twice = GgufWriter::new().kv_u32("key.k", 1).kv_u32("key.k", 1);
    vec![
        key("key of 2^32 bytes", "metadata key 0 at byte 32 needs 4294967296 bytes", b"key", Some(1 << 32)),
        key("key of 2^63 bytes", "metadata key 0", b"key", Some(1 << 63)),
        key("key of 2^64 - 1 bytes", "metadata key 0", b"key", Some(u64::MAX)),
        key("empty key", "expected UTF-8 text of at least one byte, found \"\"", b"", None),
        key("key that is not UTF-8", "metadata key 0: expected UTF-8", b"key\xff", None),
        key("key cut in a character", "metadata key 0: expected UTF-8", "kéy".as_bytes(), Some(2)),
        writer("cut in a key", "metadata key 0 at byte 32 needs 20 bytes, 18 are left", {
            GgufWriter::new().kv_u32("general.architecture", 1).cut(10)
        }),
        writer("key given twice", "metadata key key.k is given twice", twice),
    ]
}

fn values() -> Vec<Hostile> {
    let text = |len: u64| [&len.to_le_bytes()[..], b"text"].concat();
    vec![
        value("value type 13", "metadata key key.k: unknown value type 13", 13, [0; 8]),
        value("value type of all bits", "unknown value type 4294967295", u32::MAX, [0; 8]),
        value("boolean of 2", "expected a boolean of 0 or 1, found 2", ty::BOOL, [2]),
        value("string of 2^32 bytes", "needs 4294967296 bytes, 4 are left", ty::STRING, text(1 << 32)),
        value("string of 2^63 bytes", "the value of metadata key key.k", ty::STRING, text(1 << 63)),
        value("string of 2^64 - 1 bytes", "the value of metadata key key.k", ty::STRING, text(u64::MAX)),
        value("string one byte too long", "needs 5 bytes, 4 are left", ty::STRING, text(5)),
        value("cut in a scalar", "needs 8 bytes, 7 are left", ty::U64, [0; 7]),
        value("cut in a string's length", "needs 8 bytes, 3 are left", ty::STRING, [0; 3]),
    ]
}

fn arrays() -> Vec<Hostile> {
    let list = |name, says, element_type, count, bytes: &[u8]| {
        value(name, says, ty::ARRAY, array(element_type, count, bytes))
    };
    // An array of an array of ... of one byte.
    let nested = |depth| (1..depth).fold(array(ty::U8, 1, [1]), |inner, _| array(ty::ARRAY, 1, inner));
    let strings = [string("a"), u64::MAX.to_le_bytes().to_vec()].concat();
    vec![
        list("array of unknown type", "metadata key key.k: unknown value type 13", 13, 1, &[0; 8]),
        list("empty array of unknown type", "unknown value type 99", 99, 0, &[]),
        list("array of 2^32 bytes", "4294967296 u8 elements", ty::U8, 1 << 32, &[0; 8]),
        list("array of 2^63 bytes", "do not fit the 8 bytes left", ty::U8, 1 << 63, &[0; 8]),
        list("array of 2^64 - 1 integers", "do not fit the 8 bytes left", ty::U64, u64::MAX, &[0; 8]),
        list("array whose size wraps to 8", "do not fit the 8 bytes left", ty::U64, (1 << 61) + 1, &[0; 8]),
        list("array one element too long", "3 u32 elements", ty::U32, 3, &[0; 11]),
        list("array of 2^32 strings", "4294967296 string elements", ty::STRING, 1 << 32, &[0; 8]),
        list("array of 2^61 arrays", "array elements in the value", ty::ARRAY, 1 << 61, &[0; 12]),
        list("array with a boolean of 7", "expected a boolean of 0 or 1, found 7", ty::BOOL, 3, &[0, 1, 7]),
        list("array with an endless string", "the value of metadata key key.k", ty::STRING, 2, &strings),
        list("array of arrays of 2^63 bytes", "do not fit", ty::ARRAY, 1, &array(ty::U8, 1 << 63, [0; 8])),
        list("array of arrays of unknown type", "unknown value type 77", ty::ARRAY, 1, &array(77, 1, [0; 8])),
        value("arrays nested 5 deep", "arrays nested deeper than 4", ty::ARRAY, nested(5)),
        value("arrays nested 11 deep", "arrays nested deeper than 4", ty::ARRAY, nested(11)),
    ]
}

fn alignments() -> Vec<Hostile> {
    const KEY: &str = "general.alignment";
    const SAYS: &str = "general.alignment: expected a u32 power of two from 8 to 2097152, found ";
    let number = |name, alignment| writer(name, SAYS, GgufWriter::new().kv_u32(KEY, alignment));
    vec![
        number("alignment 0", 0),
        number("alignment 1", 1),
        number("alignment 3", 3),
        number("alignment 48", 48),
        number("alignment 2^30", 1 << 30),
        number("alignment 2^31", 1 << 31),
        number("alignment of all bits", u32::MAX),
        writer("alignment as i32", SAYS, GgufWriter::new().kv_i32(KEY, 32)),
        writer("alignment as u64", SAYS, GgufWriter::new().kv_u64(KEY, 32)),
        writer("alignment as a float", SAYS, GgufWriter::new().kv_f32(KEY, 32.0)),
        writer("alignment as a string", SAYS, GgufWriter::new().kv_str(KEY, "32")),
        writer("alignment as an array", SAYS, GgufWriter::new().kv_u32s(KEY, &[32])),
        writer("alignment given twice", "general.alignment is given twice", {
            GgufWriter::new().kv_u32(KEY, 32).kv_u32(KEY, 64)
        }),
    ]
}

fn tensor_entries() -> Vec<Hostile> {
    let named =
        |name, says, tensor_name: &[u8]| tensor(name, says, TensorEntry::new(tensor_name, &[2], F32, [0; 8]));
    let dims = |name, says, dims: &[u64]| tensor(name, says, TensorEntry::new("t", dims, F32, [0; 8]));
    let counted = |name, says, n: u32| tensor(name, says, TensorEntry::new("t", &[2], F32, [0; 8]).n_dims(n));
    let typed = |name, says, id, row| tensor(name, says, TensorEntry::new("t", &[row], id, [0; 8]));
    let long =
        |name, len| tensor(name, "name of tensor 0", TensorEntry::new("t", &[2], F32, [0; 8]).name_len(len));
    let twice = GgufWriter::new().padding(8).kv_u32("general.alignment", 8);
    let twice = twice.tensor("t", &[2], F32, [0; 8]).tensor("t", &[2], F32, [0; 8]);
    vec![
        named("tensor without a name", "the name of tensor 0: expected UTF-8", b""),
        named("tensor name that is not UTF-8", "the name of tensor 0: expected UTF-8", b"t\xc3"),
        long("tensor name of 2^32 bytes", 1 << 32),
        long("tensor name of 2^64 - 1 bytes", u64::MAX),
        writer("tensor given twice", "tensor t is given twice", twice),
        counted("tensor of no dimension", "tensor t: expected 1 to 4 dimensions, found 0", 0),
        counted("tensor of 5 dimensions", "tensor t: expected 1 to 4 dimensions, found 5", 5),
        counted("tensor of 1000000 dimensions", "expected 1 to 4 dimensions, found 1000000", 1_000_000),
        counted("tensor of 2^32 - 1 dimensions", "expected 1 to 4 dimensions", u32::MAX),
        dims("row of 0", "tensor t: expected dimensions of at least 1, found [0, 8]", &[0, 8]),
        dims("0 rows", "expected dimensions of at least 1, found [8, 0]", &[8, 0]),
        dims("dimensions whose bytes wrap", "does not fit the file", &[(1 << 42) + 1, 1152]),
        dims("dimensions whose product wraps to 0", "are too large", &[1 << 32, 1 << 32]),
        dims("dimensions whose product wraps to 2", "are too large", &[(1 << 63) + 1, 2]),
        dims("dimensions whose bytes wrap to 0", "are too large", &[1 << 62]),
        dims("dimensions of all bits", "are too large", &[u64::MAX; 4]),
        typed("tensor type 4", "tensor t: unknown tensor type 4", 4, 2),
        typed("tensor type 255", "tensor t: unknown tensor type 255", 255, 2),
        typed("tensor type of all bits", "unknown tensor type 4294967295", u32::MAX, 2),
        typed(
            "row of 31 in blocks of 32",
            "a row of 31 elements is not a whole number of Q4_0 blocks",
            Q4_0,
            31,
        ),
        typed(
            "row of 32 in blocks of 256",
            "a row of 32 elements is not a whole number of Q4_K blocks",
            Q4_K,
            32,
        ),
        typed("row of 1 in unsupported blocks", "not a whole number of IQ2_XXS blocks of 256", 16, 1),
    ]
}

fn tensor_places() -> Vec<Hostile> {
    let at = |name, says, offset| tensor(name, says, TensorEntry::new("t", &[2], F32, [0; 8]).offset(offset));
    let one = |entry| GgufWriter::new().padding(8).kv_u32("general.alignment", 8).tensor_entry(entry);
    let whole = || one(TensorEntry::new("t", &[2], F32, [0; 8]));
    let head = whole().finish().len() - 8;
    let two = |offset| {
        let first = TensorEntry::new("a", &[4], F32, [0; 16]);
        one(first).tensor_entry(TensorEntry::new("b", &[2], F32, [0; 8]).offset(offset))
    };
    const OUTSIDE: &str = "tensor t of 8 bytes at byte";
    vec![
        at("offset of 4", "expected an offset that is a multiple of 8, found 4", 4),
        at("offset past the end", OUTSIDE, 8),
        at("offset of 2^63", OUTSIDE, 1 << 63),
        at("offset that wraps", OUTSIDE, u64::MAX - 7),
        writer("one byte of data missing", OUTSIDE, whole().cut(1)),
        writer("all data missing", OUTSIDE, whole().cut(8)),
        writer("cut in the padding", OUTSIDE, whole().truncate(head - 2)),
        writer("cut in a tensor entry", "the entry of tensor t at byte", whole().truncate(head - 12)),
        writer("tensors at the same place", "tensors a and b overlap at byte", two(0)),
        writer("tensors that overlap", "tensors a and b overlap at byte", two(8)),
    ]
}
