//! Sessions against runs that share nothing with them: what is reused, what a full context does, and always equal bits.
#![allow(clippy::unwrap_used)]

mod common;

use std::num::NonZero;
use std::sync::Arc;

use cera_core::{CancelToken, Error, SeqStep, Want};
use cera_models::sampling::SamplingParams;
use cera_models::session::{
    CheckpointOptions, ContextShift, Finish, GenerateError, GenerateOptions, Session, SessionOptions,
};
use cera_models::tokenizer::{Tokenizer, TokenizerOptions};
use cera_models::{Model, ModelError, ModelOptions};
use cera_quant::kv::KvType;
use cera_testkit::{emulation, fixtures};
use common::TestRuntime;

/// The kinds of state: whole, with windows, with convolutions, with linear attention.
const MODELS: [&str; 5] = ["llama", "gemma3", "lfm2", "qwen35", "qwen3next"];

/// All of them, or one of each kind where time is short.
fn models() -> impl Iterator<Item = &'static str> {
    let left_out = |name: &&str| emulation::is_brief() && ["gemma3", "qwen3next"].contains(name);
    MODELS.into_iter().filter(move |name| !left_out(name))
}

/// Those whose state cannot go back by itself.
const STIFF: [&str; 4] = ["gemma3", "lfm2", "qwen35", "qwen3next"];

/// Tokens from a checkpoint to the next.
const EVERY: usize = 32;

/// More than any sequence here.
const ROOM: usize = 1000;

fn load(model: &str) -> Arc<Model> {
    let runtime = TestRuntime::with_threads(2);
    let path = fixtures::dir().join("arch").join(model).join("model.gguf");
    Arc::new(Model::load(path, runtime.share(), ModelOptions::default()).unwrap())
}

fn options(context: usize) -> SessionOptions {
    let every = NonZero::new(EVERY).unwrap();
    let checkpoints = CheckpointOptions { every, ..CheckpointOptions::default() };
    SessionOptions { context: Some(context), checkpoints, ..SessionOptions::default() }
}

fn shifting(context: usize, keep: usize) -> SessionOptions {
    SessionOptions { shift: Some(ContextShift { keep }), ..options(context) }
}

fn text(len: usize, seed: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * i * 31 + i * 37 + seed * 101 + 5) % 250) as u32).collect()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

fn logits(session: &mut Session) -> Vec<u32> {
    bits(session.logits(&CancelToken::new()).unwrap())
}

/// The logits of the last token, computed in one step of a new state of another model.
fn cold(other: &Model, tokens: &[u32]) -> Vec<u32> {
    let state = &mut other.program().new_state(KvType::F16, ROOM);
    bits(other.step(&mut [SeqStep { state, tokens, want: Want::Last }]).unwrap().data())
}

/// The highest logit, as greedy sampling takes it.
fn first(logits: &[u32]) -> u32 {
    let value = |at: usize| f32::from_bits(logits[at]);
    (0..logits.len()).fold(0, |best, at| if value(at) > value(best) { at } else { best }) as u32
}

/// Answers with so many tokens, each after the logits of a cold run.
fn answer(session: &mut Session, other: &Model, tokens: usize) {
    for _ in 0..tokens {
        let logits = logits(session);
        assert_eq!(logits, cold(other, session.tokens()));
        session.choose(first(&logits));
    }
}

/// Replaces the tokens and gives how many were reused and recomputed; the logits are those of a cold run.
fn turn(session: &mut Session, other: &Model, tokens: &[u32]) -> (usize, usize) {
    session.reset_stats();
    let kept = session.set_tokens(tokens);
    assert_eq!(logits(session), cold(other, tokens));
    let stats = session.stats();
    assert_eq!((stats.reused, stats.prompt + kept), (kept, tokens.len()));
    (kept, stats.recomputed)
}

