//! The template engine, set up as `transformers` sets up Jinja.

use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, Value};

use super::error::raised;
use super::{ChatError, DateTime, json, python};

/// The name of the template in the engine.
const NAME: &str = "chat_template";
/// The most bytes of a template.
const MAX_SOURCE: usize = 1 << 20;
/// The steps of a render, each worth 64 bytes of memory, besides those that its messages pay for.
const BASE_FUEL: u64 = 100_000;
/// The steps that a message pays for, besides those for its bytes. Real templates take about 100.
const MESSAGE_FUEL: u64 = 500;
/// The bytes of messages that pay for a step: each can be copied 16 times.
const BYTES_PER_STEP: u64 = 4;
/// The stack of a render besides that for its steps.
const BASE_STACK: usize = 4 << 20;
/// The stack per step: a step can put a list into another one, and the engine walks nested lists by recursion.
const STACK_PER_STEP: usize = 640;
/// The largest stack. Only what is touched takes memory.
const MAX_STACK: usize = 1 << 30;
/// The bytes of output besides four times those of the messages.
const BASE_OUTPUT: usize = 4 << 20;

/// How large the input of a render is.
#[derive(Debug, Clone, Copy)]
pub(super) struct InputSize {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

/// The engine with `source` as its template.
pub(super) fn parse(source: &str) -> Result<Environment<'static>, ChatError> {
    if source.len() > MAX_SOURCE {
        return Err(ChatError::Limit { what: "the template's size" });
    }
    let mut engine = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    engine.set_syntax(syntax.map_err(|error| ChatError::from_parsing(&error))?);
    engine.set_unknown_method_callback(python::call);
    engine.add_filter("tojson", json::tojson);
    // For people who write templates; their cost is not bounded by the budget.
    engine.remove_filter("pprint");
    engine.remove_global("debug");
    engine.add_test("iterable", python::is_iterable);
    engine.add_function("raise_exception", |message: &str| -> Result<Value, Error> { Err(raised(message)) });
    let source = without_generation_tags(source);
    engine.add_template_owned(NAME, source).map_err(|error| ChatError::from_parsing(&error))?;
    Ok(engine)
}

/// Renders the template with these variables, on a thread of its own with a stack for the deepest values that its budget
/// can build.
pub(super) fn render(
    engine: &Environment<'static>,
    variables: Value,
    date: Option<DateTime>,
    size: InputSize,
) -> Result<String, ChatError> {
    let fuel = BASE_FUEL + size.bytes as u64 / BYTES_PER_STEP + size.messages as u64 * MESSAGE_FUEL;
    let steps = usize::try_from(fuel).unwrap_or(usize::MAX);
    let stack = steps.saturating_mul(STACK_PER_STEP).saturating_add(BASE_STACK).min(MAX_STACK);
    let mut engine = engine.clone();
    engine.set_fuel(Some(fuel));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("chat template".to_owned()).stack_size(stack);
        let work = move || render_here(engine, variables, date, size);
        let thread = thread.spawn_scoped(scope, work).map_err(|error| {
            let message = format!("no thread with a stack of {stack} bytes: {error}");
            ChatError::Render { line: 0, message }
        })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn render_here(
    mut engine: Environment<'static>,
    variables: Value,
    date: Option<DateTime>,
    size: InputSize,
) -> Result<String, ChatError> {
    engine.add_function("strftime_now", move |format: &str| {
        let date = date.unwrap_or_else(DateTime::now_utc);
        date.format(format).map_err(|directive| {
            let message = format!("strftime_now: the directive {directive} is not known");
            Error::new(minijinja::ErrorKind::InvalidOperation, message)
        })
    });
    let template = engine.get_template(NAME).map_err(|error| ChatError::from_parsing(&error))?;
    let mut output =
        Output { bytes: Vec::new(), limit: BASE_OUTPUT.saturating_add(4 * size.bytes), full: false };
    let rendered = template.render_captured_to(variables, &mut output).map(drop);
    if output.full {
        return Err(ChatError::Limit { what: "the rendered text's size" });
    }
    rendered.map_err(|error| ChatError::from_rendering(&error))?;
    String::from_utf8(output.bytes).map_err(|error| ChatError::Render { line: 0, message: error.to_string() })
}

/// Output of a limited size.
struct Output {
    bytes: Vec<u8>,
    limit: usize,
    full: bool,
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            self.full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The source with `{% generation %}` and its end, which mark the assistant's text for training, as `{% with %}`, which
/// has the same scope and no other effect. Lines keep their numbers.
fn without_generation_tags(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        text.push_str(before);
        rest = tag;
        let inner = tag.trim_start_matches(['-', '+']);
        let word_at = tag.len() - inner.trim_start().len();
        for (word, plain) in [("generation", "with"), ("endgeneration", "endwith")] {
            let Some(after) = tag[word_at..].strip_prefix(word) else { continue };
            if after.trim_start().trim_start_matches(['-', '+']).starts_with("%}") {
                text.push_str(&tag[..word_at]);
                text.push_str(plain);
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}
