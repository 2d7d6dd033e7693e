//! The header of a model: metadata and tensor table, without tensor data.

use super::parse::{self, Header};
use super::split::Part;
use super::{Found, GgufError, GgufProblem, Metadata, Strings, TensorType, tensor_type};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The validated header of a model's file, or of all its parts.
#[derive(Debug)]
pub struct GgufHeader {
    pub(super) path: PathBuf,
    pub(super) metadata: Metadata,
    pub(super) parts: Vec<PartInfo>,
    pub(super) tensors: Vec<TensorInfo>,
    pub(super) index_by_name: HashMap<String, usize>,
}

/// File-system metadata of one part.
#[derive(Debug, Clone)]
pub(super) struct PartInfo {
    /// Length in bytes.
    pub len: u64,
    /// Modification time; `None` in memory, or if the system does not provide it.
    pub modified: Option<SystemTime>,
}

/// An entry of the tensor table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name: `blk.0.attn_q.weight`.
    pub name: String,
    /// Dimensions in GGUF order: row length, number of rows, and so on; one to four.
    pub shape: Vec<u64>,
    /// Data type.
    pub kind: TensorType,
    /// Length of its data in bytes.
    pub byte_len: usize,
    pub(super) part: usize,
    pub(super) start: usize,
}

impl TensorInfo {
    /// Elements per row.
    pub fn row_len(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Number of rows: the product of all other dimensions.
    pub fn rows(&self) -> u64 {
        self.shape.iter().skip(1).product()
    }

    /// Total number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

impl GgufHeader {
    /// Reads the header of a GGUF of `file_len` bytes. Memory is bounded and grows with the bytes
    /// that `file` yields.
    ///
    /// # Errors
    /// If reading fails, the header is invalid or exceeds a limit, or the file is a part of a split
    /// model.
    pub fn from_reader(file: impl Read, file_len: u64) -> Result<Self, GgufError> {
        let path = PathBuf::from("GGUF in memory");
        let assembled = parse::parse(file, file_len).and_then(|header| {
            if Part::read(&header.metadata)?.count > 1 {
                return Err(GgufProblem::Split(
                    "a part of a split model can only be opened as a file.".to_owned(),
                ));
            }
            let part = PartInfo {
                len: file_len,
                modified: None,
            };
            Self::assemble(path.clone(), vec![(part, header)])
        });
        assembled.map_err(|problem| GgufError { file: path, problem })
    }

    /// Joins the headers of all parts. The metadata come from the first part.
    pub(super) fn assemble(path: PathBuf, parts: Vec<(PartInfo, Header)>) -> Result<Self, GgufProblem> {
        let mut model = Self {
            path,
            metadata: Metadata::new(),
            parts: Vec::with_capacity(parts.len()),
            tensors: Vec::new(),
            index_by_name: HashMap::new(),
        };
        for (part, (info, header)) in parts.into_iter().enumerate() {
            model.parts.push(info);
            model.tensors.extend(header.tensors.into_iter().map(|entry| TensorInfo {
                name: entry.name,
                shape: entry.shape,
                kind: entry.kind,
                byte_len: entry.len,
                part,
                start: entry.start,
            }));
            if part == 0 {
                model.metadata = header.metadata;
            }
        }
        model.index_by_name = parse::index(model.tensors.iter().map(|tensor| tensor.name.as_str()));
        if model.index_by_name.len() < model.tensors.len() {
            let duplicate = model
                .tensors
                .iter()
                .enumerate()
                .find(|(index, tensor)| model.index_by_name[&tensor.name] != *index);
            let name = duplicate.map(|(_, tensor)| tensor.name.as_str()).unwrap_or_default();
            return Err(GgufProblem::tensor(name, "it is in two parts of the split model"));
        }
        Ok(model)
    }

    /// Path of the file; for a split model, of the first part.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The architecture: `llama`, `qwen2` and so on.
    ///
    /// # Errors
    /// If it is missing or not a string.
    pub fn architecture(&self) -> Result<&str, GgufError> {
        self.required_str("general.architecture")
    }

    /// All tensors in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.tensors.iter()
    }

    /// The table entry of the tensor with this name.
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.index_by_name.get(name).map(|&index| &self.tensors[index])
    }

    /// Size in bytes of all parts together.
    pub fn file_size(&self) -> u64 {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// The number of parameters.
    pub fn parameter_count(&self) -> u64 {
        self.tensors
            .iter()
            .map(TensorInfo::elements)
            .fold(0, u64::saturating_add)
    }

    /// The common name of the quantization, such as `Q4_K_M`: from `general.file_type` if it is
    /// known, otherwise the type with the most bytes.
    pub fn quantization(&self) -> String {
        let file_type = self.metadata.u64("general.file_type").ok().flatten();
        let name = file_type.and_then(tensor_type::file_type_name).unwrap_or_else(|| {
            let mut bytes_by_name: HashMap<&str, u64> = HashMap::new();
            for tensor in &self.tensors {
                *bytes_by_name.entry(tensor.kind.name()).or_default() += tensor.byte_len as u64;
            }
            // Ties are broken by name, so that the result is deterministic.
            bytes_by_name
                .into_iter()
                .max_by_key(|&(name, bytes)| (bytes, name))
                .map_or("none", |(name, _)| name)
        });
        name.to_owned()
    }

    /// Creates an error about this file, for code that interprets its contents.
    pub fn error(&self, problem: GgufProblem) -> GgufError {
        GgufError {
            file: self.path.clone(),
            problem,
        }
    }

    fn require<T>(&self, key: &str, value: Found<T>) -> Result<T, GgufError> {
        value
            .and_then(|value| value.ok_or_else(|| GgufProblem::MissingKey { key: key.to_owned() }))
            .map_err(|problem| self.error(problem))
    }
}

/// Declares the getters of [`Metadata`] on [`GgufHeader`], with errors that name the file, and
/// variants for required keys.
macro_rules! getters {
    ($($get:ident, $required:ident -> $type:ty, $what:literal;)*) => {
        impl GgufHeader {
            $(
                #[doc = concat!($what, " `None` if the key is absent, an error if it has another type.")]
                pub fn $get(&self, key: &str) -> Result<Option<$type>, GgufError> {
                    self.metadata.$get(key).map_err(|problem| self.error(problem))
                }

                #[doc = concat!($what, " An error if the key is absent or has another type.")]
                pub fn $required(&self, key: &str) -> Result<$type, GgufError> {
                    self.require(key, self.metadata.$get(key))
                }
            )*
        }
    };
}

getters! {
    u32, required_u32 -> u32, "An integer of any width whose value fits `u32`.";
    u64, required_u64 -> u64, "A non-negative integer of any width.";
    f32, required_f32 -> f32, "A float of either width.";
    bool, required_bool -> bool, "A boolean.";
    str, required_str -> &str, "A string.";
    strings, required_strings -> &Strings, "An array of strings.";
    f32s, required_f32s -> Cow<'_, [f32]>, "An array of floats of either width.";
    i32s, required_i32s -> Cow<'_, [i32]>, "An array of integers whose values fit `i32`.";
    u32s, required_u32s -> Cow<'_, [u32]>, "An array of integers whose values fit `u32`.";
    bools, required_bools -> &[bool], "An array of booleans.";
}