#[test]
fn what_turns_have_in_common_is_reused_and_no_bit_depends_on_it() {
    for name in models() {
        let (model, other) = (load(name), load(name));
        let gap = if STIFF.contains(&name) { EVERY } else { 1 };
        let mut session = Session::new(model, options(ROOM));
        let prompt = text(150, 0);
        assert_eq!(turn(&mut session, &other, &prompt), (0, 0), "{name}");
        answer(&mut session, &other, 10);
        let first_turn = session.tokens().to_vec();

        // The second turn goes on from the first; the token that was chosen last had not been computed.
        let second = [&first_turn[..], &text(40, 1)].concat();
        assert_eq!(turn(&mut session, &other, &second), (159, 0), "{name}");
        answer(&mut session, &other, 70);

        // Another answer to the second turn: nothing is computed. Another second turn: what is new.
        let computed = if STIFF.contains(&name) { (200, 0) } else { (199, 1) };
        assert_eq!(turn(&mut session, &other, &second), computed, "{name}");
        let other_second = [&first_turn[..], &text(30, 2)].concat();
        let common = first_turn.iter().chain(&text(30, 2)).zip(&second).take_while(|(a, b)| a == b).count();
        let (reused, recomputed) = turn(&mut session, &other, &other_second);
        assert_eq!(reused + recomputed, common, "{name}");
        assert!(recomputed <= common - 159, "{name}: from the end of the answer");

        // An edit in the middle, one at the beginning, and the end cut off.
        let mut edited = other_second.clone();
        edited[100] ^= 1;
        let (reused, recomputed) = turn(&mut session, &other, &edited);
        assert!(reused + recomputed == 100 && recomputed < gap, "{name}: {reused} and {recomputed}");
        let (reused, recomputed) = turn(&mut session, &other, &edited[..80]);
        assert!(reused + recomputed == 80 && recomputed <= gap, "{name}: {reused} and {recomputed}");
        edited[0] ^= 1;
        assert_eq!(turn(&mut session, &other, &edited), (0, 0), "{name}");
    }
}

#[test]
fn appended_tokens_and_cancelled_steps_change_no_bit() {
    for name in models() {
        let (model, other) = (load(name), load(name));
        let mut session = Session::new(model, options(2000));
        let cancel = CancelToken::new();
        cancel.cancel();
        session.append(&text(100, 0));
        let cancelled = session.logits(&cancel).unwrap_err();
        assert!(matches!(cancelled, ModelError::Core(Error::Cancelled)), "{cancelled}");
        session.append(&text(1, 3));
        assert_eq!(logits(&mut session), cold(&other, session.tokens()), "{name}");
        // The logits of the same token again, and after more than a step of several tokens.
        assert_eq!(logits(&mut session), cold(&other, session.tokens()), "{name}");
        session.append(&text(700, 1));
        assert_eq!(logits(&mut session), cold(&other, session.tokens()), "{name}");
        assert_eq!((session.stats().prompt, session.stats().recomputed), (801, 0), "{name}");
    }
}

#[test]
fn a_saved_session_serves_the_same_prompt_and_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session");
    for name in models() {
        let (model, other) = (load(name), load(name));
        let mut session = Session::new(model.clone(), options(ROOM));
        let prompt = text(90, 0);
        turn(&mut session, &other, &prompt);
        answer(&mut session, &other, 8);
        session.save(&path).unwrap();
        let restored = || {
            let mut session = Session::new(model.clone(), options(ROOM));
            session.restore(&path).unwrap();
            session
        };
        let (reused, recomputed) = turn(&mut restored(), &other, &prompt);
        assert!(reused + recomputed == 90 && recomputed <= 1, "{name}: {reused} and {recomputed}");
        let next = [session.tokens(), &text(20, 4)].concat();
        assert_eq!(turn(&mut restored(), &other, &next), (97, 0), "{name}");
        let mut off = options(ROOM);
        off.checkpoints.count = 0;
        let mut without = Session::new(model.clone(), off);
        without.restore(&path).unwrap();
        assert_eq!(turn(&mut without, &other, &next), (97, 0), "{name}");
    }
}

fn greedy(max_tokens: Option<usize>) -> GenerateOptions {
    GenerateOptions { sampling: SamplingParams::greedy(), max_tokens, ..GenerateOptions::default() }
}

/// The tokens that are generated until the end, and how that came.
fn generate(session: &mut Session, max_tokens: Option<usize>) -> Result<(Vec<u32>, Finish), GenerateError> {
    let tokenizer =
        Tokenizer::from_gguf(session.model().file().meta(), &TokenizerOptions::default()).unwrap();
    let mut generation = session.generate(&tokenizer, greedy(max_tokens))?;
    let pieces: Vec<_> = generation.by_ref().collect::<Result<_, _>>()?;
    let tokens = pieces.iter().filter_map(|piece| piece.choice.as_ref()).map(|choice| choice.token).collect();
    Ok((tokens, generation.finish().unwrap()))
}

