//! The four scenes of a lock library.

use crate::death::Death;
use crate::{Library, Result, Scene, Shown, target};
use rslock::{Lock, LockManager};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

const WORKERS: usize = 20;
const TURNS: usize = 5; // of each worker
const LEASE: Duration = Duration::from_secs(2);
const LONG_LEASE: Duration = Duration::from_secs(20);
const EXPIRY_SLACK: Duration = Duration::from_millis(1500); // after a lease: until the next one has noticed

/// The polling interval of rslock, and the bound of its delay.
const POLL_EVERY: Duration = Duration::from_millis(50);
const POLL_WAKE: Duration = Duration::from_millis(500);

pub fn libraries() -> Vec<Library> {
    vec![Library {
        name: "rslock",
        package: "rslock",
        mode: "single",
        scenes: vec![
            ("exclusion", Scene::Calm(Box::new(exclusion))),
            ("expiry", Scene::Calm(Box::new(expiry))),
            ("wake", Scene::Calm(Box::new(wake))),
            ("failover", Scene::Deadly(Box::new(failover))),
        ],
    }]
}

/// The lock of one process of a user: a client of its own.
struct Locker {
    runtime: Runtime,
    manager: LockManager,
    name: String,
    lease: Duration,
    patience: Duration,
    held: Option<Lock>,
}

impl Locker {
    /// Opens a client of node number i with a bound of its waits.
    fn open(i: usize, name: &str, lease: Duration, patience: Duration) -> Result<Locker> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut manager = LockManager::new(vec![target::node(i)]);
        manager.set_retry(1000, POLL_EVERY);
        Ok(Locker { runtime, manager, name: name.to_string(), lease, patience, held: None })
    }

    fn lock(&mut self) -> Result<()> {
        let acquire = self.manager.acquire_no_guard(self.name.as_bytes(), self.lease);
        let lock = self.runtime.block_on(async { tokio::time::timeout(self.patience, acquire).await })??;
        self.held = Some(lock);
        Ok(())
    }

    fn unlock(&mut self) {
        if let Some(lock) = self.held.take() {
            self.runtime.block_on(self.manager.unlock(&lock));
        }
    }
}

/// Detects two holders at once.
#[derive(Default)]
struct Inside {
    now: AtomicUsize,
    entered: AtomicUsize,
    broken: AtomicBool,
}

impl Inside {
    fn visit(&self, stay: Duration) {
        self.entered.fetch_add(1, Ordering::SeqCst);
        if self.now.fetch_add(1, Ordering::SeqCst) != 0 {
            self.broken.store(true, Ordering::SeqCst);
        }
        thread::sleep(stay);
        self.now.fetch_sub(1, Ordering::SeqCst);
    }

    fn never_two(&self) -> Result<()> {
        if self.broken.load(Ordering::SeqCst) { Err("two held the lock at once".into()) } else { Ok(()) }
    }
}

fn exclusion() -> Result {
    let (inside, name) = (&Inside::default(), &target::fresh("exclusion"));
    thread::scope(|s| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|w| {
                s.spawn(move || -> Result<()> {
                    let mut k = Locker::open(w, name, LONG_LEASE, Duration::from_secs(80))?;
                    for _ in 0..TURNS {
                        k.lock()?;
                        inside.visit(Duration::from_millis(1));
                        k.unlock();
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| "a worker has panicked")?)
    })?;
    inside.never_two()?;
    match inside.entered.load(Ordering::SeqCst) {
        n if n == WORKERS * TURNS => Ok(Shown::Yes),
        n => Err(format!("{n} of {} turns", WORKERS * TURNS).into()),
    }
}

fn expiry() -> Result {
    let name = &target::fresh("expiry");
    let mut first = Locker::open(0, name, LEASE, LONG_LEASE)?;
    let mut second = Locker::open(1, name, LEASE, LONG_LEASE)?;
    let asked = Instant::now();
    first.lock()?;
    let held = Instant::now();
    drop(first); // as in a crash: nothing is released
    second.lock()?;
    let took = Instant::now();
    second.unlock();
    if took - asked < LEASE {
        return Err(format!("the lock was free {:?} after it was taken for {LEASE:?}", took - asked).into());
    }
    if took - held > LEASE + EXPIRY_SLACK {
        return Err(format!("the lock was free only {:?} after it was taken for {LEASE:?}", took - held).into());
    }
    Ok(Shown::Yes)
}

fn wake() -> Result {
    let name = &target::fresh("wake");
    let mut holder = Locker::open(0, name, LONG_LEASE, LONG_LEASE)?;
    let mut waiter = Locker::open(1, name, LONG_LEASE, LONG_LEASE)?;
    holder.lock()?;
    let late = thread::scope(|s| -> Result<Duration> {
        let waiting = s.spawn(move || -> Result<Instant> {
            waiter.lock()?;
            let at = Instant::now();
            waiter.unlock();
            Ok(at)
        });
        thread::sleep(Duration::from_millis(700));
        if waiting.is_finished() {
            return Err("the waiter did not wait".into());
        }
        holder.unlock();
        let released = Instant::now();
        let at = waiting.join().map_err(|_| "the waiter has panicked")??;
        Ok(at.saturating_duration_since(released))
    })?;
    if late > POLL_WAKE {
        return Err(format!("the waiter came {late:?} after the release").into());
    }
    Ok(Shown::Yes)
}

/// Bounds a worker's wait at one node, which may be lost.
const PATIENCE: Duration = Duration::from_secs(8);

/// Bounds the time from a death until turns are taken again.
const GOES_ON_AFTER: Duration = Duration::from_secs(5);

/// The leader is killed while the lock is held and awaited by many.
fn failover(death: &Death) -> Result {
    if let Some(none) = target::without_failover() {
        return Ok(none);
    }
    let (inside, name) = (&Inside::default(), &target::fresh("failover"));
    let (end, before) = thread::scope(|s| {
        for w in 0..WORKERS {
            s.spawn(move || {
                for turn in 0.. {
                    if death.is_over() {
                        break;
                    }
                    // A worker whose node is lost tries the next one.
                    let Ok(mut k) = Locker::open(w + turn, name, Duration::from_secs(3), PATIENCE) else { continue };
                    if k.lock().is_ok() {
                        inside.visit(Duration::from_millis(5));
                        k.unlock(); // a lease that nobody ends, ends by itself
                    }
                }
            });
        }
        death.ready();
        death.wait_for_strike();
        thread::sleep(GOES_ON_AFTER);
        let before = inside.entered.load(Ordering::SeqCst);
        death.wait_for_end();
        (Instant::now(), before)
    });
    let hung = end.elapsed();
    inside.never_two()?;
    if inside.entered.load(Ordering::SeqCst) == before {
        return Err("nobody got the lock any more after the leader was killed".into());
    }
    if hung > 2 * PATIENCE {
        return Err(format!("a worker hung for {hung:?}").into());
    }
    Ok(Shown::Yes)
}
