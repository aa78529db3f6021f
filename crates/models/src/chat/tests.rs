use cera_testkit::gguf::GgufWriter;
use serde_json::{Map, json};

use super::*;
use crate::gguf::GgufFile;

/// A template without token texts.
fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, TokenTexts::default()).unwrap()
}

/// What a template without messages renders.
fn shown(source: &str) -> Result<String, ChatError> {
    let date = DateTime::from_ymd(2024, 7, 6);
    template(source).render(&[], &RenderOptions { date, ..RenderOptions::default() })
}

fn extra(value: serde_json::Value) -> Map<String, serde_json::Value> {
    value.as_object().unwrap().clone()
}

const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content | trim + \
                      '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

fn file(writer: &GgufWriter) -> GgufFile {
    GgufFile::parse("m.gguf", writer.finish()).unwrap()
}

#[test]
fn case_56_what_real_templates_use_works() {
    // The corpus of shapes is in tests/chat_templates.rs; these are the single features.
    let cases = [
        ("{{ [1, 2, 3][::-1] | join }}", "321"),
        (
            "{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
            "3",
        ),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m('a') }}", "<a>"),
        ("{{ {'b': 'é<', 'a': [1, 2.0]} | tojson }}", "{\"b\": \"é<\", \"a\": [1, 2.0]}"),
        ("{{ strftime_now('%d %b %Y, %A') }}", "06 Jul 2024, Saturday"),
        (
            "{% for i in ['a', 'b'] %}{{ loop.previtem ~ loop.nextitem if loop.last else '' }}{% endfor %}",
            "a",
        ),
        ("{{ ' x '.strip() ~ 'a,b'.split(',')[-1] ~ 'abc'.startswith('ab') }}", "xbTrue"),
        ("{% if true %}\n  a\n  {% endif %}\nb\n", "  a\nb"),
    ];
    for (source, expected) in cases {
        assert_eq!(shown(source).unwrap(), expected, "{source}");
    }
    let raised = shown("{{ raise_exception('roles must alternate') }}").unwrap_err();
    assert!(
        matches!(&raised, ChatError::Raised { message } if message == "roles must alternate"),
        "{raised:?}"
    );
    assert_eq!(raised.to_string(), "the chat template refuses the messages: roles must alternate");
    let nested = shown(
        "{% macro m() %}{% for i in [1] %}{{ raise_exception('deep') }}{% endfor %}{% endmacro %}{{ m() }}",
    );
    assert!(matches!(nested, Err(ChatError::Raised { message }) if message == "deep"));
}

