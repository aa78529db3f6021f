//! The primitives that the protocol is built from: those of `std`, or those of `loom` where the models check it.

#[cfg(not(loom))]
pub(super) use self::real::*;

#[cfg(loom)]
pub(super) use self::model::*;

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread;

    std::thread_local! {
        /// Whether this thread runs chunks.
        pub(crate) static INSIDE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// `std::cell::UnsafeCell` with the interface of loom's, which sees every access begin and end.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        /// Hands out the content for reading.
        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Hands out the content for writing.
        #[inline]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(loom)]
mod model {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread;

    loom::thread_local! {
        /// Whether this thread runs chunks.
        pub(crate) static INSIDE: std::cell::Cell<bool> = std::cell::Cell::new(false);
    }
}
