//! Writes the files that fuzzing starts from to `corpus/`: `cargo run --manifest-path fuzz/Cargo.toml --example seeds`.

use std::io;
use std::path::Path;

use cera_quant::Format;
use cera_testkit::gguf::{GgufWriter, sample};
use cera_testkit::hostile;

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    write(&corpus.join("gguf"), gguf_seeds())?;
    write(&corpus.join("pack"), pack_seeds())
}

fn write(folder: &Path, seeds: Vec<Vec<u8>>) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (i, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{i:03}")), seed)?;
    }
    Ok(())
}

/// Sound files, and files with one fault each.
fn gguf_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = hostile::cases().into_iter().map(|case| case.bytes).collect();
    seeds.extend([2, 3].map(|version| sample(version).finish()));
    seeds.push(GgufWriter::new().finish());
    let model = GgufWriter::new().kv_str("general.architecture", "llama").kv_u32("llama.block_count", 2);
    seeds.push(model.tensor_f32("blk.0.w", &[2], &[1.0; 2]).tensor_f32("blk.1.w", &[2], &[1.0; 2]).finish());
    seeds.push(GgufWriter::new().split(1, 3, 6).finish());
    seeds
}

/// Rows of every format, of a count that does not fill a strip.
fn pack_seeds() -> Vec<Vec<u8>> {
    let seed = |(index, format): (usize, Format)| {
        let rows = 1 + index;
        let mut seed = vec![index as u8, index as u8];
        seed.extend((0..2 * rows * format.block_bytes()).map(|i| (i * 37 + i / 256 * 11 + index) as u8));
        seed
    };
    Format::ALL.into_iter().enumerate().map(seed).collect()
}
