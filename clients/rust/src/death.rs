//! The death of the leaders of all clusters, which several scenes share.

use crate::{Result, target};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Times for which the scenes run before the death of the leaders, and after.
const BEFORE: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_secs(9);

/// The interval at which a thread polls.
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub struct Death {
    absent: AtomicUsize, // scenes that are not ready for it yet
    struck: AtomicBool,
    over: AtomicBool,
}

thread_local! {
    static READY: Cell<bool> = const { Cell::new(false) }; // the scene of this thread
}

/// Ends with a scene, also with one that panics.
struct Attendance<'a>(&'a Death);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        self.0.ready();
    }
}

impl Death {
    pub fn of(scenes: usize) -> Death {
        Death { absent: AtomicUsize::new(scenes), struck: AtomicBool::new(false), over: AtomicBool::new(false) }
    }

    /// Kills the leaders when all scenes are ready, and heals them at the end.
    pub fn strike(&self) -> Result<()> {
        while self.absent.load(Ordering::SeqCst) > 0 {
            thread::sleep(LOOK_EVERY);
        }
        if !target::fails_over() {
            return Ok(());
        }
        thread::sleep(BEFORE);
        let killed = target::tell("/kill-leader").and(target::tell("/kill-cluster-leader"));
        self.struck.store(true, Ordering::SeqCst);
        thread::sleep(AFTER);
        self.over.store(true, Ordering::SeqCst);
        target::tell("/heal").and(killed)
    }

    /// Plays a scene. The death does not wait for it after its end.
    pub fn attended<T>(&self, scene: impl FnOnce() -> T) -> T {
        let _attendance = Attendance(self);
        scene()
    }

    /// A scene reports, in its own thread, that the leaders may die.
    pub fn ready(&self) {
        if !READY.replace(true) {
            self.absent.fetch_sub(1, Ordering::SeqCst);
        }
    }

    pub fn wait_for_strike(&self) {
        while !self.struck.load(Ordering::SeqCst) {
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether all must succeed again.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub fn wait_for_end(&self) {
        while !self.is_over() {
            thread::sleep(LOOK_EVERY);
        }
    }
}
