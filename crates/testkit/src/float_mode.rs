//! A floating-point mode as some hosts set it: subnormals are flushed to zero and results rounded towards zero.

use std::marker::PhantomData;

/// Keeps the calling thread in that mode until it is dropped, on the same thread.
#[derive(Debug)]
pub struct HostMode {
    found: u64,
    /// The mode is a thread's: the value stays on it.
    _thread: PhantomData<*const ()>,
}

impl HostMode {
    /// Sets the mode; `None` on architectures where it is not known how.
    pub fn enter() -> Option<HostMode> {
        let found = arch::read();
        arch::write(found | arch::HOST);
        (arch::HOST != 0).then_some(HostMode { found, _thread: PhantomData })
    }

    /// Whether the thread is in the mode still.
    pub fn holds(&self) -> bool {
        arch::read() & arch::HOST == arch::HOST
    }
}

impl Drop for HostMode {
    fn drop(&mut self) {
        arch::write(self.found);
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::asm;

    /// Of MXCSR: flush results, both bits of rounding, take subnormal operands for zeros.
    pub(super) const HOST: u64 = 0x8000 | 0x6000 | 0x0040;

    pub(super) fn read() -> u64 {
        let mut value = 0_u32;
        // SAFETY: SSE is part of x86-64; the instruction stores four bytes to `value`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
        value.into()
    }

    pub(super) fn write(value: u64) {
        let value = value as u32;
        // SAFETY: the value was read from the register or has bits more that are none of the reserved ones. Between the two
        // calls of a test only calls of the library run, which has to bring its own mode.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, readonly, preserves_flags))
        };
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use std::arch::asm;

    /// Of FPCR: flush to zero, both bits of rounding.
    pub(super) const HOST: u64 = 1 << 24 | 3 << 22;

    pub(super) fn read() -> u64 {
        let value;
        // SAFETY: user code may read FPCR, which AArch64 always has.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack, preserves_flags)) };
        value
    }

    pub(super) fn write(value: u64) {
        // SAFETY: user code may write FPCR; the value was read from it or has bits more that are none of the reserved ones.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    pub(super) const HOST: u64 = 0;

    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn write(_: u64) {}
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn the_mode_flushes_and_rounds_down_until_it_is_dropped() {
        // The outer boxes keep the results where they are computed, between the changes of the mode.
        let tiny = || black_box(black_box(f32::MIN_POSITIVE) * black_box(0.5));
        let third = || black_box(black_box(2.0_f32) / black_box(3.0));
        let plain = (tiny(), third());
        let Some(mode) = HostMode::enter() else { return };
        let (host, holds) = ((tiny(), third()), mode.holds());
        drop(mode);
        assert!(holds && host.0 == 0.0 && host.1 < plain.1 && plain.0 > 0.0);
        assert_eq!((tiny(), third()), plain);
    }
}