#[test]
fn case_56_null_content_is_tolerated() {
    let call = json!({"tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]});
    let null = Message { role: "assistant".to_owned(), content: None, extra: extra(call) };
    let render =
        |source: &str| template(source).render(std::slice::from_ref(&null), &RenderOptions::default());
    // A template that knows of none sees none.
    let aware = "{% for m in messages %}{% if m.content is none %}calls {{ m.tool_calls[0].function.arguments | tojson }}\
                 {% else %}says {{ m.content }}{% endif %}{% endfor %}";
    assert_eq!(render(aware).unwrap(), "calls {\"x\": 1}");
    // Those that would fail, refuse, or write "None", get the empty text.
    for unaware in ["'[' + m.content + ']'", "'[' ~ m.content ~ ']'", "'[' ~ m.content | trim ~ ']'"] {
        let source = format!("{{% for m in messages %}}{{{{ {unaware} }}}}{{% endfor %}}");
        assert_eq!(render(&source).unwrap(), "[]", "{unaware}");
    }
    let strict = "{% if messages[0].content is not string %}{{ raise_exception('no text') }}{% endif %}ok";
    assert_eq!(render(strict).unwrap(), "ok");
    // An error that has another cause stays what it is.
    assert!(
        matches!(render("{{ raise_exception('no') }}"), Err(ChatError::Raised { message }) if message == "no")
    );
    assert_eq!(
        template(CHATML).render(&[null], &RenderOptions::default()).unwrap(),
        "<|im_start|>assistant\n<|im_end|>\n"
    );
}

#[test]
fn case_57_there_is_no_fallback() {
    // Missing, empty and blank are none, for the caller to decide.
    let base = || GgufWriter::new().kv_str("general.architecture", "llama");
    let blank = |text| base().kv_str("tokenizer.chat_template", text);
    for writer in [base(), blank(""), blank(" \n\t")] {
        assert!(ChatTemplate::from_gguf(file(&writer).meta()).unwrap().is_none());
    }
    // A syntax error is an error, with its line.
    let wrong = blank("first line\n{% for message in messages %}\n{{ message.content }\n{% endfor %}");
    let error = ChatTemplate::from_gguf(file(&wrong).meta()).unwrap_err();
    let ChatError::Syntax { line, message } = &error else { panic!("{error:?}") };
    assert_eq!(*line, 3);
    assert!(message.starts_with("syntax error: unexpected"), "{message}");
    assert!(
        error.to_string().starts_with("the chat template has an error in line 3: syntax error:"),
        "{error}"
    );
    for unknown in ["{% frobnicate %}", "{% include 'x' %}", "{{ 1 +", "{% if %}", "{{ 'a }}"] {
        assert!(matches!(
            ChatTemplate::new(unknown, TokenTexts::default()),
            Err(ChatError::Syntax { line: 1, .. })
        ));
    }
    // What fails while it renders is an error with its line, too.
    for (failing, line) in
        [("{{ 1 | nofilter }}", 1), ("\n{{ no_function() }}", 2), ("\n\n{{ missing.attribute }}", 3)]
    {
        let error = shown(failing).unwrap_err();
        assert!(matches!(error, ChatError::Render { line: at, .. } if at == line), "{failing}: {error:?}");
    }
    // The key has to be text.
    let number = base().kv_u32("tokenizer.chat_template", 1);
    assert!(matches!(ChatTemplate::from_gguf(file(&number).meta()), Err(ChatError::Gguf(_))));
}

#[test]
fn token_texts_come_from_the_vocabulary() {
    let writer = |bos: u32| {
        GgufWriter::new()
            .kv_str("general.architecture", "llama")
            .kv_str("tokenizer.chat_template", "{{ bos_token }}-{{ eos_token }}-{{ eos_token is defined }}")
            .kv_strs("tokenizer.ggml.tokens", ["<s>", "a"])
            .kv_u32("tokenizer.ggml.bos_token_id", bos)
    };
    let read = |bos| ChatTemplate::from_gguf(file(&writer(bos)).meta());
    let template = read(0).unwrap().unwrap();
    assert_eq!(template.render(&[], &RenderOptions::default()).unwrap(), "<s>--False");
    let error = read(2).unwrap_err().to_string();
    assert_eq!(
        error,
        "m.gguf: metadata key tokenizer.ggml.bos_token_id: expected an id below 2, found u32 2"
    );
}

#[test]
fn variables_take_precedence_but_for_the_messages() {
    let source = "{{ enable_thinking }}{{ bos_token }}{{ tools | length }}{{ messages | length }}{{ documents is none }}";
    let tokens = TokenTexts { bos: Some("<s>".to_owned()), eos: None };
    let variables = extra(json!({"enable_thinking": false, "bos_token": "B", "tools": [1], "messages": "x"}));
    let options = RenderOptions { variables, ..RenderOptions::default() };
    let text = ChatTemplate::new(source, tokens).unwrap().render(&[Message::new("user", "a")], &options);
    assert_eq!(text.unwrap(), "FalseB11True");
}

#[test]
fn hostile_templates_meet_limits() {
    let work = [
        "{% for i in range(9999) %}{% for j in range(9999) %}{% set x = 1 %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set x = 'a' * 90000000 %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(12) %}{% set ns.x = [ns.x] * 10 %}{% endfor %}{{ ns.x | tojson }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(20) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | tojson }}",
        "{{ '%900000000d' | format(1) }}",
        "{{ '{:900000000}'.format('a') | length }}",
        "{{ [1, 2] | batch(900000000, 'x') | list | length }}",
        "{{ 'a\nb' | indent(900000000) }}",
        "{{ ('a ' * 100000).split() | join('a' * 100000) }}",
        "{{ ('a' * 10000).replace('a', 'b' * 100000) | length }}",
    ];
    for source in work {
        let result = shown(source);
        assert!(matches!(result, Err(ChatError::Limit { what: "work" })), "{source}: {result:?}");
    }
    let output = "{% for i in range(9999) %}{{ 'a' * 1000 }}{% endfor %}";
    assert!(matches!(shown(output), Err(ChatError::Limit { what: "the rendered text's size" })));
    let size = ChatTemplate::new(&"a".repeat((1 << 20) + 1), TokenTexts::default());
    assert!(matches!(size, Err(ChatError::Limit { what: "the template's size" })));
    let endless = shown("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
    assert!(matches!(&endless, Err(ChatError::Render { .. })), "{endless:?}");
    let parens = format!("{{{{ {}1{} }}}}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(ChatTemplate::new(&parens, TokenTexts::default()).is_err());
    // Long conversations pay for themselves.
    let long: Vec<Message> =
        (0..5000).map(|i| Message::new("user", format!("message {i} ").repeat(50))).collect();
    assert!(template(CHATML).render(&long, &RenderOptions::default()).unwrap().len() > 3_000_000);
}

#[test]
fn deeply_nested_values_do_not_overflow_the_stack() {
    // As deep as the budget allows: 60 levels at a time.
    let (open, close) = ("[".repeat(60), "]".repeat(60));
    let nested = |name: &str| {
        format!("{{% for i in range(400) %}}{{% set ns.{name} = {open}ns.{name}{close} %}}{{% endfor %}}")
    };
    let nest = format!("{{% set ns = namespace(x=[], y=[]) %}}{}{}", nested("x"), nested("y"));
    let cases = [
        ("done", "done"),
        ("{{ (ns.x | string | length) > 40000 }}", "True"),
        ("{{ (ns.x ~ '') | length > 40000 }}", "True"),
        ("{{ ns.x == ns.y }}", "True"),
        ("{{ [ns.x, ns.y] | sort | length }}", "2"),
    ];
    for (source, expected) in cases {
        assert_eq!(shown(&format!("{nest}{source}")).unwrap(), expected, "{source}");
    }
    assert!(shown(&format!("{nest}{{{{ ns.x }}}}")).unwrap().starts_with("[[[["));
    assert!(matches!(shown(&format!("{nest}{{{{ ns.x | tojson }}}}")), Err(ChatError::Render { .. })));
}

#[test]
fn dates_are_those_of_the_calendar() {
    // Days since 1970-01-01, counted one by one from 1600 to 2400.
    let days_of = |year: i32, month: u32| match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let mut date = DateTime::from_ymd(1600, 1, 1).unwrap();
    assert_eq!(date.format("%A"), Ok("Saturday".to_owned()));
    for year in 1600..2400 {
        let mut day_of_year = 0;
        for month in 1..=12 {
            for day in 1..=days_of(year, month) {
                day_of_year += 1;
                assert_eq!(Some(date), DateTime::from_ymd(year, month, day));
                let expected = format!("{year:04}-{month:02}-{day:02} {day_of_year:03}");
                assert_eq!(date.format("%F %j"), Ok(expected));
                date = date.next_day();
            }
            assert_eq!(DateTime::from_ymd(year, month, days_of(year, month) + 1), None);
        }
    }
    assert_eq!(DateTime::from_ymd(1970, 1, 1).unwrap().format("%a %H"), Ok("Thu 00".to_owned()));
    for (y, m, d) in [(0, 1, 1), (2024, 0, 1), (2024, 13, 1), (2024, 1, 0), (10_000, 1, 1)] {
        assert_eq!(DateTime::from_ymd(y, m, d), None);
    }
    assert_eq!(DateTime::from_ymd(2024, 1, 1).unwrap().at(24, 0, 0), None);
    let noon = DateTime::from_ymd(2024, 1, 1).unwrap();
    for (hour, expected) in [(0, "12AM"), (1, "1AM"), (12, "12PM"), (23, "11PM")] {
        assert_eq!(noon.at(hour, 0, 0).unwrap().format("%-I%p"), Ok(expected.to_owned()));
    }
    assert_eq!(noon.format("%Q"), Err("%Q".to_owned()));
    assert_eq!(noon.format("100%"), Err("%".to_owned()));
    assert!(DateTime::now_utc() > noon);
}
