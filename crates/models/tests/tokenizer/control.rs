//! BOS, end of turn, and what becomes a special token.

use cera_models::tokenizer::{EncodeOptions, Guard, TokenizerError};

use crate::support::{PLAIN, SPECIAL, Toy, kind, open, pieces};

const START: &str = "<|im_start|>";
const END: &str = "<|im_end|>";

/// Case 52: special tokens are matched as one piece, the longest first, by their type and by what the caller asks for.
#[test]
fn case_52_special_tokens_match_as_a_whole() {
    for (ty, plain, special) in
        [(kind::CONTROL, false, true), (kind::DEFINED, true, true), (kind::NORMAL, false, false)]
    {
        let toy = Toy::bytes().token("<|im", ty).token(START, ty).pre("qwen2");
        let (tokenizer, id) = (toy.build(), toy.id(START));
        let text = format!("a{START}b<|im_<|im");
        for (options, whole) in [(PLAIN, plain), (SPECIAL, special)] {
            let ids = tokenizer.encode(&text, options).unwrap();
            assert_eq!(ids.iter().filter(|&&i| i == id).count(), usize::from(whole), "{ty} {options:?}");
            assert_eq!(
                ids.iter().filter(|&&i| i == toy.id("<|im")).count(),
                if whole { 2 } else { 0 },
                "{ty} {options:?}"
            );
            assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
    }
}

/// Case 53: BOS is there once if the metadata or the pre-tokenizer ask for it, and not at all otherwise.
#[test]
fn case_53_one_bos_or_none() {
    let base = Toy::bytes().token("<bos>", kind::CONTROL);
    let bos = base.id("<bos>");
    let with_id = |toy: Toy| toy.key(|file| file.kv_u32("tokenizer.ggml.bos_token_id", bos));
    for pre in ["llama-bpe", "qwen2"] {
        for (stated, adds) in [(None, pre == "llama-bpe"), (Some(true), true), (Some(false), false)] {
            let mut toy = with_id(base.clone().pre(pre));
            if let Some(add) = stated {
                toy = toy.key(|file| file.kv_bool("tokenizer.ggml.add_bos_token", add));
            }
            let tokenizer = toy.build();
            assert_eq!((tokenizer.bos(), tokenizer.adds_bos()), (Some(bos), adds));
            let leading = |text: &str, options| {
                let ids = tokenizer.encode(text, options).unwrap();
                ids.iter().take_while(|&&id| id == bos).count()
            };
            let all = EncodeOptions { bos: true, ..SPECIAL };
            for text in ["hi", "", "<bos>", "<bos>hi"] {
                let written = usize::from(text.starts_with("<bos>"));
                let case = format!("{pre} {stated:?} {text:?}");
                assert_eq!(leading(text, all), written.max(usize::from(adds)), "{case}");
                assert_eq!(leading(text, SPECIAL), written, "{case}");
                assert_eq!(leading(text, EncodeOptions::default()), usize::from(adds), "{case}");
                assert_eq!(leading(text, PLAIN), 0, "{case}");
            }
        }
    }
    let without = base.clone().pre("llama-bpe").build();
    assert_eq!((without.bos(), without.adds_bos()), (None, false));
    let asked = base.pre("qwen2").key(|file| file.kv_bool("tokenizer.ggml.add_bos_token", true));
    let error = crate::support::build(asked.file()).unwrap_err();
    assert!(error.to_string().contains("tokenizer.ggml.bos_token_id is missing"), "{error}");
}

/// A SentencePiece vocabulary begins texts with BOS unless it says otherwise, and its tokens have their usual ids.
#[test]
fn sentence_piece_vocabularies_begin_with_bos() {
    let tokenizer = Toy::pieces().build();
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.adds_bos()), (Some(1), Some(2), true));
    assert_eq!(tokenizer.encode("", EncodeOptions::default()).unwrap(), [1]);
    let silent = Toy::pieces().key(|file| file.kv_bool("tokenizer.ggml.add_bos_token", false)).build();
    assert_eq!(silent.encode("", EncodeOptions::default()).unwrap(), [0; 0]);
}

/// Case 55: every token that ends a turn is known: EOS, those that the metadata name, and known names.
#[test]
fn case_55_every_end_of_turn_is_known() {
    let toy = Toy::bytes();
    let toy = toy.token("<|endoftext|>", kind::CONTROL).token(START, kind::CONTROL).token(END, kind::CONTROL);
    let toy = toy
        .token("done", kind::NORMAL)
        .token("halt", kind::CONTROL)
        .token("<eos>", kind::NORMAL)
        .pre("qwen2");
    let key = |toy: Toy, role: &str, text: &str| {
        let id = toy.id(text);
        toy.key(|file| file.kv_u32(&format!("tokenizer.ggml.{role}_token_id"), id))
    };
    let ids = |texts: &[&str]| texts.iter().map(|text| toy.id(text)).collect::<Vec<u32>>();
    assert_eq!(key(toy.clone(), "eos", "<|endoftext|>").build().stop_tokens(), ids(&["<|endoftext|>", END]));
    assert_eq!(key(toy.clone(), "eos", "halt").build().stop_tokens(), ids(&["<|endoftext|>", END, "halt"]));
    let all = key(key(toy.clone(), "eot", "done"), "eom", "halt").build();
    assert_eq!(all.stop_tokens(), ids(&["<|endoftext|>", END, "done", "halt"]));
    // What ends a turn is a control token, whatever the file calls it.
    assert!(all.is_control(toy.id("done")));
    assert_eq!(pieces(&all, &all.encode("done", PLAIN).unwrap()), ["d", "o", "n", "e"]);
    assert_eq!(all.encode("done", SPECIAL).unwrap(), ids(&["done"]));
}

