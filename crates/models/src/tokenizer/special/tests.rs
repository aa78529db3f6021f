use super::*;
use crate::gguf::GgufFile;
use crate::tokenizer::vocab::Family;
use cera_testkit::gguf::GgufWriter;

/// Control tokens `<a>`, `<a><b>` and `<b>c`, and the user-defined tokens `xy` and `<b>cz`.
fn special() -> Special {
    special_of(&["<a>", "<a><b>", "<b>c", "xy", "<b>cz"], &[3, 3, 3, 4, 4])
}

fn special_of(tokens: &[&str], types: &[i32]) -> Special {
    let file = GgufWriter::new()
        .kv_str("general.architecture", "llama")
        .kv_strs("tokenizer.ggml.tokens", tokens)
        .kv_i32s("tokenizer.ggml.token_type", types)
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
        ("<a \n", "<#a \n"),
        (" <\u{a0}", " <#\u{a0}"),
        ("<a x", "<a x"),
        (" \n", " \n"),
        ("<b>cz", "<#b>cz"),
        ("z<a>z", "z<#a>z"),
    ] {
        assert_eq!(special.guarded(text, guard).replace(guard.char(), "#"), expected, "{text:?}");
    }
}

/// Control tokens that are, begin or end with white space are kept from matching, whatever is trimmed.
#[test]
fn white_space_that_may_be_a_control_token_is_guarded() {
    let special = special_of(&["\n", " <a>", "<b> c"], &[3, 3, 3]);
    let guard = Guard::absent_from([]).unwrap();
    for (text, expected) in [
        ("a\n\nb", "a\n#\n#b"),
        ("a  ", "a # #"),
        ("<b> ", "<#b> #"),
        ("<b>  x", "<b>  x"),
        ("x <a>", "x #<a>"),
    ] {
        assert_eq!(special.guarded(text, guard).replace(guard.char(), "#"), expected, "{text:?}");
    }
}

/// No token has the guard or the character before it; what is around them matches as if they were the end.
#[test]
fn guards_and_what_they_mark_are_text() {
    let special = special();
    let (text, token) = (Part::Text, Part::Token);
    let guard = Guard::absent_from([]).unwrap();
    for (marked, expected) in [
        ("<#a>", vec![text(0..6)]),
        ("x#y", vec![text(0..5)]),
        ("<a><#b>", vec![token(0), text(3..9)]),
        ("<a>#<a>", vec![text(0..6), token(0)]),
        ("#<a>", vec![text(0..3), token(0)]),
        ("<a><##b>xy", vec![token(0), text(3..12), token(3)]),
        ("<#<a>é#<b>c", vec![text(0..4), token(0), text(7..12), token(2)]),
        ("#", vec![text(0..3)]),
    ] {
        let marked = marked.replace('#', &guard.char().to_string());
        assert_eq!(special.split(&marked, true, Some(guard)), expected, "{marked:?}");
    }
}
