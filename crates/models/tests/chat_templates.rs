//! Templates in the shapes of real ones, against what Jinja2 makes of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use cera_models::chat::{ChatError, ChatTemplate, DateTime, Message, RenderOptions, TokenTexts};
use serde_json::{Map, Value};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/chat")
}

/// The messages of a chat of the fixture.
fn messages(chat: &Value) -> Vec<Message> {
    let message = |value: &Value| {
        let mut extra: Map<String, Value> = value.as_object().cloned().expect("a message");
        let role = extra.shift_remove("role").expect("a role");
        let content = extra.shift_remove("content").expect("content");
        let role = role.as_str().expect("a text").to_owned();
        Message { role, content: content.as_str().map(str::to_owned), extra }
    };
    chat.as_array().expect("a list").iter().map(message).collect()
}

#[test]
fn every_shape_renders_as_jinja2_renders_it() {
    let expected = fs::read_to_string(folder().join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let tokens = TokenTexts { bos: Some("<s>".to_owned()), eos: Some("</s>".to_owned()) };
    let date = DateTime::from_ymd(2024, 7, 6).unwrap().at(15, 4, 9).unwrap();
    let (mut failures, mut used) = (Vec::new(), BTreeSet::new());
    for case in expected["cases"].as_array().unwrap() {
        let name = case["template"].as_str().unwrap();
        let source = fs::read_to_string(folder().join(format!("{name}.jinja"))).unwrap();
        let template = ChatTemplate::new(&source, tokens.clone()).unwrap();
        let chat = case["chat"].as_str().unwrap();
        let options = RenderOptions {
            add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap(),
            variables: case["variables"].as_object().unwrap().clone(),
            date: Some(date),
        };
        let found = template.render(&messages(&expected["chats"][chat]), &options);
        let equal = match (&found, case["text"].as_str(), case["raised"].as_str()) {
            (Ok(text), Some(expected), _) => text == expected,
            (Err(ChatError::Raised { message }), _, Some(expected)) => message == expected,
            _ => false,
        };
        if !equal {
            failures.push(format!("{name} with {chat} {options:?}:\n{found:?}\nexpected:\n{case}"));
        }
        used.insert(name.to_owned());
    }
    assert!(failures.is_empty(), "{} differ, the first:\n{}", failures.len(), failures.join("\n"));
    let files = fs::read_dir(folder()).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".jinja").map(str::to_owned)
    });
    assert_eq!(used, files.collect(), "every template has cases");
}
