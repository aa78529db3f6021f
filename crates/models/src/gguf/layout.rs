//! The tensor entries of a file, and where their data stands.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::cursor::Cursor;
use super::shown::shown;
use super::{Fault, MAX_DIMS, MAX_NAME_BYTES, TensorInfo, TensorType};

/// The tensors of a file.
#[derive(Debug, Default)]
pub(super) struct Tensors {
    /// In file order.
    pub(super) infos: Vec<TensorInfo>,
    /// Where in `infos` a name is.
    pub(super) index: HashMap<Arc<str>, usize>,
}

/// A tensor entry before its place in the file is known.
struct Entry {
    info: TensorInfo,
    offset: u64,
    bytes: u64,
}

impl Tensors {
    /// Reads `count` entries at `cursor`, and checks where their data stands in the file of `file_bytes` bytes.
    pub(super) fn read(
        cursor: &mut Cursor<'_>,
        count: usize,
        alignment: u32,
        file_bytes: usize,
    ) -> Result<Tensors, Fault> {
        let mut tensors = Tensors { infos: Vec::with_capacity(count), index: HashMap::with_capacity(count) };
        let mut places = Vec::with_capacity(count);
        for i in 0..count {
            let entry = read_entry(cursor, i)?;
            if tensors.index.insert(entry.info.name.clone(), i).is_some() {
                return Err(Fault::DuplicateTensor { tensor: shown(&entry.info.name) });
            }
            places.push((entry.offset, entry.bytes));
            tensors.infos.push(entry.info);
        }
        let data_begin = (cursor.position() as u64).next_multiple_of(alignment.into());
        for (info, (offset, bytes)) in tensors.infos.iter_mut().zip(places) {
            place(info, offset, bytes, Section { data_begin, alignment, file_bytes: file_bytes as u64 })?;
        }
        check_overlap(&tensors.infos)?;
        Ok(tensors)
    }

    /// Where the data ends; `header_end` if there is none.
    pub(super) fn end(&self, header_end: usize) -> usize {
        self.infos.iter().map(|info| info.begin + info.len).max().unwrap_or(header_end)
    }
}

/// Names the entry of a tensor in messages.
struct EntryOf<'a>(&'a str);

impl fmt::Display for EntryOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the entry of tensor {}", shown(self.0))
    }
}

/// Reads the entry number `i`.
fn read_entry(cursor: &mut Cursor<'_>, i: usize) -> Result<Entry, Fault> {
    let name = cursor.name(MAX_NAME_BYTES, &format_args!("the name of tensor {i}"))?;
    let field = &EntryOf(name);
    let n_dims = cursor.u32(field)?;
    if !(1..=MAX_DIMS).contains(&n_dims) {
        return Err(Fault::DimCount { tensor: shown(name), found: n_dims });
    }
    let n_dims = n_dims as usize;
    let mut dims = [1; MAX_DIMS as usize];
    for dim in &mut dims[..n_dims] {
        *dim = cursor.u64(field)?;
    }
    let id = cursor.u32(field)?;
    let ty = TensorType::from_id(id).ok_or_else(|| Fault::TensorType { tensor: shown(name), found: id })?;
    let offset = cursor.u64(field)?;
    let bytes = data_bytes(name, ty, &dims[..n_dims])?;
    let info = TensorInfo { name: name.into(), ty, dims, n_dims, file: 0, begin: 0, len: 0 };
    Ok(Entry { info, offset, bytes })
}

/// The bytes of a tensor's data.
fn data_bytes(name: &str, ty: TensorType, dims: &[u64]) -> Result<u64, Fault> {
    if dims.contains(&0) {
        return Err(Fault::ZeroDim { tensor: shown(name), dims: dims.to_vec() });
    }
    let overflow = || Fault::DimsOverflow { tensor: shown(name), dims: dims.to_vec() };
    let fits = |&n: &u64| n <= isize::MAX as u64;
    let elements =
        dims.iter().try_fold(1, |n: u64, &dim| n.checked_mul(dim)).filter(fits).ok_or_else(overflow)?;
    let block = ty.block_len() as u64;
    if !dims[0].is_multiple_of(block) {
        let tensor = shown(name);
        return Err(Fault::PartialBlock { tensor, ty: ty.name(), row: dims[0], block });
    }
    (elements / block).checked_mul(ty.block_bytes() as u64).filter(fits).ok_or_else(overflow)
}

/// The data section of a file.
#[derive(Clone, Copy)]
struct Section {
    data_begin: u64,
    alignment: u32,
    file_bytes: u64,
}

/// Sets where in the file `bytes` at `offset` of the data section stand.
fn place(info: &mut TensorInfo, offset: u64, bytes: u64, section: Section) -> Result<(), Fault> {
    let Section { data_begin, alignment, file_bytes } = section;
    if !offset.is_multiple_of(alignment.into()) {
        return Err(Fault::Misaligned { tensor: shown(&info.name), offset, alignment });
    }
    let begin = data_begin.checked_add(offset);
    let inside = begin.and_then(|begin| begin.checked_add(bytes)).filter(|&end| end <= file_bytes);
    match (begin, inside) {
        (Some(begin), Some(_)) => {
            // Both are at most the file's length, which is a `usize`.
            info.begin = begin as usize;
            info.len = bytes as usize;
            Ok(())
        }
        _ => Err(Fault::OutsideFile {
            tensor: shown(&info.name),
            at: begin.unwrap_or(u64::MAX),
            bytes,
            file_bytes,
        }),
    }
}

/// Checks that no two tensors share bytes. No writer makes such files, so that shared bytes mean a damaged or forged
/// header; and the pages of a tensor are given back once it is packed, which must not take another tensor's along.
fn check_overlap(infos: &[TensorInfo]) -> Result<(), Fault> {
    let mut order: Vec<usize> = (0..infos.len()).collect();
    order.sort_unstable_by_key(|&i| infos[i].begin);
    for pair in order.windows(2) {
        let (first, second) = (&infos[pair[0]], &infos[pair[1]]);
        if first.begin + first.len > second.begin {
            return Err(Fault::Overlap {
                first: shown(&first.name),
                second: shown(&second.name),
                at: second.begin as u64,
            });
        }
    }
    Ok(())
}
