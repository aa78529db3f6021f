use super::*;

#[test]
fn a_small_file_has_the_bytes_of_the_specification() {
    let bytes = GgufWriter::new().kv_u16("ab", 0x0102).tensor_f32("t", &[1], &[1.0]).finish();
    let mut expected = b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
    expected.extend(b"\x02\0\0\0\0\0\0\0ab\x02\0\0\0\x02\x01");
    expected.extend(b"\x01\0\0\0\0\0\0\0t\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(expected.len(), 73);
    expected.resize(96, 0);
    expected.extend(1.0_f32.to_le_bytes());
    expected.resize(128, 0);
    assert_eq!(bytes, expected);
}

#[test]
fn lies_change_what_is_stated_and_nothing_else() {
    let writer = || GgufWriter::new().kv_u8("k", 1).tensor_f32("t", &[1], &[1.0]);
    let honest = writer().finish();
    let changed = |lie: GgufWriter| -> Vec<usize> {
        let bytes = lie.finish();
        assert_eq!(bytes.len(), honest.len());
        (0..honest.len()).filter(|&i| bytes[i] != honest[i]).collect()
    };
    assert_eq!(changed(writer().magic(*b"GGUX")), [3]);
    assert_eq!(changed(writer().version(9)), [4]);
    assert_eq!(changed(writer().claim_tensors(u64::MAX)), [8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(changed(writer().claim_keys(2)), [16]);
    assert_eq!(writer().cut(5).finish(), honest[..honest.len() - 5]);
    assert_eq!(writer().truncate(30).finish(), honest[..30]);
    assert_eq!(writer().append([1, 2]).finish(), [&honest[..], &[1, 2]].concat());
}
