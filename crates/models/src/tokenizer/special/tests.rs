use super::*;
use crate::gguf::GgufFile;
use crate::tokenizer::vocab::Family;
use cera_testkit::gguf::GgufWriter;

/// Control tokens `<a>`, `<a><b>` and `<b>c`, and the user-defined token `xy`.
fn special() -> Special {
    let file = GgufWriter::new()
        .kv_str("general.architecture", "llama")
        .kv_strs("tokenizer.ggml.tokens", ["<a>", "<a><b>", "<b>c", "xy"])
        .kv_i32s("tokenizer.ggml.token_type", &[3, 3, 3, 4])
        .finish();
    let file = GgufFile::parse("toy", file).unwrap();
    Special::new(&Vocab::read(file.meta(), Family::Bytes).unwrap()).unwrap()
}

#[test]
fn the_leftmost_match_wins_and_the_longest_of_those() {
    let special = special();
    let (text, token) = (Part::Text, Part::Token);
    assert_eq!(special.split("<a><b>c", true, None), [token(1), text(6..7)]);
    assert_eq!(special.split("<a>", true, None), [token(0)]);
    assert_eq!(special.split("q<b>cxy", true, None), [text(0..1), token(2), token(3)]);
    assert_eq!(special.split("<a>xy", false, None), [text(0..3), token(3)]);
    assert_eq!(special.split("", true, None), []);
}

#[test]
fn guards_stand_where_control_tokens_begin_or_may_begin() {
    let special = special();
    let guard = Guard::absent_from([]).unwrap();
    for (text, expected) in [
        ("", ""),
        ("plain xy <", "plain xy <#"),
        ("<a>", "<#a>"),
        ("<a><b>c", "<#a><#b>c"),
        ("<b>", "<#b>"),
        ("<b>d", "<b>d"),
        ("é<a", "é<#a"),
    ] {
        assert_eq!(special.guarded(text, guard).replace(guard.char(), "#"), expected, "{text:?}");
    }
}
