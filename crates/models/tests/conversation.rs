//! A conversation with a real model.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use cera_core::CancelToken;
use cera_models::chat::Message;
use cera_models::sampling::SamplingParams;
use cera_models::session::{Conversation, Finish, GenerateOptions, Piece, Session, SessionOptions};
use cera_models::tokenizer::{EncodeOptions, Tokenizer, TokenizerOptions};
use cera_models::{Model, ModelOptions};
use common::TestRuntime;

fn greedy(max_tokens: usize) -> GenerateOptions {
    let sampling = SamplingParams { logprobs: Some(2), ..SamplingParams::greedy() };
    GenerateOptions { sampling, max_tokens: Some(max_tokens), ..GenerateOptions::default() }
}

fn answer(chat: &mut Conversation, options: GenerateOptions) -> (String, Option<Finish>, Vec<Piece>) {
    let mut reply = chat.reply(options).unwrap();
    let pieces: Vec<Piece> = reply.by_ref().map(Result::unwrap).collect();
    (pieces.iter().map(|piece| piece.text.as_str()).collect(), reply.finish(), pieces)
}

#[test]
fn a_real_model_answers_and_what_it_knows_of_the_conversation_is_kept() {
    // An emulated run would take minutes.
    if cera_testkit::emulation::is_brief() {
        return;
    }
    let Some(path) = std::env::var_os("CERA_TEST_SMOLLM2") else { return };
    let runtime = TestRuntime::with_threads(2);
    let model = Arc::new(Model::load(path, runtime.share(), ModelOptions::default()).unwrap());
    let new = || Conversation::new(model.clone(), SessionOptions::default()).unwrap();

    let mut chat = new();
    chat.say("Tell me the capital of France.");
    let (text, finish, pieces) = answer(&mut chat, greedy(40));
    assert!(text.contains("Paris"), "{text}");
    assert!(matches!(finish, Some(Finish::EndOfTurn(_))), "{finish:?}");
    assert_eq!(chat.messages.last(), Some(&Message::new("assistant", text.clone())));
    for piece in &pieces {
        let choice = piece.choice.as_ref().unwrap();
        assert_eq!((Some(choice.top[0].0), choice.logprob), (Some(choice.token), Some(choice.top[0].1)));
    }

    // The second turn computes what is new, and gets what a conversation that begins with it gets.
    let first = chat.session().tokens().len();
    chat.session_mut().reset_stats();
    chat.say("And of Italy?");
    let (second, ..) = answer(&mut chat, greedy(24));
    assert!(chat.session().stats().reused + 2 >= first, "{:?} after {first} tokens", chat.session().stats());
    let mut cold = new();
    cold.messages.extend(chat.messages[..3].to_vec());
    assert_eq!(answer(&mut cold, greedy(24)).0, second);

    // A stop string cuts the same answer; a cancelled one ends at once; a limit of tokens is kept.
    cold.messages.truncate(1);
    let stop = GenerateOptions { stops: vec!["Paris".to_owned()], ..greedy(40) };
    let (cut, finish, _) = answer(&mut cold, stop);
    assert_eq!((cut.as_str(), finish), (&text[..text.find("Paris").unwrap()], Some(Finish::StopString(0))));
    cold.messages.truncate(1);
    let (short, finish, pieces) = answer(&mut cold, greedy(3));
    assert!(text.starts_with(&short) && pieces.len() == 3 && finish == Some(Finish::MaxTokens), "{short}");
    let cancel = CancelToken::new();
    cancel.cancel();
    cold.messages.truncate(1);
    let (none, finish, _) = answer(&mut cold, GenerateOptions { cancel, ..greedy(40) });
    assert_eq!((none.as_str(), finish), ("", Some(Finish::Cancelled)));

    // Text of a message stays text, whatever it looks like.
    let mut plain = new();
    plain.say("Say <|im_end|> now.");
    answer(&mut plain, greedy(1));
    let end = plain.tokenizer().token("<|im_end|>").unwrap();
    let ends = plain.session().tokens().iter().filter(|&&token| token == end).count();
    assert_eq!(ends, 2, "of the system's message and the user's");
}

#[test]
#[ignore = "needs a download: cargo xtask test --full"]
fn gemma_3_continues_a_text() {
    if cera_testkit::emulation::is_on() {
        return;
    }
    let path = std::env::var_os("CERA_TEST_GEMMA3").expect("cargo xtask model gemma3 fetches the model");
    let runtime = TestRuntime::with_threads(2);
    let model = Arc::new(Model::load(path, runtime.share(), ModelOptions::default()).unwrap());
    let tokenizer = Tokenizer::from_gguf(model.file().meta(), &TokenizerOptions::default()).unwrap();
    let mut session = Session::new(model, SessionOptions::default());
    for (prompt, expected) in [
        ("The capital of France is the city of", " Paris."),
        ("1, 2, 3, 4, 5, 6,", " 7, 8, 9, 10, 11"),
        ("Monday, Tuesday, Wednesday,", " Thursday, Friday, Saturday, Sunday"),
    ] {
        session.set_tokens(&tokenizer.encode(prompt, EncodeOptions::default()).unwrap());
        let pieces = session.generate(&tokenizer, greedy(16)).unwrap();
        let text: String = pieces.map(|piece| piece.unwrap().text).collect();
        assert!(text.starts_with(expected), "{prompt}{text}");
    }
}
