//! A model in one file or several.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::shown::{shown, shown_path};
use super::{GgufError, GgufFile, LoadMode, Meta, ShardFault, TensorData, TensorInfo, Value};

/// A model: one GGUF file, or all the shards of a split one. Metadata comes from the first shard.
///
/// What a file is follows from its metadata (`split.no`, `split.count`), never from its name alone; the name only leads
/// to the other shards, which stand in the same folder as `NAME-00001-of-00003.gguf` and so on.
#[derive(Debug)]
pub struct GgufSet {
    files: Vec<GgufFile>,
    tensors: Vec<TensorInfo>,
    index: HashMap<Arc<str>, usize>,
}

const NO: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

impl GgufSet {
    /// Opens the model of which the file at `path` is the whole or any shard.
    ///
    /// # Errors
    /// A [`GgufError`] if a file cannot be read or is not sound, or if shards are missing or do not fit together.
    pub fn open(path: impl AsRef<Path>, mode: LoadMode) -> Result<GgufSet, GgufError> {
        let path = path.as_ref();
        let given = GgufFile::open(path, mode)?;
        let Some((no, count)) = shard_of(&given)? else { return GgufSet::from_files(vec![given]) };
        let paths = shard_paths(path, &given, no, count)?;
        let mut given = Some(given);
        let mut files = Vec::with_capacity(paths.len());
        for (i, path) in paths.iter().enumerate() {
            let file = match given.take_if(|_| i == no as usize) {
                Some(file) => file,
                None => GgufFile::open(path, mode)?,
            };
            check_shard(&file, i as u32, count)?;
            files.push(file);
        }
        GgufSet::from_files(files)
    }

    /// A model of one file.
    ///
    /// # Errors
    /// [`GgufError::Shards`] if the file is one shard of several.
    pub fn from_file(file: GgufFile) -> Result<GgufSet, GgufError> {
        match shard_of(&file)? {
            None => GgufSet::from_files(vec![file]),
            Some((no, count)) => Err(GgufError::Shards {
                file: file.name().to_owned(),
                fault: ShardFault::Alone { no: no + 1, count },
            }),
        }
    }

    fn from_files(files: Vec<GgufFile>) -> Result<GgufSet, GgufError> {
        let mut tensors: Vec<TensorInfo> = Vec::with_capacity(files.iter().map(|f| f.tensors().len()).sum());
        let mut index = HashMap::with_capacity(tensors.capacity());
        for (i, file) in files.iter().enumerate() {
            for info in file.tensors() {
                if let Some(first) = index.insert(info.name.clone(), tensors.len()) {
                    return Err(GgufError::Shards {
                        file: file.name().to_owned(),
                        fault: ShardFault::DuplicateTensor {
                            tensor: shown(info.name()),
                            other: files[tensors[first].file].name().to_owned(),
                        },
                    });
                }
                tensors.push(TensorInfo { file: i, ..info.clone() });
            }
        }
        let set = GgufSet { files, tensors, index };
        if set.files.len() > 1
            && let Some(expected) = set.meta().u64_opt(TENSORS)?
            && expected != set.tensors.len() as u64
        {
            let fault =
                ShardFault::Mismatch { key: TENSORS, expected: set.tensors.len() as u64, found: expected };
            return Err(GgufError::Shards { file: set.name().to_owned(), fault });
        }
        Ok(set)
    }

    /// The first file, which has the metadata.
    fn first(&self) -> &GgufFile {
        // A set is made of at least one file.
        &self.files[0]
    }

    /// The name of the first file.
    pub fn name(&self) -> &str {
        self.first().name()
    }

    /// The files, first shard first.
    pub fn files(&self) -> &[GgufFile] {
        &self.files
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        self.first().get(key)
    }

    /// Keys and values in file order.
    pub fn metadata(&self) -> impl ExactSizeIterator<Item = (&str, Value<'_>)> {
        self.first().metadata()
    }

