//! The demo model in other formats.

use std::path::{Path, PathBuf};

use cera_models::gguf::GgufFile;
use cera_quant::Format;
use cera_quant::blocks::{dequantize_row, quantize_row};
use cera_testkit::gguf::TensorEntry;
use sha2::{Digest, Sha256};

mod rewrite;

/// SHA-256 in lower-case hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `general.file_type` of a file of mostly this format.
fn file_type(format: Format) -> u32 {
    match format {
        Format::Q4_0 => 2,
        Format::Q8_0 => 7,
        other => panic!("no file type for {other}"),
    }
}

/// The path of `source` with its `Q4_1` tensors in `format`, in the folder for test data of the target folder. A file that
/// is there is taken if it has the hash `golden`. Several processes may do this at once.
pub(crate) fn provide(source: &Path, format: Format, golden: Option<&str>) -> PathBuf {
    let bytes = std::fs::read(source).unwrap();
    let key = &sha256(&bytes)[..16];
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = dir.join(format!("requantized-{key}-{format}.gguf"));
    if std::fs::read(&path).is_ok_and(|bytes| golden == Some(sha256(&bytes).as_str())) {
        return path;
    }
    std::fs::create_dir_all(dir).unwrap();
    let scratch = dir.join(format!("{}-{format}.tmp", std::process::id()));
    let file = GgufFile::parse("the demo model", bytes).unwrap();
    std::fs::write(&scratch, requantize(&file, format)).unwrap();
    std::fs::rename(&scratch, &path).unwrap();
    path
}

/// The file with its `Q4_1` tensors dequantized exactly and quantized to `format`; all else stays.
fn requantize(file: &GgufFile, format: Format) -> Vec<u8> {
    let mut writer =
        rewrite::writer_of_keys_but(file, "general.file_type").kv_u32("general.file_type", file_type(format));
    for info in file.tensors() {
        let data = &*file.tensor_data(info).unwrap();
        let (id, data) = if info.ty().id() == Format::Q4_1.gguf_id() {
            (format.gguf_id(), convert(data, info.dims()[0] as usize, format))
        } else {
            (info.ty().id(), data.to_vec())
        };
        writer = writer.tensor_entry(TensorEntry::new(info.name(), info.dims(), id, data));
    }
    writer.finish()
}

/// Rows of `k` elements in `format` from rows in `Q4_1`.
fn convert(rows: &[u8], k: usize, format: Format) -> Vec<u8> {
    let (mut w, mut out) = (vec![f32::NAN; k], Vec::new());
    let mut row = vec![0; format.row_bytes(k).unwrap()];
    for source in rows.chunks_exact(Format::Q4_1.row_bytes(k).unwrap()) {
        dequantize_row(Format::Q4_1, source, &mut w).unwrap();
        quantize_row(format, &w, &mut row).unwrap();
        out.extend_from_slice(&row);
    }
    out
}
