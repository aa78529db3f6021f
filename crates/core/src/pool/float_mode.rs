//! The floating-point mode that the numbers are defined in: round to nearest even, no flush to zero, no traps.

use std::marker::PhantomData;

/// Holds the calling thread in the default mode; dropping it, on the same thread, brings back the mode that was found.
#[derive(Debug)]
pub struct DefaultMode {
    /// The register as it was found, if it had to be changed.
    found: Option<arch::Register>,
    /// The mode is a thread's: the value stays on it.
    _thread: PhantomData<*const ()>,
}

impl DefaultMode {
    /// Sets the default mode if the thread is in another one.
    #[must_use = "dropping it at once brings the old mode back"]
    pub fn enter() -> DefaultMode {
        let now = arch::read();
        if now & arch::CONTROL == arch::DEFAULT {
            return DefaultMode { found: None, _thread: PhantomData };
        }
        arch::write(arch::DEFAULT);
        DefaultMode { found: Some(now), _thread: PhantomData }
    }

    /// Sets the default mode of a thread that has no other one to come back to.
    pub(super) fn set() {
        arch::write(arch::DEFAULT);
    }
}

impl Drop for DefaultMode {
    fn drop(&mut self) {
        if let Some(found) = self.found {
            arch::write(found);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::asm;

    /// MXCSR.
    pub(super) type Register = u32;

    /// Everything but the six sticky exception flags.
    pub(super) const CONTROL: Register = 0xffc0;

    /// All exceptions masked.
    pub(super) const DEFAULT: Register = 0x1f80;

    pub(super) fn read() -> Register {
        let mut value: Register = 0;
        // SAFETY: SSE is part of x86-64; the instruction stores four bytes to `value`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
        value
    }

    pub(super) fn write(value: Register) {
        // SAFETY: as for `read`, with a load; `value` is the default or was read from the register, so no reserved bit is
        // set. Compiled code may assume the default mode: this module sets no other, except to restore what it found.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, readonly, preserves_flags))
        };
    }

    #[cfg(all(test, not(loom)))]
    pub(super) const FLUSH: Register = DEFAULT | 0x8040;
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use std::arch::asm;

    /// FPCR.
    pub(super) type Register = u64;

    /// All of it: the exception flags are in another register.
    pub(super) const CONTROL: Register = !0;

    /// Round to nearest, no flush to zero, no default NaN, no traps.
    pub(super) const DEFAULT: Register = 0;

    pub(super) fn read() -> Register {
        let value;
        // SAFETY: user code may read FPCR, which AArch64 always has.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack, preserves_flags)) };
        value
    }

    pub(super) fn write(value: Register) {
        // SAFETY: user code may write FPCR; `value` is the default or was read from the register. Compiled code may assume
        // the default mode: this module sets no other, except to restore what it found.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }

    #[cfg(all(test, not(loom)))]
    pub(super) const FLUSH: Register = 1 << 24;
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    /// No register: the mode of this architecture is not known.
    pub(super) type Register = u32;

    pub(super) const CONTROL: Register = 0;

    pub(super) const DEFAULT: Register = 0;

    pub(super) fn read() -> Register {
        DEFAULT
    }

    pub(super) fn write(_: Register) {}

    #[cfg(all(test, not(loom)))]
    pub(super) const FLUSH: Register = DEFAULT;
}

/// For tests: the mode of the calling thread, and a way to set one that flushes subnormals to zero.
#[cfg(all(test, not(loom)))]
pub(crate) mod testing {
    use super::arch;

    /// Whether this architecture has a mode to test.
    pub(crate) const SUPPORTED: bool = arch::FLUSH != arch::DEFAULT;

    pub(crate) fn is_default() -> bool {
        arch::read() & arch::CONTROL == arch::DEFAULT
    }

    pub(crate) fn flushes() -> bool {
        arch::read() & arch::CONTROL & arch::FLUSH == arch::FLUSH & arch::CONTROL
    }

    pub(crate) fn set_flush() {
        arch::write(arch::FLUSH);
    }

    pub(crate) fn set_default() {
        arch::write(arch::DEFAULT);
    }
}