    /// Metadata read with the type that is wanted.
    pub fn meta(&self) -> Meta<'_> {
        self.first().meta()
    }

    /// The tensors in file order, shard after shard.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.index.get(name).and_then(|&i| self.tensors.get(i))
    }

    /// The tensor of this name, which must be there.
    ///
    /// # Errors
    /// [`GgufError::MissingTensor`].
    pub fn expect_tensor(&self, name: &str) -> Result<&TensorInfo, GgufError> {
        self.tensor(name)
            .ok_or_else(|| GgufError::MissingTensor { file: self.name().to_owned(), tensor: shown(name) })
    }

    /// The data of a tensor of this set: `info.byte_len()` bytes, read now in [`LoadMode::Read`].
    ///
    /// # Errors
    /// As [`GgufFile::tensor_data`].
    ///
    /// # Panics
    /// If `info` belongs to another set and does not fit this one.
    pub fn tensor_data(&self, info: &TensorInfo) -> Result<TensorData<'_>, GgufError> {
        self.files[info.file].tensor_data(info)
    }

    /// The data of a tensor of this set, if its file is in memory or mapped.
    ///
    /// # Panics
    /// As [`GgufSet::tensor_data`].
    pub(crate) fn mapped_data(&self, info: &TensorInfo) -> Option<&[u8]> {
        self.files[info.file].mapped_data(info)
    }

    /// As [`GgufFile::prefetch_part`].
    pub(crate) fn prefetch_part(&self, info: &TensorInfo, part: Range<usize>) {
        self.files[info.file].prefetch_part(info, part);
    }

    /// As [`GgufFile::release_part`].
    pub(crate) fn release_part(&self, info: &TensorInfo, part: Range<usize>) {
        self.files[info.file].release_part(info, part);
    }

    /// As [`GgufFile::prefetch`].
    pub fn prefetch(&self, info: &TensorInfo) {
        self.files[info.file].prefetch(info);
    }

    /// As [`GgufFile::release`].
    pub fn release(&self, info: &TensorInfo) {
        self.files[info.file].release(info);
    }

    /// The number of layers: `{arch}.block_count`, which must be at least 1 and at most the number of layers that have
    /// tensors (`blk.0.` and so on). There are no more layers than tensors, whatever numbers the names have.
    ///
    /// # Errors
    /// If the key is missing, not an integer, or out of that range.
    pub fn layer_count(&self) -> Result<usize, GgufError> {
        const KEY: &str = "{arch}.block_count";
        let meta = self.meta();
        let stated = meta.u32(KEY)?;
        let named = self.tensors.iter().filter_map(|info| layer_of(info.name())).max().map_or(0, |i| i + 1);
        let present = named.min(self.tensors.len() as u64);
        if stated == 0 || u64::from(stated) > present {
            let expected = format!("1 to {present}, the layers that have tensors");
            return Err(meta.wrong(KEY, expected, &Value::U32(stated)));
        }
        Ok(stated as usize)
    }
}

/// The layer of a tensor called `blk.LAYER.` and something.
fn layer_of(name: &str) -> Option<u64> {
    let (layer, _) = name.strip_prefix("blk.")?.split_once('.')?;
    layer.parse::<u32>().ok().map(u64::from)
}

/// Which shard a file is (from 0) of how many, or `None` if it is a whole model.
fn shard_of(file: &GgufFile) -> Result<Option<(u32, u32)>, GgufError> {
    let meta = file.meta();
    let count = meta.u32_or(COUNT, 1)?;
    if count <= 1 {
        return Ok(None);
    }
    let no = meta.u32(NO)?;
    if count > u32::from(u16::MAX) || no >= count {
        return Err(meta.wrong(
            NO,
            format!("less than {COUNT}, which is {count} and at most 65535"),
            &Value::U32(no),
        ));
    }
    Ok(Some((no, count)))
}

/// Checks that `file` is shard `no` (from 0) of `count`.
fn check_shard(file: &GgufFile, no: u32, count: u32) -> Result<(), GgufError> {
    let fault = match shard_of(file)? {
        None => ShardFault::NotSplit { no: no + 1, count },
        Some((_, found)) if found != count => {
            ShardFault::Mismatch { key: COUNT, expected: count.into(), found: found.into() }
        }
        Some((found, _)) if found != no => {
            ShardFault::Mismatch { key: NO, expected: no.into(), found: found.into() }
        }
        Some(_) => return Ok(()),
    };
    Err(GgufError::Shards { file: file.name().to_owned(), fault })
}

/// The paths of all shards, given that `path` is shard `no` (from 0) of `count`.
fn shard_paths(path: &Path, file: &GgufFile, no: u32, count: u32) -> Result<Vec<PathBuf>, GgufError> {
    let fail = |fault| GgufError::Shards { file: file.name().to_owned(), fault };
    let suffix = |no: u32| format!("-{:05}-of-{count:05}.gguf", no + 1);
    let base =
        path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(&suffix(no)));
    let base = base.ok_or_else(|| fail(ShardFault::Name { no: no + 1, count }))?;
    let paths: Vec<PathBuf> =
        (0..count).map(|i| path.with_file_name(format!("{base}{}", suffix(i)))).collect();
    let missing: Vec<String> = paths
        .iter()
        .filter(|path| !path.exists())
        .map(|path| path.file_name().map_or_else(String::new, |name| shown_path(Path::new(name))))
        .collect();
    if missing.is_empty() { Ok(paths) } else { Err(fail(ShardFault::Missing { no: no + 1, count, missing })) }
}
