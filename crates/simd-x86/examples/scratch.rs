//! Scratch.
#[path = "peak/run.rs"]
#[allow(dead_code)]
mod run;
fn main() { let a: Vec<String> = std::env::args().skip(1).collect(); run::shapes(&a[0]); }
