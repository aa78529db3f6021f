use super::*;

fn words(name: &str, text: &str) -> Vec<String> {
    let splitter = Splitter::new(find(name).expect("a known name")).unwrap();
    splitter.words(text).unwrap().into_iter().map(|word| text[word].to_owned()).collect()
}

#[test]
fn every_pattern_compiles_and_every_name_is_there_once() {
    let mut names: Vec<&str> = TABLE.iter().flat_map(|pre| pre.names).copied().collect();
    assert!(TABLE.iter().all(|pre| Splitter::new(pre).is_ok()));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(find(FALLBACK).is_some() && find("made-up").is_none());
}

#[test]
fn words_are_the_text_and_none_is_empty() {
    let text = " It's 12345\r\n\n  café 中文、 x==1;\t'LL\u{301} ไทย ١٢٣ 😀😀  ";
    for name in TABLE.iter().flat_map(|pre| pre.names) {
        for text in ["", " ", "a", "\n\n", text] {
            let words = words(name, text);
            assert!(words.concat() == text && words.iter().all(|word| !word.is_empty()), "{name} {words:?}");
        }
    }
}

#[test]
fn words_are_those_of_the_published_patterns() {
    let cases: [(&str, &str, &[&str]); 10] = [
        ("gpt-2", "I'LL go  12x\n y", &["I", "'", "LL", " go", " ", " 12", "x", "\n", " y"]),
        ("llama-bpe", "I'LL go  1234\n\n y", &["I", "'LL", " go", " ", " ", "123", "4", "\n\n", " y"]),
        ("qwen2", "a.b 12", &["a", ".b", " ", "1", "2"]),
        ("qwen35", "e\u{301}te", &["e\u{301}te"]),
        ("qwen2", "e\u{301}te", &["e", "\u{301}te"]),
        ("gpt-4o", "HelloWorld's", &["Hello", "World's"]),
        ("tekken", "HelloWorld's", &["Hello", "World", "'s"]),
        ("deepseek-coder", "a\nb 12.", &["a", "\n", "b", " ", "1", "2", "."]),
        ("falcon", "a 12345$b", &["a", " ", "123", "45", "$", "b"]),
        ("default", "it's 12345", &["it", "'", "s", " ", "123", "45"]),
    ];
    for (name, text, expected) in cases {
        assert_eq!(words(name, text), expected, "{name} {text:?}");
    }
}
