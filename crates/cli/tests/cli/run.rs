//! `cera run` on small models whose answers mean nothing but are always the same.

use crate::program::{Folder, fixture, run};

const MODEL: &str = "arch/llama/model.gguf";

/// A template that writes roles and contents and nothing else.
const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";

#[test]
fn the_answer_streams_to_standard_output_and_the_timing_to_standard_error() {
    let model = fixture(MODEL);
    let answer = run(&[&"run", &"-m", &model, &"--raw", &"-p", &"Hello", &"-n", &"8", &"--temp", &"0"]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    assert!(answer.stdout.len() > 1 && answer.stdout.ends_with('\n'), "{:?}", answer.stdout);
    assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
    for part in ["load ", "prompt ", "answer 8 tokens", "(length)", "context ", "MB when full"] {
        assert!(answer.stderr.contains(part), "{} without {part}", answer.stderr);
    }
    let quiet = run(&[&"run", &"-m", &model, &"--raw", &"-p", &"Hello", &"-n", &"8", &"--temp", &"0", &"-q"]);
    assert_eq!((quiet.stdout, quiet.stderr.as_str()), (answer.stdout, ""));
}

#[test]
fn json_says_the_same_and_a_stop_string_cuts_the_answer() {
    let (model, folder) = (fixture(MODEL), Folder::new());
    let template = folder.write("template.jinja", TEMPLATE);
    let answer = |more: &[&str]| {
        let mut args: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![
            &"run",
            &"-m",
            &model,
            &"--chat-template",
            &template,
            &"-p",
            &"Hello",
            &"-n",
            &"24",
            &"--json",
        ];
        args.extend(more.iter().map(|arg| arg as &dyn AsRef<std::ffi::OsStr>));
        let json: serde_json::Value = serde_json::from_str(&run(&args).success()).unwrap();
        json
    };
    let whole = answer(&["--temp", "0"]);
    assert_eq!((&whole["finish"], &whole["generated_tokens"]), (&"length".into(), &24.into()));
    let text = whole["text"].as_str().unwrap();
    let middle: String = text.chars().skip(text.chars().count() / 2).take(3).collect();
    let cut = answer(&["--temp", "0", "--stop", &middle]);
    assert_eq!(cut["finish"], "stop");
    assert_eq!(cut["text"], text[..text.find(&middle).unwrap()], "cut before {middle:?}");
    let dashes = answer(&["--temp", "0", "--system", "- a list", "--stop", "---"]);
    assert_eq!(dashes["finish"], "length");
    let seeds =
        ["1", "1", "2"].map(|seed| answer(&["--temp", "2", "--top-k", "0", "--seed", seed])["text"].clone());
    assert!(seeds[0] == seeds[1] && seeds[0] != seeds[2], "{seeds:?}");
    let system = answer(&["--temp", "0", "--system", "Be brief."]);
    assert!(system["prompt_tokens"].as_u64() > whole["prompt_tokens"].as_u64());
}

#[test]
fn a_prompt_cache_is_taken_up_and_changes_no_answer() {
    let (model, folder) = (fixture(MODEL), Folder::new());
    let cache = folder.path("cache");
    let answer = |prompt: &str| {
        let args: [&dyn AsRef<std::ffi::OsStr>; 13] = [
            &"run",
            &"-m",
            &model,
            &"--raw",
            &"-p",
            &prompt,
            &"-n",
            &"6",
            &"--temp",
            &"0",
            &"--json",
            &"--prompt-cache",
            &cache,
        ];
        let json: serde_json::Value = serde_json::from_str(&run(&args).success()).unwrap();
        json
    };
    let first = answer("A long enough beginning, and an end");
    let second = answer("A long enough beginning, and another end");
    let again = answer("A long enough beginning, and an end");
    assert_eq!(first["reused_tokens"], 0);
    assert!(second["reused_tokens"].as_u64() > Some(5), "{second}");
    assert_eq!(first["text"], again["text"]);
    std::fs::write(&cache, "something else ".repeat(10)).unwrap();
    let refused = run(&[&"run", &"-m", &model, &"--raw", &"-p", &"x", &"--prompt-cache", &cache]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("not a session file"), "{}", refused.stderr);
}

#[test]
fn what_cannot_be_answered_is_one_line() {
    let (model, folder) = (fixture(MODEL), Folder::new());
    let refusing = folder.write("refusing.jinja", "{{ raise_exception('only haiku') }}");
    let broken = folder.write("broken.jinja", "{% for %}");
    let failure = |args: &[&dyn AsRef<std::ffi::OsStr>], message: &str| {
        let mut all: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"run", &"-m", &model];
        all.extend(args);
        let done = run(&all);
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        assert!(done.stderr.contains(message), "{} without {message}", done.stderr);
    };
    failure(&[&"-p", &""], "the prompt is empty");
    failure(&[&"-p", &"x", &"--temp", &"-1"], "temperature is -1");
    failure(&[&"-p", &"x", &"--top-p", &"nan"], "top_p is NaN");
    failure(&[&"-f", &folder.path("none")], "cannot read");
    failure(&[&"-p", &"x", &"--chat-template", &refusing], "only haiku");
    failure(&[&"-p", &"x", &"--chat-template", &broken], "error in line 1");
    failure(&[&"--raw", &"-p", &"a b c d e f g", &"-c", &"3"], "the context is full");
}

#[test]
fn a_full_context_ends_the_answer_or_shifts_when_asked_to() {
    let model = fixture(MODEL);
    let args: [&dyn AsRef<std::ffi::OsStr>; 10] =
        [&"run", &"-m", &model, &"--raw", &"-p", &"Hello", &"-c", &"16", &"--temp", &"0"];
    let with = |more: &[&'static str]| {
        let mut all = args.to_vec();
        all.extend(more.iter().map(|arg| arg as &dyn AsRef<std::ffi::OsStr>));
        run(&all)
    };
    let answer = |more: &[&'static str]| {
        let json: serde_json::Value = serde_json::from_str(&with(more).success()).unwrap();
        json
    };
    let cut = answer(&["--json"]);
    let tokens = |name: &str, of: &serde_json::Value| of[name].as_u64().unwrap();
    assert_eq!(cut["finish"], "length");
    assert_eq!(tokens("prompt_tokens", &cut) + tokens("generated_tokens", &cut), 17, "{cut}");
    let shifted = answer(&["-n", "24", "--context-shift", "--keep", "2", "--json"]);
    assert_eq!(
        (&shifted["finish"], &shifted["generated_tokens"]),
        (&"length".into(), &24.into()),
        "{shifted}"
    );
    assert!(tokens("dropped_tokens", &shifted) > 0 && tokens("recomputed_tokens", &shifted) > 0, "{shifted}");
    let shown = with(&["-n", "24", "--context-shift"]);
    assert!(shown.stderr.contains(" recomputed, ") && shown.stderr.contains(" dropped)"), "{}", shown.stderr);
    let message = with(&["--context-shift", "--keep", "16"]).failure();
    assert_eq!(message, "--keep 16 leaves no room in a context of 16 tokens");
    with(&["--keep", "2"]).wrong_usage();
}
