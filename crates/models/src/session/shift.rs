//! What gives way when a context is full.

/// Lets a sequence that is longer than its context go on without its middle.
///
/// The first [`keep`](ContextShift::keep) tokens stay. Of the rest the context has room for `room`; the oldest of the rest go, in
/// whole blocks of half of that room, until the sequence fits. A sequence that has just outgrown its context so keeps the newest
/// half of the rest. What stays is computed again: the logits are those of a sequence that never had the tokens that went.
///
/// Because blocks begin at the same tokens however long the sequence is, a sequence that grows and is shifted again from its
/// beginning has what it had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextShift {
    /// Tokens at the beginning that stay.
    pub keep: usize,
}

impl ContextShift {
    /// Whether a context of this many tokens has room for more than the tokens that stay.
    pub fn fits(self, context: usize) -> bool {
        self.keep < context
    }

    /// How many tokens after the first [`keep`](ContextShift::keep) give way in a sequence of `len`, if any can.
    pub(super) fn dropped(self, len: usize, context: usize) -> usize {
        if len <= context || !self.fits(context) {
            return 0;
        }
        let block = (context - self.keep).div_ceil(2);
        (len - context).div_ceil(block) * block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_that_outgrows_its_context_keeps_the_beginning_and_the_newest_half_of_the_rest() {
        for context in 1..40 {
            for keep in 0..context {
                let shift = ContextShift { keep };
                assert_eq!(shift.dropped(context, context), 0);
                let rest = context + 1 - keep;
                let stays = context + 1 - shift.dropped(context + 1, context);
                assert_eq!(stays, keep + rest.div_ceil(2), "{keep} of {context}");
            }
        }
    }

    #[test]
    fn shifts_of_a_growing_sequence_add_up_to_one_of_the_whole() {
        for (context, keep) in [(1, 0), (8, 0), (8, 7), (64, 5), (65, 0)] {
            let shift = ContextShift { keep };
            let (mut held, mut gone) = (0, 0);
            for len in 1..5 * context {
                held += 1;
                let dropped = shift.dropped(held, context);
                (held, gone) = (held - dropped, gone + dropped);
                assert!(held <= context && held > keep.min(len - 1));
                assert_eq!(gone, shift.dropped(len, context), "{len} tokens, {keep} of {context}");
            }
        }
    }

    #[test]
    fn without_room_nothing_gives_way() {
        assert!(!ContextShift { keep: 8 }.fits(8) && ContextShift { keep: 7 }.fits(8));
        assert_eq!(ContextShift { keep: 8 }.dropped(100, 8), 0);
        assert_eq!(ContextShift { keep: 0 }.dropped(usize::MAX, 8), (usize::MAX - 8).div_ceil(4) * 4);
    }
}
