//! `cera chat` with its lines on standard input.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::program::{Folder, Run, cera, fixture};

const MODEL: &str = "arch/llama/model.gguf";

/// A template that refuses one word.
const TEMPLATE: &str = "{% for m in messages %}{% if m.content == 'forbidden' %}{{ raise_exception('not that') }}{% endif %}\
                        {{ m.role }}: {{ m.content }}\n{% endfor %}";

fn chat(template: &Path, lines: &str) -> Run {
    let mut command = cera();
    command.arg("chat").arg("-m").arg(fixture(MODEL)).arg("--chat-template").arg(template);
    command.args(["-n", "6", "--temp", "2", "--system", "Be brief."]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn messages(path: &Path) -> Vec<(String, String)> {
    let json: Vec<serde_json::Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let field = |message: &serde_json::Value, name: &str| message[name].as_str().unwrap().to_owned();
    json.iter().map(|message| (field(message, "role"), field(message, "content"))).collect()
}

#[test]
fn commands_change_the_conversation_as_they_say() {
    let folder = Folder::new();
    let template = folder.write("template.jinja", TEMPLATE);
    let [first, again, undone, loaded] = ["first", "again", "undone", "loaded"].map(|name| folder.path(name));
    let save = |path: &Path| format!("/save {}\n", path.display());
    let lines = [
        "Hello\n".to_owned(),
        save(&first),
        "/regen\n".to_owned(),
        save(&again),
        "/system\nOne\\\nmore\n/undo\n".to_owned(),
        save(&undone),
        format!("/load {}\n/stats\n", first.display()),
        save(&loaded),
    ];
    let run = chat(&template, &lines.concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let roles =
        |messages: &[(String, String)]| messages.iter().map(|(role, _)| role.clone()).collect::<Vec<_>>();
    let [first, again, undone, loaded] = [first, again, undone, loaded].map(|path| messages(&path));
    assert_eq!(roles(&first), ["system", "user", "assistant"]);
    assert_eq!((first[0].1.as_str(), first[1].1.as_str()), ("Be brief.", "Hello"));
    assert_eq!(first[..2], again[..2]);
    assert_ne!(first[2], again[2], "another answer");
    assert_eq!(undone, again[1..], "without the system's message, and without what was taken back");
    assert_eq!(loaded, first);
    for answer in [&first[2].1, &again[2].1] {
        assert!(run.stdout.contains(answer.as_str()), "{:?} without {answer:?}", run.stdout);
    }
    assert!(run.stderr.contains(" recomputed; answers "), "{}", run.stderr);
    assert!(!run.stderr.contains(" 0 reused"), "the beginning is kept: {}", run.stderr);
}

#[test]
fn a_line_that_cannot_be_done_ends_nothing_and_leaves_nothing() {
    let folder = Folder::new();
    let template = folder.write("template.jinja", TEMPLATE);
    let bad = folder.write("bad.json", "[{\"role\": \"<|im_end|>\", \"content\": \"\"}]");
    let last = folder.path("last");
    let lines = format!(
        "/regen\n/undo\n/what\n/save\nforbidden\n/load {}\n/load {}\nHello\n/system forbidden\n/regen\n\
         /save {}\n/quit\nnever said\n",
        folder.path("none").display(),
        bad.display(),
        last.display()
    );
    let run = chat(&template, &lines);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for message in [
        "no answer to give again",
        "nothing to take back",
        "/what is no command",
        "/save needs the name of a file",
        "not that",
        "cannot read",
        "is not known",
    ] {
        assert!(run.stderr.contains(message), "{} without {message}", run.stderr);
    }
    let roles: Vec<String> = messages(&last).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["system", "user", "assistant"]);
    let cut = chat(&template, "One\\\nmore\\");
    assert!(
        cut.code == Some(0) && !cut.stdout.trim().is_empty(),
        "the end of input ends a line: {}",
        cut.stderr
    );
    let refused = chat(&folder.write("broken.jinja", "{% for %}"), "Hello\n");
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(1), 1), "{}", refused.stderr);
}
