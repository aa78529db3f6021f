//! Benches of the kernels, through the table that the runtime uses.
//!
//! A bench is an [`Entry`]: how its work is made, how much it is, and the checksum of its result. All tiers give the
//! same bits, so the checksum is one constant. `cargo bench -p cera-benches` measures the entries, each after its result
//! was checked; the tests run each once. `CERA_CPU_TIER` chooses the tier.

mod entries;
mod work;

use cera_core::{KernelTable, RuntimeError, Settings, TierChoice};
use cera_quant::Format;

pub use entries::entries;

/// How much an entry does per run: what its speed is stated in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Bytes of weights, activations or cache that are read.
    Bytes(usize),
    /// Products that are added up.
    MultiplyAdds(usize),
    /// Elements of the result.
    Elements(usize),
}

/// What a run has written.
#[derive(Debug, Clone, Copy)]
pub enum Written<'a> {
    /// Numbers.
    Floats(&'a [f32]),
    /// Codes, or packed weights.
    Bytes(&'a [u8]),
}

impl Written<'_> {
    /// FNV-1a over the bytes, those of numbers in little-endian order.
    pub fn checksum(self) -> u64 {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        match self {
            Written::Floats(x) => x.iter().flat_map(|x| x.to_le_bytes()).fold(BASIS, add),
            Written::Bytes(x) => x.iter().copied().fold(BASIS, add),
        }
    }
}

/// Something to run again and again.
pub trait Work {
    /// Runs it once.
    fn run(&mut self, table: &KernelTable) -> Written<'_>;
}

/// Makes the work of an entry.
type Make = dyn Fn(&KernelTable) -> Box<dyn Work>;

/// A bench.
pub struct Entry {
    /// What it belongs to.
    pub group: &'static str,
    /// Its name in the group.
    pub name: &'static str,
    /// What it does per run.
    pub amount: Amount,
    /// The checksum of the result of the first run.
    pub expected: u64,
    make: Box<Make>,
    kernel: Box<dyn Fn(&KernelTable) -> String>,
}

impl Entry {
    /// The work, ready to run with the kernels of this table.
    pub fn make(&self, table: &KernelTable) -> Box<dyn Work> {
        (self.make)(table)
    }

    /// The kernel of this table that runs, if one does, or else the function.
    pub fn kernel(&self, table: &KernelTable) -> String {
        (self.kernel)(table)
    }

    /// Runs the work once.
    ///
    /// # Errors
    /// What was found in place of the expected checksum, or of finite numbers.
    pub fn check(&self, table: &KernelTable) -> Result<(), String> {
        let mut work = self.make(table);
        let written = work.run(table);
        if let Written::Floats(x) = written
            && let Some(at) = x.iter().position(|x| !x.is_finite())
        {
            return Err(format!("{} {}: element {at} is {}", self.group, self.name, x[at]));
        }
        let found = written.checksum();
        if found == self.expected {
            return Ok(());
        }
        Err(format!("{} {}: expected {:#018x}, found {found:#018x}", self.group, self.name, self.expected))
    }
}

/// The table that the environment asks for.
///
/// # Errors
/// [`RuntimeError`] if a setting is wrong or asks for a tier that cannot run.
pub fn table() -> Result<KernelTable, RuntimeError> {
    Ok(KernelTable::new(&TierChoice::detect(&Settings::from_env()?)?))
}

/// Random weights of a format times activations; weight rows, tokens, elements per row.
pub fn product(table: &KernelTable, format: Format, shape: (usize, usize, usize)) -> Box<dyn Work> {
    Box::new(work::Product::new(table, format, shape, 1))
}
