//! The Rust suite: see ../../doc.go for what it is told and what it prints.

mod locks;
mod plain;
mod redis_rs;
mod target;

use std::process::ExitCode;

/// What a scene ends with that has nothing to complain of.
pub enum Shown {
    Yes,
    /// The library has nothing the scene could show, for this reason.
    None(&'static str),
}

pub type Result<T = Shown> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A client in one mode.
pub struct Library {
    pub name: &'static str,
    pub package: &'static str, // whose version is reported
    pub mode: &'static str,
    pub scenes: Vec<(&'static str, Box<dyn Fn() -> Result>)>,
}

fn main() -> ExitCode {
    let only: Vec<String> = std::env::args().skip(1).collect(); // names of libraries; none: all
    let mut failed = false;
    for library in redis_rs::libraries().into_iter().chain(locks::libraries()) {
        if !only.is_empty() && !only.iter().any(|n| n == library.name) {
            continue;
        }
        for (scene, show) in &library.scenes {
            let (verdict, words) = match show() {
                Ok(Shown::Yes) => ("ok", String::new()),
                Ok(Shown::None(reason)) => ("none", reason.to_string()),
                Err(e) => ("fail", e.to_string().replace('\n', "; ")),
            };
            failed |= verdict == "fail";
            println!("RESULT {} {} {} {scene} {verdict} {words}", library.name, version(library.package), library.mode);
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The newest version of a package in this build.
fn version(package: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let name = format!("name = \"{package}\"\nversion = \"");
    lock.rsplit_once(&name).and_then(|(_, rest)| rest.split('"').next()).unwrap_or("?")
}
