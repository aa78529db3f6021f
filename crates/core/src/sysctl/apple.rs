//! The kernel of this machine.

use std::ffi::{c_char, c_int, c_void};

use crate::probe::darwin::Sysctl;

// SAFETY: the declaration of <sys/sysctl.h>; `size_t` is `usize` on these systems.
unsafe extern "C" {
    fn sysctlbyname(
        name: *const c_char,
        old: *mut c_void,
        old_len: *mut usize,
        new: *mut c_void,
        new_len: usize,
    ) -> c_int;
}

/// The kernel's own values.
pub(crate) struct System;

impl Sysctl for System {
    fn number(&self, name: &str) -> Option<u64> {
        super::number(sysctlbyname, name)
    }

    fn text(&self, name: &str) -> Option<String> {
        super::text(sysctlbyname, name)
    }
}
