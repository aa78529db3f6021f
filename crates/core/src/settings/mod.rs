//! The tuning knobs of cera: every environment variable that it reads, in one table.

mod values;

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::tier::CpuTier;
use crate::width::{PinMode, ThreadCount};

pub use values::{LogFilter, LogFilterError, SpinTime, SpinTimeError};

/// Where the value of a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The environment variable of the setting.
    Environment,
    /// An argument of the program.
    Argument,
}

impl Source {
    /// One word for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::Environment => "environment",
            Source::Argument => "argument",
        }
    }
}

/// The value of a knob, if somebody set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    value: Option<T>,
    source: Source,
}

impl<T> Setting<T> {
    /// The value, or `None` for the default.
    pub fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Where it comes from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Sets the value as an argument of the program, which outranks the environment.
    pub fn set_argument(&mut self, value: T) {
        *self = Setting { value: Some(value), source: Source::Argument };
    }
}

/// A setting as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingRow {
    /// The environment variable.
    pub name: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// What happens where it is not set.
    pub default: &'static str,
    /// The value, or `None` for the default.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: Source,
}

/// A setting that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// The value is not one of those that the setting takes.
    #[error("{name}: {problem}")]
    Invalid {
        /// The environment variable.
        name: &'static str,
        /// What was found and what was expected.
        problem: String,
    },
    /// The value is not valid Unicode.
    #[error("{name}: its value is not valid Unicode")]
    NotUnicode {
        /// The environment variable.
        name: &'static str,
    },
}

macro_rules! settings {
    ($(
        $(#[doc = $meaning:literal])+
        $field:ident: $type:ty = $variable:ident $name:literal, default $default:literal;
    )*) => {
        $(
            /// The environment variable of the setting of the same name.
            pub const $variable: &str = $name;
        )*

        /// Every setting, as read from the environment and changed by arguments.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $meaning])+ pub $field: Setting<$type>,)*
        }

        impl Settings {
            /// The settings that `lookup` has for the names of the environment variables.
            ///
            /// # Errors
            /// If a value is there and is not valid; an empty one is not valid.
            pub fn from_lookup(
                lookup: impl Fn(&'static str) -> Option<OsString>,
            ) -> Result<Settings, SettingsError> {
                Ok(Settings { $($field: read($name, lookup($name))?,)* })
            }

            /// Every setting as text, for reports.
            pub fn rows(&self) -> Vec<SettingRow> {
                vec![$(row($name, concat!($($meaning),+), $default, &self.$field),)*]
            }
        }
    };
}

settings! {
    /// The CPU tier to run.
    cpu_tier: CpuTier = CPU_TIER_VARIABLE "CERA_CPU_TIER", default "the best that this CPU and this build have";
    /// The number of threads that compute, the calling one included.
    threads: ThreadCount = THREADS_VARIABLE "CERA_THREADS",
        default "the physical performance cores, within the affinity mask and the CPU quota";
    /// Whether workers are bound to cores: auto, off or on.
    pin: PinMode = PIN_VARIABLE "CERA_PIN", default "auto: to the fast cores, where there are slow ones";
    /// Microseconds for which a thread without work looks for some before it sleeps.
    spin: SpinTime = SPIN_VARIABLE "CERA_SPIN_US", default "60";
    /// What the program reports on standard error, as `tracing` filters are written.
    log: LogFilter = LOG_VARIABLE "CERA_LOG", default "warn";
}

impl Settings {
    /// The settings of the environment of this process. Nothing else in cera reads the environment.
    ///
    /// # Errors
    /// If a variable is set to something that is not valid.
    pub fn from_env() -> Result<Settings, SettingsError> {
        Settings::from_lookup(std::env::var_os)
    }
}

fn read<T>(name: &'static str, value: Option<OsString>) -> Result<Setting<T>, SettingsError>
where
    T: FromStr<Err: fmt::Display>,
{
    let Some(value) = value else {
        return Ok(Setting { value: None, source: Source::Default });
    };
    let text = value.into_string().map_err(|_| SettingsError::NotUnicode { name })?;
    match text.parse() {
        Ok(value) => Ok(Setting { value: Some(value), source: Source::Environment }),
        Err(problem) => Err(SettingsError::Invalid { name, problem: problem.to_string() }),
    }
}

fn row<T: fmt::Display>(
    name: &'static str,
    meaning: &'static str,
    default: &'static str,
    setting: &Setting<T>,
) -> SettingRow {
    let value = setting.value.as_ref().map(T::to_string);
    SettingRow { name, meaning: meaning.trim_ascii(), default, value, source: setting.source }
}

#[cfg(test)]
mod tests;
