//! A look through the machine code of a program for instructions of AVX and later outside of code that is chosen at run
//! time.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::proc;

/// How the names begin of functions that run only where the CPU has been found to have what they need: our kernels, and
/// functions of other crates that look before they leap.
const GATED: [&str; 7] = [
    KERNELS,
    "<cera_simd_x86::",
    // Searching text: std's detection chooses among these modules.
    "aho_corasick::packed::teddy::builder::x86_64::",
    "<aho_corasick::packed::teddy::builder::x86_64::",
    "memchr::arch::x86_64::",
    // Random numbers: std's detection, by ppv-lite86's `dispatch!`.
    "rand_chacha::guts::",
    // Intrinsics that were not inlined. Whoever calls one is in the listing itself, or has been gated.
    "core::core_arch::x86::",
];
const KERNELS: &str = "cera_simd_x86::";
/// Mnemonics that begin with a `v` and are older than AVX or have nothing to do with it.
const NOT_VECTOR: [&str; 17] = [
    "verr", "verw", "vmcall", "vmclear", "vmfunc", "vmlaunch", "vmload", "vmmcall", "vmptrld", "vmptrst",
    "vmread", "vmresume", "vmrun", "vmsave", "vmwrite", "vmxoff", "vmxon",
];

/// One fault for each function outside of [`GATED`] that has such instructions.
///
/// # Errors
/// If `objdump` cannot be run, or finds no such instructions even in the kernels.
pub(super) fn offenders(program: &Path) -> Result<Vec<String>> {
    let mut objdump = Command::new("objdump");
    objdump.args(["--disassemble", "--demangle", "--no-show-raw-insn"]).arg(program);
    let line = proc::describe(&objdump);
    let mut child = objdump
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{line}`; objdump is in Debian's package binutils"))?;
    let text = child.stdout.take().context("objdump has no output")?;
    let found = count(BufReader::new(text))?;
    let status = child.wait()?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    ensure!(found.keys().any(|name| name.starts_with(KERNELS)), "`{line}` shows no instructions of kernels");
    let outside = found.iter().filter(|(name, _)| !GATED.iter().any(|gated| name.starts_with(gated)));
    let fault = |(name, n): (&String, &usize)| format!("{name} has {n} instructions of AVX or later");
    Ok(outside.map(fault).collect())
}

/// The number of instructions of AVX and later by function.
fn count(listing: impl BufRead) -> Result<BTreeMap<String, usize>> {
    let (mut found, mut function) = (BTreeMap::new(), String::new());
    for line in listing.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            function = name.1.to_string();
        } else if line.split_once('\t').is_some_and(|(_, instruction)| is_vector(instruction)) {
            *found.entry(function.clone()).or_insert(0) += 1;
        }
    }
    Ok(found)
}

/// Whether an instruction is one of AVX or later: its name begins with a `v`, or it has mask registers.
fn is_vector(instruction: &str) -> bool {
    let mnemonic = instruction.split_whitespace().find(|word| !word.starts_with('{')).unwrap_or_default();
    let masks = instruction.split("%k").skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let wide = instruction.contains("%ymm") || instruction.contains("%zmm");
    wide || masks || mnemonic.starts_with('v') && !NOT_VECTOR.contains(&mnemonic)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "
cera:     file format elf64-x86-64

0000000000001000 <core::fmt::write>:
    1000:\tpush   %rbp
    1001:\tmovaps %xmm0,%xmm1
    1004:\tverw   %ax
0000000000002000 <<a::B as c::D<e>>::f>:
    2000:\tvmovaps %xmm0,%xmm1
    2004:\tkmovd  %k1,%eax
    2008:\t{vex} vpdpbusd %xmm0,%xmm1,%xmm2
    200c:\tcall   1000 <core::fmt::write>
";

    #[test]
    fn instructions_are_counted_by_function() {
        let found = count(LISTING.as_bytes()).expect("listing");
        assert_eq!(found, BTreeMap::from([("<a::B as c::D<e>>::f".to_string(), 3)]));
    }
}
