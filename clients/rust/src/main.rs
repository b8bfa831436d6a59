//! The Rust suite: ../../doc.go describes its environment and its output.

mod death;
mod locks;
mod plain;
mod redis_rs;
mod target;

use death::Death;
use std::process::ExitCode;
use std::thread;

/// The end of a scene that has not failed.
pub enum Shown {
    Yes,
    /// The scene does not apply to the library, for this reason.
    None(&'static str),
}

pub type Result<T = Shown> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub enum Scene {
    /// It disturbs no other scene.
    Calm(Box<dyn Fn() -> Result + Sync>),
    /// The leaders die in it.
    Deadly(Box<dyn Fn(&Death) -> Result + Sync>),
}

/// A client in one mode.
pub struct Library {
    pub name: &'static str,
    pub package: &'static str, // whose version is reported
    pub mode: &'static str,
    pub scenes: Vec<(&'static str, Scene)>,
}

impl Library {
    /// Prints the result of a scene, and reports whether it passed.
    fn report(&self, scene: &str, result: Result) -> bool {
        let (verdict, words) = match result {
            Ok(Shown::Yes) => ("ok", String::new()),
            Ok(Shown::None(reason)) => ("none", reason.to_string()),
            Err(e) => ("fail", e.to_string().replace('\n', "; ")),
        };
        println!("RESULT {} {} {} {scene} {verdict} {words}", self.name, version(self.package), self.mode);
        verdict != "fail"
    }
}

fn main() -> ExitCode {
    let only: Vec<String> = std::env::args().skip(1).collect(); // names of libraries; none: all
    let chosen: Vec<Library> = redis_rs::libraries()
        .into_iter()
        .chain(locks::libraries())
        .filter(|l| only.is_empty() || only.iter().any(|n| n == l.name))
        .collect();
    let mut well = true;
    for library in &chosen {
        for (name, scene) in &library.scenes {
            if let Scene::Calm(show) = scene {
                well &= library.report(name, show());
            }
        }
    }
    well &= die(&chosen);
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plays all scenes in which the leaders die, in one death.
fn die(libraries: &[Library]) -> bool {
    let mut deadly = Vec::new();
    for library in libraries {
        for (name, scene) in &library.scenes {
            if let Scene::Deadly(show) = scene {
                deadly.push((library, name, show));
            }
        }
    }
    let death = &Death::of(deadly.len());
    let (killed, results) = thread::scope(|s| {
        let killer = s.spawn(|| death.strike());
        let playing: Vec<_> = deadly.iter().map(|(_, _, show)| s.spawn(|| death.attended(|| show(death)))).collect();
        let results: Vec<Result> =
            playing.into_iter().map(|p| p.join().unwrap_or_else(|_| Err("it has panicked".into()))).collect();
        (killer.join().unwrap_or_else(|_| Err("the killer has panicked".into())), results)
    });
    let mut well = true;
    for ((library, name, _), result) in deadly.iter().zip(results) {
        well &= library.report(name, result);
    }
    killed.inspect_err(|e| eprintln!("the death of the leaders: {e}")).is_ok() && well
}

/// The newest version of a package in this build.
fn version(package: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let name = format!("name = \"{package}\"\nversion = \"");
    lock.rsplit_once(&name).and_then(|(_, rest)| rest.split('"').next()).unwrap_or("?")
}
