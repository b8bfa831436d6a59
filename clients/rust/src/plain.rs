//! The scenes of a client that knows nothing of locks.

use crate::death::Death;
use crate::{Result, Shown, target};
use std::thread;
use std::time::{Duration, Instant};

/// The operations of a program that locks by hand. Each method uses the client's
/// native call.
pub trait Plain {
    fn take(&mut self, key: &str, token: &str, lease: Duration) -> Result<bool>; // SET NX PX
    fn release(&mut self, key: &str, token: &str) -> Result<i64>; // a script, EVALSHA first
    fn set(&mut self, key: &str, value: &str) -> Result<()>;
    fn get(&mut self, key: &str) -> Result<Option<String>>;
    fn pipeline(&mut self, key: &str) -> Result<i64>; // three INCR at once; the last answer
    fn transaction(&mut self, key: &str) -> Result<i64>; // WATCH, MULTI, INCR, EXEC
    fn wrong_type(&mut self, key: &str) -> Result<String>; // the error of HGET
    fn hear(&mut self, channel: &str, message: &str) -> Result<String>;
}

/// The usual script to release a lock.
pub const COMPARE_AND_DELETE: &str =
    r#"if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end"#;

/// The operations of a program that locks by hand.
pub fn commands(c: &mut dyn Plain) -> Result {
    let key = &target::fresh("commands");
    let minute = Duration::from_secs(60);
    same("SET NX PX", true, c.take(key, "me", minute))?;
    same("SET NX PX, taken", false, c.take(key, "you", minute))?;
    same("release by another", 0, c.release(key, "you"))?;
    same("release", 1, c.release(key, "me"))?;
    same("GET of nothing", None, c.get(key))?;
    same("pipeline", 3, c.pipeline(key))?;
    same("transaction", 4, c.transaction(key))?;
    same("GET", Some("4".to_string()), c.get(key))?;
    same("error", "WRONGTYPE: Operation against a key holding the wrong kind of value".to_string(), c.wrong_type(key))?;
    same("Pub/Sub", "hello".to_string(), c.hear(key, "hello"))?;
    Ok(Shown::Yes)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, want: T, got: Result<T>) -> Result<()> {
    let got = got.map_err(|e| format!("{what}: {e}"))?;
    if got == want { Ok(()) } else { Err(format!("{what}: {got:?}, not {want:?}").into()) }
}

/// Bounds the time from the leader's death to a program's next success.
const OUTAGE_MAX: Duration = Duration::from_secs(3);

/// A program that writes while the leader dies, and retries failed writes.
pub fn outage(c: &mut dyn Plain, death: &Death) -> Result {
    let key = &target::fresh("outage");
    c.set(key, "0")?;
    death.ready();
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    for n in 1.. {
        if death.is_over() {
            break;
        }
        if c.set(key, &n.to_string()).is_ok() {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        thread::sleep(Duration::from_millis(5));
    }
    longest = longest.max(last.elapsed());
    if longest > OUTAGE_MAX {
        return Err(format!("no write succeeded for {longest:?}").into());
    }
    Ok(Shown::Yes)
}
