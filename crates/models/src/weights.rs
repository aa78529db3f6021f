//! The weights of a model: which of them are packed, and bringing them to memory.

use std::ops::Range;
use std::sync::Arc;

use cera_core::graph::MatrixInfo;
use cera_core::{ByteSource, Matrix, MatrixShape, pack_all};
use cera_quant::pack::packed_bytes;

use crate::ModelError;
use crate::gguf::{GgufSet, LoadMode, TensorData, TensorInfo};
use crate::model::{LoadProgress, ModelOptions};

/// The data of one tensor of a file in memory, kept by keeping the file.
#[derive(Debug)]
struct TensorBytes {
    file: Arc<GgufSet>,
    info: TensorInfo,
}

impl ByteSource for TensorBytes {
    fn bytes(&self) -> &[u8] {
        self.file.mapped_data(&self.info).unwrap_or_default()
    }

    fn will_need(&self, range: Range<usize>) {
        self.file.prefetch_part(&self.info, range);
    }

    fn release(&self, range: Range<usize>) {
        self.file.release_part(&self.info, range);
    }
}

/// Which matrices are packed at load.
#[derive(Debug)]
pub(crate) struct Plan {
    /// By their places in the graph, in increasing order.
    packed: Vec<usize>,
    /// Bytes for experts that are packed when they are chosen, if not all are packed at load.
    resident: Option<usize>,
}

impl Plan {
    /// Packs everything that is multiplied, if it is to be packed and has room.
    ///
    /// # Errors
    /// [`ModelError::Memory`] if what every token needs has no room, [`ModelError::Unsupported`] for experts without room in a
    /// file that is not mapped.
    pub(crate) fn new(
        file: &GgufSet,
        infos: &[MatrixInfo],
        options: &ModelOptions,
    ) -> Result<Plan, ModelError> {
        let all: Vec<usize> = (0..infos.len()).filter(|&i| options.repack && infos[i].matmul).collect();
        let Some(budget) = options.memory else { return Ok(Plan { packed: all, resident: None }) };
        let bytes = |i: usize| -> Result<usize, ModelError> {
            let MatrixShape { format, stack, m, k } = infos[i].shape();
            Ok(packed_bytes(format, m, k)?.saturating_mul(stack))
        };
        let (mut every, mut experts) = (0usize, 0usize);
        for &i in &all {
            let sum = if infos[i].experts { &mut experts } else { &mut every };
            *sum = sum.saturating_add(bytes(i)?);
        }
        let Some(room) = budget.checked_sub(every) else {
            return Err(ModelError::Memory { file: file.name().to_owned(), budget, needed: every });
        };
        if experts <= room {
            return Ok(Plan { packed: all, resident: None });
        }
        if options.load != LoadMode::Map {
            let what = "a memory budget for the experts of a file that is read rather than mapped";
            return Err(ModelError::Unsupported { file: file.name().to_owned(), what: what.to_owned() });
        }
        let packed = all.into_iter().filter(|&i| !infos[i].experts).collect();
        Ok(Plan { packed, resident: Some(room) })
    }

    /// Bytes for experts that are packed when they are chosen, if not all are packed at load.
    pub(crate) fn resident_budget(&self) -> Option<usize> {
        self.resident
    }

    /// The weights of a graph. Each tensor of a file that is read is in memory only until it is packed, and pages of a
    /// mapped file are given back as their tensors are packed.
    pub(crate) fn load(
        &self,
        file: &Arc<GgufSet>,
        infos: &[MatrixInfo],
        width: usize,
        progress: &mut dyn FnMut(LoadProgress<'_>),
    ) -> Result<Vec<Matrix>, ModelError> {
        let packed = &self.packed;
        let tensors: Vec<&TensorInfo> =
            infos.iter().map(|info| file.expect_tensor(&info.name)).collect::<Result<_, _>>()?;
        let shapes: Vec<MatrixShape> = packed.iter().map(|&i| infos[i].shape()).collect();
        let total = packed.iter().map(|&i| byte_range(&infos[i], tensors[i]).len()).sum();
        let mut bytes = 0;
        let mut arena = pack_all(
            &shapes,
            width,
            |p| plain(file, &infos[packed[p]], tensors[packed[p]]),
            |p| {
                let (info, tensor) = (&infos[packed[p]], tensors[packed[p]]);
                let range = byte_range(info, tensor);
                if range.end == tensor.byte_len() {
                    file.release(tensor);
                }
                bytes += range.len();
                progress(LoadProgress { tensor: tensor.name(), bytes, total });
            },
        )?
        .into_iter();
        let weight = |(i, info)| match packed.binary_search(&i).ok().and_then(|_| arena.next()) {
            Some(matrix) => Ok(matrix),
            None => plain(file, info, tensors[i]),
        };
        infos.iter().enumerate().map(weight).collect()
    }
}

/// A matrix as it stands in the file.
fn plain(file: &Arc<GgufSet>, info: &MatrixInfo, tensor: &TensorInfo) -> Result<Matrix, ModelError> {
    let source: Arc<dyn ByteSource> = match file.tensor_data(tensor)? {
        TensorData::Borrowed(_) => Arc::new(TensorBytes { file: file.clone(), info: tensor.clone() }),
        TensorData::Owned(bytes) => Arc::new(bytes),
    };
    let rows = Matrix::plain(info.format, (info.stack * info.m, info.k), source, byte_range(info, tensor))?;
    Ok(rows.stacked(info.stack)?)
}

/// Where the rows of a matrix stand in its tensor.
fn byte_range(info: &MatrixInfo, tensor: &TensorInfo) -> Range<usize> {
    let row = tensor.byte_len() / tensor.rows().max(1);
    info.first_row * row..(info.first_row + info.stack * info.m) * row
}
