//! Tokenizers against the ids of other implementations, and the faults that users of other engines meet.
#![allow(clippy::unwrap_used)]

mod chats;
mod control;
mod hostile;
mod ids;
mod round_trip;
mod stream;
mod support;
mod words;
