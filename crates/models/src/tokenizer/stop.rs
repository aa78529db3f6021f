//! The tokens that end a turn, by name.

use super::vocab::{Kind, Vocab};

/// Names that no vocabulary has for anything else, of whatever type the file calls them.
const DISTINCT: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<|eot|>",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// Names that some vocabularies have as text: Gemma has the HTML tag `</s>`. They count where the file calls them control.
const IF_CONTROL: &[&str] =
    &["</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<turn|>", "<|tool_response>"];

/// The tokens of `vocab` whose names are known to end a turn.
///
/// Where messages end with their own token and the turn with another (`<|return|>`, `<|call|>`, `<|flush|>`), `<|end|>` ends
/// a message only, and is left out.
pub(super) fn known(vocab: &Vocab) -> Vec<u32> {
    let find = |name: &str| vocab.id(name);
    let turns_have_messages = (find("<|return|>").is_some() && find("<|call|>").is_some())
        || (find("<|calls|>").is_some() && find("<|flush|>").is_some());
    let distinct = DISTINCT.iter().filter(|&&name| !(turns_have_messages && name == "<|end|>"));
    let control = IF_CONTROL.iter().filter_map(|name| find(name));
    let control = control.filter(|&id| vocab.kind(id) == Some(Kind::Control));
    distinct.filter_map(|name| find(name)).chain(control).collect()
}
