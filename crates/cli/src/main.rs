//! The `cera` command.
fn main() {}