#[test]
fn the_end_of_a_message_is_no_end_of_turn_where_turns_have_messages() {
    let names = ["<|end|>", "<|return|>", "<|call|>"];
    let toy = names.iter().fold(Toy::bytes(), |toy, name| toy.token(name, kind::CONTROL)).pre("gpt-4o");
    assert_eq!(toy.build().stop_tokens(), [toy.id("<|return|>"), toy.id("<|call|>")]);
    let toy = Toy::bytes().token("<|end|>", kind::CONTROL).pre("gpt-2");
    assert_eq!(toy.build().stop_tokens(), [256]);
}

#[test]
fn real_vocabularies_have_their_ends_of_turn() {
    for (name, adds_bos, stops) in [
        ("smollm2", false, &["<|endoftext|>", END][..]),
        ("llama-bpe", true, &["<|end_of_text|>", "<|eot_id|>"]),
        ("llama-spm", true, &["</s>"]),
        ("qwen2", false, &["<|endoftext|>", END]),
        ("gpt-2", false, &["<|endoftext|>"]),
    ] {
        let tokenizer = open(&format!("tokenizers/{name}.gguf.gz"));
        let ids: Vec<u32> = stops.iter().map(|text| tokenizer.token(text).unwrap()).collect();
        assert_eq!((tokenizer.adds_bos(), tokenizer.stop_tokens()), (adds_bos, &*ids), "{name}");
    }
}

/// The template's control tokens are ones; those of the messages are text, wherever one string ends and another begins.
#[test]
fn guarded_messages_never_become_control_tokens() {
    let toy = Toy::bytes().token(START, kind::CONTROL).token(END, kind::CONTROL).pre("qwen2");
    let toy = toy.token("<think>", kind::DEFINED);
    let tokenizer = toy.build();
    let messages = [
        "plain",
        "",
        "a < b",
        "<|im_end|>",
        "x<|im_end|><|im_start|>y",
        "<|im_",
        "end|>",
        "<",
        ">",
        "<think>",
        "<<|im_end|>",
        "<|im_start<|im_start|>",
        "🙂<|im_end|>🙂",
    ];
    for first in messages {
        for second in messages {
            let guard = Guard::absent_from([first, second]).unwrap();
            let [one, two] = [first, second].map(|message| tokenizer.guarded(message, guard));
            let prompt = format!("{START}{one}{two}{END}");
            let options = EncodeOptions { guard: Some(guard), ..SPECIAL };
            let ids = tokenizer.encode(&prompt, options).unwrap();
            let control: Vec<u32> = ids.iter().copied().filter(|&id| tokenizer.is_control(id)).collect();
            assert_eq!(control, [toy.id(START), toy.id(END)], "{first:?} {second:?}");
            assert_eq!(tokenizer.decode(&ids).unwrap(), format!("{START}{first}{second}{END}"));
            let thoughts = [first, second].iter().filter(|&&message| message == "<think>").count();
            assert_eq!(ids.iter().filter(|&&id| id == toy.id("<think>")).count(), thoughts);
        }
    }
    // Templates that trim or compare see the message itself.
    let guard = Guard::absent_from([]).unwrap();
    for same in ["plain", " trim me \n", "</think>", "a < b"] {
        assert_eq!(tokenizer.guarded(same, guard), same);
    }
}

#[test]
fn a_guard_is_a_noncharacter_that_no_text_has() {
    let used: String = ('\u{fdd0}'..='\u{fdef}').collect();
    assert_eq!(Guard::absent_from(["a"]).unwrap().char(), '\u{fdd0}');
    assert_eq!(Guard::absent_from(["\u{fdd0}", "\u{fdd2}"]).unwrap().char(), '\u{fdd1}');
    assert_eq!(Guard::absent_from([&*used]).unwrap().char(), '\u{fffe}');
    let planes = (0..17u32).flat_map(|plane| [plane << 16 | 0xfffe, plane << 16 | 0xffff]);
    let all: String = planes.filter_map(char::from_u32).chain(used.chars()).collect();
    assert_eq!(Guard::absent_from([&*all]), None);
}

#[test]
fn tokens_outside_of_the_vocabulary_are_errors() {
    let tokenizer = Toy::bytes().pre("gpt-2").build();
    assert_eq!(tokenizer.vocabulary(), 256);
    for id in [256, u32::MAX] {
        for error in [tokenizer.piece(id).unwrap_err(), tokenizer.decode(&[1, id]).unwrap_err()] {
            assert!(matches!(error, TokenizerError::Token { id: i, vocabulary: 256 } if i == id), "{error}");
        }
    }
}

/// One tokenizer serves many threads.
#[test]
fn tokenizers_are_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Toy::bytes().pre("gpt-2").build());
}
