//! `cera inspect`: metadata, tensors, bytes per type, the kernel that each tensor takes.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use cera_core::{KernelTable, Settings, TierChoice};
use cera_models::gguf::{GgufSet, LoadMode, Value};
use cera_models::{Model, TensorKernels};
use serde::Serialize;

use crate::output;

/// Arguments of `cera inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model, a GGUF file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Elements of an array that are shown.
const SHOWN_ELEMENTS: usize = 4;

#[derive(Serialize)]
struct Report {
    file: String,
    version: u32,
    tier: &'static str,
    metadata: Vec<Entry>,
    tensors: Vec<Tensor>,
    types: Vec<TypeShare>,
    /// Why no kernels are stated, if none are.
    no_kernels: Option<String>,
}

#[derive(Serialize)]
struct Entry {
    key: String,
    #[serde(rename = "type")]
    ty: String,
    value: serde_json::Value,
}

#[derive(Serialize)]
struct Tensor {
    name: String,
    #[serde(rename = "type")]
    ty: &'static str,
    /// Innermost first, as in the file.
    dims: Vec<u64>,
    bytes: usize,
    /// The kernel for several tokens.
    prefill: Option<String>,
    /// The kernel for one token.
    decode: Option<String>,
    embedding: bool,
}

#[derive(Serialize)]
struct TypeShare {
    #[serde(rename = "type")]
    ty: &'static str,
    tensors: usize,
    bytes: usize,
    share: f64,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let file = GgufSet::open(&args.file, LoadMode::Map)?;
    let table = KernelTable::new(&TierChoice::detect(&Settings::from_env()?)?);
    let report = report(&file, &table);
    if args.json { output::print_json(&report) } else { output::print(&text(&report)?) }
}

fn report(file: &GgufSet, table: &KernelTable) -> Report {
    let (kernels, no_kernels) = match Model::kernels(file, table) {
        Ok(kernels) => (kernels, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let kernels: HashMap<&str, &TensorKernels> = kernels.iter().map(|k| (k.tensor.as_str(), k)).collect();
    let tensors = file.tensors().iter().map(|info| {
        let kernel = kernels.get(info.name());
        let ids = kernel.and_then(|k| k.matmul);
        Tensor {
            name: info.name().to_owned(),
            ty: info.ty().name(),
            dims: info.dims().to_vec(),
            bytes: info.byte_len(),
            prefill: ids.map(|(gemm, _)| gemm.to_string()),
            decode: ids.map(|(_, gemv)| gemv.to_string()),
            embedding: kernel.is_some_and(|k| k.embedding),
        }
    });
    let metadata = file.metadata().map(|(key, value)| Entry {
        key: key.to_owned(),
        ty: type_name(&value),
        value: json(&value),
    });
    Report {
        file: file.name().to_owned(),
        version: file.files().first().map_or(0, |first| first.version()),
        tier: table.tier().label(),
        metadata: metadata.collect(),
        tensors: tensors.collect(),
        types: shares(file),
        no_kernels,
    }
}

/// Tensors and bytes per type, the largest first.
fn shares(file: &GgufSet) -> Vec<TypeShare> {
    let mut by_type: BTreeMap<&'static str, (usize, usize)> = BTreeMap::new();
    for info in file.tensors() {
        let (tensors, bytes) = by_type.entry(info.ty().name()).or_default();
        (*tensors, *bytes) = (*tensors + 1, *bytes + info.byte_len());
    }
    let total: usize = by_type.values().map(|(_, bytes)| bytes).sum();
    let share = |bytes: usize| bytes as f64 / total.max(1) as f64;
    let mut shares: Vec<TypeShare> = by_type
        .into_iter()
        .map(|(ty, (tensors, bytes))| TypeShare { ty, tensors, bytes, share: share(bytes) })
        .collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}

fn type_name(value: &Value<'_>) -> String {
    match value.as_array() {
        Some(array) => format!("{}[{}]", array.element_type().name(), array.len()),
        None => value.ty().name().to_owned(),
    }
}

/// A value as JSON: arrays by their first elements, bytes that are not UTF-8 replaced.
fn json(value: &Value<'_>) -> serde_json::Value {
    if let Some(array) = value.as_array() {
        return array.iter().take(SHOWN_ELEMENTS).map(|element| json(&element)).collect();
    }
    if let Some(bytes) = value.as_bytes() {
        return String::from_utf8_lossy(bytes).into();
    }
    match (value, value.as_integer()) {
        (Value::Bool(b), _) => (*b).into(),
        (Value::F32(x), _) => f64::from(*x).into(),
        (Value::F64(x), _) => (*x).into(),
        (_, Some(i)) => i64::try_from(i).map_or_else(|_| i.to_string().into(), Into::into),
        _ => serde_json::Value::Null,
    }
}

fn text(report: &Report) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "{} (GGUF version {})\n", report.file, report.version)?;
    let rows: Vec<Vec<String>> = report
        .metadata
        .iter()
        .map(|entry| vec![one_line(&entry.key), entry.ty.clone(), shorten(&entry.value.to_string())])
        .collect();
    text.push_str(&output::table(&rows, &[]));
    writeln!(text)?;
    let head = ["tensor", "type", "dimensions", "bytes", "prefill", "decode"].map(str::to_owned).to_vec();
    let tensors = report.tensors.iter().map(|tensor| {
        let dims: Vec<String> = tensor.dims.iter().map(ToString::to_string).collect();
        let lookup = if tensor.embedding { "row lookup" } else { "-" };
        let kernel = |id: &Option<String>| id.clone().unwrap_or_else(|| lookup.to_owned());
        vec![
            one_line(&tensor.name),
            tensor.ty.to_owned(),
            dims.join("x"),
            tensor.bytes.to_string(),
            kernel(&tensor.prefill),
            kernel(&tensor.decode),
        ]
    });
    text.push_str(&output::table(&std::iter::once(head).chain(tensors).collect::<Vec<_>>(), &[3]));
    writeln!(text)?;
    let rows: Vec<Vec<String>> = report
        .types
        .iter()
        .map(|s| {
            let share = format!("{:.1} %", 100.0 * s.share);
            vec![s.ty.to_owned(), format!("{} tensors", s.tensors), format!("{} bytes", s.bytes), share]
        })
        .collect();
    text.push_str(&output::table(&rows, &[1, 2, 3]));
    if let Some(why) = &report.no_kernels {
        writeln!(text, "\nno kernels stated: {why}")?;
    }
    Ok(text)
}

/// A name without ends of lines.
fn one_line(name: &str) -> String {
    name.replace('\n', "\\n")
}

/// Long values by their beginning.
fn shorten(text: &str) -> String {
    const MAX: usize = 80;
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}
