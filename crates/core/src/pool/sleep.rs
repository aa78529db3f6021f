//! Sleeping and waking.

use std::sync::PoisonError;

use super::Padded;
use super::sync::{Condvar, Mutex, MutexGuard};
use super::word::{AtomicWord, Word};

/// The workers that sleep. While the lock is free, the word's sleeper bit is set if and only if the list is not empty.
#[derive(Debug)]
pub(super) struct Sleepers {
    list: Mutex<List>,
    slots: Box<[Padded<Slot>]>,
}

#[derive(Debug)]
struct List {
    /// Those who sleep or are about to, the latest last. Each is taken out by exactly one other thread, which then wakes it.
    asleep: Vec<usize>,
    closed: bool,
}

/// How [`Sleepers::sleep`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slept {
    /// There is something to do: no sleep.
    Not,
    /// Another thread woke the worker.
    Woken,
    /// The pool closes.
    Closed,
}

impl Sleepers {
    pub(super) fn new(width: usize) -> Sleepers {
        let list = List { asleep: Vec::with_capacity(width), closed: false };
        let slots = (0..width).map(|_| Padded(Slot::new())).collect();
        Sleepers { list: Mutex::new(list), slots }
    }

    /// Sleeps until woken, unless `ready` holds for the word or the pool closes.
    pub(super) fn sleep(&self, me: usize, word: &AtomicWord, ready: impl Fn(Word) -> bool) -> Slept {
        let mut list = self.lock();
        let now = word.set_sleepers();
        if list.closed || ready(now) {
            if list.asleep.is_empty() {
                word.clear_sleepers();
            }
            return if list.closed { Slept::Closed } else { Slept::Not };
        }
        list.asleep.push(me);
        drop(list);
        self.slots[me].0.wait();
        Slept::Woken
    }

    /// Wakes up to `count` workers, those that fell asleep last first.
    pub(super) fn wake(&self, count: usize, word: &AtomicWord) {
        for _ in 0..count {
            let mut list = self.lock();
            let Some(worker) = list.asleep.pop() else { return };
            let last = list.asleep.is_empty();
            if last {
                word.clear_sleepers();
            }
            drop(list);
            self.slots[worker].0.wake();
            if last {
                return;
            }
        }
    }

    /// Wakes one worker if it sleeps.
    pub(super) fn wake_worker(&self, worker: usize, word: &AtomicWord) {
        let mut list = self.lock();
        let Some(at) = list.asleep.iter().position(|&other| other == worker) else { return };
        list.asleep.remove(at);
        if list.asleep.is_empty() {
            word.clear_sleepers();
        }
        drop(list);
        self.slots[worker].0.wake();
    }

    /// Wakes everybody and lets nobody sleep again.
    pub(super) fn close(&self, word: &AtomicWord) {
        self.lock().closed = true;
        self.wake(self.slots.len(), word);
    }

    /// Workers that sleep.
    #[cfg(all(test, not(loom)))]
    pub(super) fn asleep(&self) -> usize {
        self.lock().asleep.len()
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where one worker sleeps.
#[derive(Debug)]
struct Slot {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Slot {
    fn new() -> Slot {
        Slot { woken: Mutex::new(false), changed: Condvar::new() }
    }

    fn wait(&self) {
        let mut woken = self.lock();
        while !*woken {
            woken = self.changed.wait(woken).unwrap_or_else(PoisonError::into_inner);
        }
        *woken = false;
    }

    fn wake(&self) {
        *self.lock() = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
