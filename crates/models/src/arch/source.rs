//! Weights by name, with their shapes checked.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;

use cera_core::graph::{GraphBuilder, MatrixId, VectorId};
use cera_quant::Format;
use cera_quant::blocks::dequantize_row;

use super::params::Params;
use crate::ModelError;
use crate::gguf::{GgufSet, Meta, TensorInfo, shown};

/// A tensor of old files that repeats what the metadata says of the rotary embedding.
const INERT: &str = "attn_rot_embd";

/// A model file as architectures read it. It remembers which tensors were asked for.
pub(super) struct Source<'a> {
    file: &'a GgufSet,
    used: RefCell<HashSet<&'a str>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a GgufSet) -> Source<'a> {
        Source { file, used: RefCell::default() }
    }

    /// The hyper-parameters.
    pub(super) fn meta(&self) -> Meta<'a> {
        self.file.meta()
    }

    /// Layers.
    pub(super) fn layers(&self) -> Result<usize, ModelError> {
        Ok(self.file.layer_count()?)
    }

    /// Whether the file has this tensor.
    pub(super) fn has(&self, name: &str) -> bool {
        self.file.tensor(name).is_some()
    }

    /// Rows of a tensor: its second dimension.
    pub(super) fn rows(&self, name: &str) -> Result<usize, ModelError> {
        Ok(self.file.expect_tensor(name)?.rows())
    }

    /// Whether the first layer with attention has a matrix of queries with the heads that the metadata state: before sizes
    /// that come from metadata alone are believed.
    pub(super) fn check_heads(&self, params: &Params) -> Result<(), ModelError> {
        let Some(layer) = params.kv_heads.iter().position(|&kv| kv != 0) else { return Ok(()) };
        let [q, k, v] = params.qkv_widths(layer);
        let fused = format!("blk.{layer}.attn_qkv.weight");
        let (name, m) = match self.has(&fused) {
            true => (fused, q + k + v),
            false => (format!("blk.{layer}.attn_q.weight"), q),
        };
        self.tensor(&name, &[params.hidden as u64, m as u64]).map(drop)
    }

    /// Whether the tensor `name` is a matrix of `m` rows of `k` elements.
    pub(super) fn check_matrix(&self, name: &str, (m, k): (usize, usize)) -> Result<(), ModelError> {
        self.tensor(name, &[k as u64, m as u64]).map(drop)
    }

    /// The matrix `name` of `m` rows of `k` elements.
    pub(super) fn matrix(
        &self,
        g: &mut GraphBuilder,
        name: &str,
        (m, k): (usize, usize),
    ) -> Result<MatrixId, ModelError> {
        self.matrix_rows(g, name, 0..m, (m, k))
    }

    /// Some rows of the matrix `name` of `m` rows of `k` elements, as a matrix of their own.
    pub(super) fn matrix_rows(
        &self,
        g: &mut GraphBuilder,
        name: &str,
        rows: Range<usize>,
        (m, k): (usize, usize),
    ) -> Result<MatrixId, ModelError> {
        let (info, format) = self.tensor(name, &[k as u64, m as u64])?;
        Ok(g.matrix_rows(info.name(), format, rows, k))
    }

    /// The tensor `name` as a stack of `stack` matrices of `m` rows of `k` elements.
    pub(super) fn matrix_stack(
        &self,
        g: &mut GraphBuilder,
        name: &str,
        (stack, m, k): (usize, usize, usize),
    ) -> Result<MatrixId, ModelError> {
        let (info, format) = self.tensor(name, &[k as u64, m as u64, stack as u64])?;
        Ok(g.matrix_stack(info.name(), format, stack, (m, k)))
    }

    /// The vector `name` of `len` elements.
    pub(super) fn vector(
        &self,
        g: &mut GraphBuilder,
        name: &str,
        len: usize,
    ) -> Result<VectorId, ModelError> {
        Ok(g.vector(self.values(name, len)?))
    }

    /// Some elements of the vector `name` of `len` elements, if the file has it.
    pub(super) fn vector_opt(
        &self,
        g: &mut GraphBuilder,
        name: &str,
        elements: Range<usize>,
        len: usize,
    ) -> Result<Option<VectorId>, ModelError> {
        if !self.has(name) {
            return Ok(None);
        }
        Ok(Some(g.vector(self.values(name, len)?[elements].to_vec())))
    }

    /// The elements of the vector `name`.
    pub(super) fn values(&self, name: &str, len: usize) -> Result<Vec<f32>, ModelError> {
        self.elements(name, &[len as u64], len)
    }

    /// The elements of the table `name` of `m` rows of `k` elements, row after row.
    pub(super) fn table(&self, name: &str, (m, k): (usize, usize)) -> Result<Vec<f32>, ModelError> {
        self.elements(name, &[k as u64, m as u64], k)
    }

    /// The elements of the tensor `name`, in rows of `k`.
    fn elements(&self, name: &str, dims: &[u64], k: usize) -> Result<Vec<f32>, ModelError> {
        let (info, format) = self.tensor(name, dims)?;
        let data = self.file.tensor_data(info)?;
        let mut out = vec![0.0; info.elements() as usize];
        let rows = data.chunks_exact(data.len() / info.rows().max(1));
        for (row, out) in rows.zip(out.chunks_exact_mut(k)) {
            dequantize_row(format, row, out)?;
        }
        Ok(out)
    }

    /// What the model needs and cannot have.
    pub(super) fn unsupported(&self, what: impl Into<String>) -> ModelError {
        ModelError::Unsupported { file: self.file.name().to_owned(), what: what.into() }
    }

    /// That a number of the metadata or of a tensor is finite and above zero.
    pub(super) fn expect_positive(&self, what: &str, value: f32) -> Result<(), ModelError> {
        if value.is_finite() && value > 0.0 {
            return Ok(());
        }
        Err(self.unsupported(format!("{value} for {what}")))
    }

    /// The factor at a key, which must be finite and above zero, if the file has one.
    pub(super) fn factor(&self, key: &str) -> Result<Option<f32>, ModelError> {
        let factor = self.meta().f32_opt(&format!("{{arch}}.{key}"))?;
        factor.map(|factor| self.expect_positive(key, factor).map(|()| factor)).transpose()
    }

    /// That the model is no mixture of experts.
    pub(super) fn expect_dense(&self) -> Result<(), ModelError> {
        match self.meta().u32_or("{arch}.expert_count", 0)? {
            0 => Ok(()),
            _ => Err(self.unsupported("a mixture of experts (expert_count)")),
        }
    }

    /// Takes the tensors of the layers from one on, which the graph does without, as asked for.
    pub(super) fn leave_out_from(&self, first: usize) {
        let left_out = |name: &&str| {
            let layer = name.strip_prefix("blk.").and_then(|name| name.split_once('.'));
            layer.and_then(|(layer, _)| layer.parse().ok()).is_some_and(|layer: usize| layer >= first)
        };
        let names = self.file.tensors().iter().map(TensorInfo::name);
        self.used.borrow_mut().extend(names.filter(left_out));
    }

    /// That every tensor of the file was asked for: a model with others is not the one that the graph computes.
    pub(super) fn expect_all_used(&self) -> Result<(), ModelError> {
        let used = self.used.borrow();
        let mut names = self.file.tensors().iter().map(TensorInfo::name);
        match names.find(|name| !used.contains(name) && !name.contains(INERT)) {
            Some(name) => Err(self.unsupported(format!("tensor {} in this architecture", shown(name)))),
            None => Ok(()),
        }
    }

    fn tensor(&self, name: &str, dims: &[u64]) -> Result<(&'a TensorInfo, Format), ModelError> {
        let info = self.file.expect_tensor(name)?;
        self.used.borrow_mut().insert(info.name());
        // Trailing dimensions of 1 carry nothing.
        let used = info.dims().len() - info.dims().iter().rev().take_while(|&&d| d == 1).count();
        let wanted = dims.len() - dims.iter().rev().take_while(|&&d| d == 1).count();
        if info.dims()[..used] != dims[..wanted] {
            let (expected, found) = (dims.to_vec(), info.dims().to_vec());
            let (file, tensor) = (self.file.name().to_owned(), name.to_owned());
            return Err(ModelError::Shape { file, tensor, expected, found });
        }
        let format = info
            .ty()
            .format()
            .ok_or_else(|| self.unsupported(format!("type {} of tensor {name}", info.ty().name())))?;
        Ok((info, format))
    }
}