#[test]
fn a_full_context_ends_answers_and_refuses_prompts_with_counts_and_a_code() {
    for name in models() {
        let model = load(name);
        let all = |prompt: usize| {
            let mut session = Session::new(model.clone(), options(ROOM));
            session.append(&text(prompt, 0));
            generate(&mut session, Some(4)).unwrap().0
        };
        // The token after a full context is chosen, but not computed.
        for (prompt, generated) in [(62, 3), (63, 2), (64, 1)] {
            let mut session = Session::new(model.clone(), options(64));
            session.append(&text(prompt, 0));
            let (tokens, finish) = generate(&mut session, None).unwrap();
            assert_eq!(tokens, all(prompt)[..generated], "{name}: {prompt} tokens");
            assert_eq!((finish, finish.label()), (Finish::ContextFull, "length"));
            // Going on is refused.
            let error = generate(&mut session, None).unwrap_err();
            assert_eq!(error.code(), Some("context_length_exceeded"));
        }
        let mut session = Session::new(model.clone(), options(64));
        session.append(&text(65, 0));
        for _ in 0..2 {
            let error = generate(&mut session, None).unwrap_err();
            assert_eq!(error.code(), Some("context_length_exceeded"));
            let message = "the context is full: 0 positions held and 65 to add, of at most 64";
            assert_eq!(error.to_string(), message);
            assert_eq!(session.stats().prompt, 0, "{name}: nothing is computed");
        }
        // A sequence that fits is computed, as if nothing had happened.
        session.set_tokens(&text(64, 0));
        assert_eq!(generate(&mut session, None).unwrap().0, all(64)[..1]);
    }
}

/// The tokens that a context has after it was full, told by dropping half of the rest as often as needed.
fn shifted(mut tokens: Vec<u32>, context: usize, keep: usize) -> Vec<u32> {
    // As if the tokens had come one by one.
    let rest = tokens.split_off(tokens.len().min(context));
    for token in rest {
        tokens.push(token);
        if tokens.len() > context {
            let rest = tokens.split_off(keep);
            tokens.extend(&rest[rest.len() / 2..]);
        }
    }
    tokens
}

#[test]
fn a_context_that_shifts_goes_on_as_a_cold_run_of_what_stays() {
    for name in models() {
        let (model, other) = (load(name), load(name));
        for (context, keep, prompt) in [(64, 5, 60), (64, 0, 64), (64, 63, 64), (65, 4, 66), (70, 40, 300)] {
            let mut session = Session::new(model.clone(), shifting(context, keep));
            let mut tokens = text(prompt, 0);
            session.append(&tokens);
            for _ in 0..80 {
                let stays = shifted(tokens.clone(), context, keep);
                let logits = logits(&mut session);
                assert_eq!(session.tokens(), stays, "{name}: {} tokens in {context}", tokens.len());
                assert_eq!(session.dropped(), tokens.len() - stays.len());
                assert_eq!(logits, cold(&other, &stays), "{name}: {} tokens in {context}", tokens.len());
                session.choose(first(&logits));
                tokens.push(first(&logits));
            }
            // All of the tokens again, as a conversation has them: what stays of them is known, until there is one too many.
            let held = session.tokens().len();
            session.reset_stats();
            session.set_tokens(&tokens);
            assert_eq!(session.tokens(), shifted(tokens.clone(), context, keep));
            if held <= context {
                assert_eq!(session.stats().reused, held - 1, "{name}: {held} tokens in {context}");
            }
            assert_eq!(logits(&mut session), cold(&other, session.tokens()));
        }
    }
}

#[test]
fn generation_with_a_shift_ends_only_where_it_is_told_to() {
    for name in models() {
        let model = load(name);
        let mut session = Session::new(model.clone(), shifting(64, 4));
        session.append(&text(63, 0));
        let mut by_hand = Session::new(load(name), shifting(64, 4));
        by_hand.append(&text(63, 0));
        let mut expected = Vec::new();
        let tokenizer = Tokenizer::from_gguf(model.file().meta(), &TokenizerOptions::default()).unwrap();
        while expected.len() < 150
            && expected.last().is_none_or(|last| !tokenizer.stop_tokens().contains(last))
        {
            let token = first(&logits(&mut by_hand));
            expected.push(token);
            by_hand.choose(token);
        }
        let (tokens, finish) = generate(&mut session, Some(150)).unwrap();
        assert_eq!(tokens, expected, "{name}");
        assert_ne!(finish, Finish::ContextFull);
        assert!(session.dropped() > 0 && session.stats().recomputed > 0, "{name}: {:?}", session.stats());
        let mut stuck = Session::new(model.clone(), shifting(64, 64));
        stuck.append(&text(3, 0));
        let error = stuck.logits(&CancelToken::new()).unwrap_err();
        assert!(matches!(error, ModelError::ContextShift { keep: 64, context: 64 }), "{error}");
    }
}
