//! The values of settings that no other module defines.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// How long a thread without work looks for some before it sleeps: from none at all to a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpinTime(u32);

impl SpinTime {
    /// The most microseconds that are not taken for a mistake.
    pub const MAX: u32 = 1_000_000;

    /// The time.
    pub fn get(self) -> Duration {
        Duration::from_micros(self.0.into())
    }
}

impl fmt::Display for SpinTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SpinTime {
    type Err = SpinTimeError;

    /// Decimal digits and nothing else.
    fn from_str(text: &str) -> Result<SpinTime, SpinTimeError> {
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        let time = text.parse().ok().filter(|&time| digits && time <= SpinTime::MAX);
        time.map(SpinTime).ok_or_else(|| SpinTimeError { found: text.to_owned() })
    }
}

/// Something that is not a time to look for work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{found:?} is not a number of microseconds; expected a whole number from 0 to {max}", max = SpinTime::MAX)]
pub struct SpinTimeError {
    /// What was given.
    pub found: String,
}

/// A filter of messages. Whether it is well-formed is for the program to say that has the messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// The filter as it was given.
    pub fn get(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LogFilter {
    type Err = LogFilterError;

    fn from_str(text: &str) -> Result<LogFilter, LogFilterError> {
        if text.is_empty() { Err(LogFilterError) } else { Ok(LogFilter(text.to_owned())) }
    }
}

/// An empty filter.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("\"\" is not a filter of messages; expected one such as warn, or cera_core=debug")]
pub struct LogFilterError;
