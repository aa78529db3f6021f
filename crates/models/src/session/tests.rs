use cera_core::{Runtime, Settings};
use cera_testkit::fixtures;

use super::*;
use crate::ModelOptions;

fn load(file: &str) -> Arc<Model> {
    let runtime = Runtime::from_settings(&Settings::from_lookup(|_| None).unwrap()).unwrap();
    Arc::new(Model::load(fixtures::dir().join(file), runtime, ModelOptions::default()).unwrap())
}

fn session(context: Option<usize>) -> Session {
    let options = SessionOptions { context, ..SessionOptions::default() };
    Session::new(load("arch/llama/model.gguf"), options)
}

fn prompt(len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * 37 + 5) % 256).collect()
}

fn logits(session: &mut Session) -> Vec<u32> {
    let logits = session.logits(&CancelToken::new()).unwrap();
    logits.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn a_replaced_sequence_keeps_its_common_beginning_and_gives_the_bits_of_a_new_one() {
    let mut a = session(None);
    let tokens = prompt(100);
    a.append(&tokens);
    logits(&mut a);
    let mut edited = tokens.clone();
    edited[70] ^= 1;
    assert_eq!(a.set_tokens(&edited), 70);
    let mut b = session(None);
    b.append(&edited);
    assert_eq!(logits(&mut a), logits(&mut b));
    let stats = a.stats();
    assert_eq!((stats.reused, stats.prompt, stats.generated), (70, 130, 0));
    // The same sequence again: nothing is computed. A beginning of it: only its last token, for its logits.
    assert_eq!(a.set_tokens(&edited), 100);
    assert_eq!(logits(&mut a), logits(&mut b));
    assert_eq!(a.stats().prompt, 130);
    assert_eq!((a.set_tokens(&edited[..80]), b.set_tokens(&[])), (79, 0));
    b.append(&edited[..80]);
    assert_eq!(logits(&mut a), logits(&mut b));
    let stats = a.stats();
    assert_eq!((stats.reused, stats.recomputed, stats.prompt), (70 + 100 + 79, 1, 131));
}

#[test]
fn chosen_tokens_are_counted_apart() {
    let mut a = session(None);
    a.append(&prompt(5));
    for token in [1, 2, 3] {
        logits(&mut a);
        a.choose(token);
    }
    logits(&mut a);
    assert_eq!((a.stats().prompt, a.stats().generated, a.tokens().len()), (5, 3, 8));
    a.reset_stats();
    assert_eq!(a.stats(), SessionStats::default());
}

#[test]
fn a_cancelled_or_refused_step_can_be_made_again() {
    let mut a = session(Some(8));
    a.append(&prompt(8));
    let cancel = CancelToken::new();
    cancel.cancel();
    let cancelled = a.logits(&cancel).unwrap_err();
    assert!(matches!(cancelled, ModelError::Core(Error::Cancelled)), "{cancelled}");
    logits(&mut a);
    a.append(&[1]);
    let full = a.logits(&CancelToken::new()).unwrap_err();
    assert!(matches!(full, ModelError::Core(Error::ContextFull { .. })), "{full}");
    let empty = session(None).logits(&CancelToken::new()).unwrap_err();
    assert!(matches!(empty, ModelError::Core(Error::Operand { .. })), "{empty}");
}

#[test]
fn a_saved_session_goes_on_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session");
    let mut a = session(None);
    a.append(&prompt(90));
    logits(&mut a);
    a.choose(7);
    a.save(&path).unwrap();
    let mut b = session(None);
    b.restore(&path).unwrap();
    assert_eq!(b.tokens(), a.tokens());
    assert_eq!(logits(&mut b), logits(&mut a));
    assert_eq!(b.stats().prompt, 1, "only the last token was computed");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left in the folder");
}

#[test]
fn a_session_of_a_full_context_is_restored_with_the_token_that_no_longer_fits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session");
    let mut a = session(Some(8));
    a.append(&prompt(8));
    logits(&mut a);
    a.choose(3);
    a.save(&path).unwrap();
    let mut b = session(Some(8));
    b.restore(&path).unwrap();
    assert_eq!(b.tokens(), a.tokens());
    assert_eq!(b.set_tokens(&prompt(8)), 7);
    assert_eq!(logits(&mut b).len(), a.model().vocabulary());
}

#[test]
fn session_files_that_do_not_fit_are_refused_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session");
    let mut a = session(None);
    a.append(&prompt(70));
    logits(&mut a);
    a.save(&path).unwrap();
    let file = std::fs::read(&path).unwrap();
    let mut b = session(Some(80));
    b.append(&[1, 2, 3]);
    let mut refused = |bytes: &[u8], message: &str| {
        std::fs::write(&path, bytes).unwrap();
        let error = b.restore(&path).unwrap_err().to_string();
        assert!(error.contains(message), "{error} for {message}");
        assert_eq!(b.tokens(), [1, 2, 3]);
    };
    let changed = |at: usize| {
        let mut file = file.clone();
        file[at] ^= 0x55;
        file
    };
    refused(&file[..7], "ends early");
    refused(&file[..file.len() / 2], "cannot be read");
    refused(&changed(0), "not a session file");
    refused(&changed(8), "version");
    refused(&changed(12), "bits");
    refused(&changed(20), "another model");
    refused(&changed(55), "do not fit");
    refused(&changed(67), "vocabulary");
    refused(&changed(64 + 4 * 70 + 1000), "checksum");
    refused(&changed(file.len() - 48), "a checkpoint of 85 tokens");
    refused(&changed(file.len() - 40), "with 85 logits");
    refused(&[&file[..], b"x"].concat(), "checksum");
    let mut unbounded = session(Some(usize::MAX));
    let mut claims = file.clone();
    claims[48..56].copy_from_slice(&(u64::MAX >> 4).to_le_bytes());
    std::fs::write(&path, claims).unwrap();
    assert!(unbounded.restore(&path).unwrap_err().to_string().contains("ends early"));
    let missing = b.restore(folder.path().join("none")).unwrap_err();
    assert!(matches!(missing.fault, SessionFault::Io(_)), "{missing}");
    let mut small = session(Some(69));
    std::fs::write(&path, &file).unwrap();
    assert!(small.restore(&path).unwrap_err().to_string().contains("context of 69"));
    let other = Session::new(load("arch/mistral/model.gguf"), SessionOptions::default()).restore(&path);
    assert!(matches!(other, Err(SessionFileError { fault: SessionFault::Mismatch { .. }, .. })), "{other:?}");
}
