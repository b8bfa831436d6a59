//! The addresses of the servers, and the control port that breaks them.

use crate::{Result, Shown};
use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

fn list(name: &str) -> Vec<String> {
    env::var(name).unwrap_or_default().split(',').filter(|s| !s.is_empty()).map(String::from).collect()
}

/// The URL of a node, by any number.
pub fn node(i: usize) -> String {
    let nodes = list("CLIENTS_NODES");
    url(&nodes[i % nodes.len()])
}

pub fn cluster() -> Vec<String> {
    list("CLIENTS_CLUSTER").iter().map(|a| url(a)).collect()
}

pub fn sentinels() -> Vec<String> {
    list("CLIENTS_SENTINELS").iter().map(|a| url(a)).collect()
}

pub fn master() -> String {
    env::var("CLIENTS_MASTER").unwrap_or_default()
}

fn url(addr: &str) -> String {
    format!("redis://{addr}")
}

/// Whether the target survives the death of its leader.
pub fn fails_over() -> bool {
    env::var("CLIENTS_TARGET").as_deref() == Ok("lockd")
}

/// The reason why a target that cannot lose its leader shows no failover.
pub fn without_failover() -> Option<Shown> {
    (!fails_over()).then_some(Shown::None("redis has no failover of a single server here"))
}

/// Sends a request to the control port.
pub fn tell(path: &str) -> Result<()> {
    let control = env::var("CLIENTS_CONTROL")?;
    let addr = control.trim_start_matches("http://");
    let mut conn = TcpStream::connect(addr)?;
    write!(conn, "POST {path} HTTP/1.0\r\nContent-Length: 0\r\n\r\n")?;
    let mut answer = String::new();
    conn.read_to_string(&mut answer)?;
    if answer.split(' ').nth(1) != Some("200") {
        return Err(format!("{path}: {answer}").into());
    }
    Ok(())
}

/// An unused name.
pub fn fresh(what: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    format!("{{rust:{what}:{now}:{}}}", NUMBER.fetch_add(1, Ordering::Relaxed))
}
