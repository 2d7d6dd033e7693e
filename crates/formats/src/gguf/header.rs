//! What the header of a model says: metadata and tensor table, without the tensors' data.

use super::parse::{self, Header};
use super::split::Part;
use super::{Found, GgufError, GgufProblem, Metadata, Strings, TensorType, tensor_type};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The checked header of one model's file, or files.
#[derive(Debug)]
pub struct GgufHeader {
    pub(super) path: PathBuf,
    pub(super) metadata: Metadata,
    pub(super) parts: Vec<PartInfo>,
    pub(super) tensors: Vec<TensorInfo>,
    pub(super) places: HashMap<String, usize>,
}

/// What the system says of one file of a model.
#[derive(Debug, Clone)]
pub(super) struct PartInfo {
    /// Its bytes.
    pub len: u64,
    /// When it was last written to; none in memory, and where the system does not say.
    pub modified: Option<SystemTime>,
}

/// What the table says of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name: `blk.0.attn_q.weight`.
    pub name: String,
    /// Its dimensions, row length first, then the number of rows, and so on; one to four of them.
    pub shape: Vec<u64>,
    /// How its data is laid out.
    pub kind: TensorType,
    /// Bytes of its data.
    pub byte_len: usize,
    pub(super) part: usize,
    pub(super) start: usize,
}

impl TensorInfo {
    /// Elements of a row.
    pub fn row_len(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Rows, over all other dimensions.
    pub fn rows(&self) -> u64 {
        self.shape.iter().skip(1).product()
    }

    /// Elements in all.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

impl GgufHeader {
    /// Reads the header of a GGUF of `file_len` bytes from its beginning. Memory is bounded, and grows with the bytes that
    /// `file` yields.
    ///
    /// # Errors
    /// Where reading fails, where anything in the header cannot be right, or where it is beyond what any known model has; a
    /// part of a split model is refused.
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

    /// Joins the parts; the metadata are those of the first.
    pub(super) fn assemble(path: PathBuf, parts: Vec<(PartInfo, Header)>) -> Result<Self, GgufProblem> {
        let mut model = Self {
            path,
            metadata: Metadata::new(),
            parts: Vec::with_capacity(parts.len()),
            tensors: Vec::new(),
            places: HashMap::new(),
        };
        for (part, (about, header)) in parts.into_iter().enumerate() {
            model.parts.push(about);
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
        model.places = parse::index(model.tensors.iter().map(|tensor| tensor.name.as_str()));
        if model.places.len() < model.tensors.len() {
            let twice = model
                .tensors
                .iter()
                .enumerate()
                .find(|(place, tensor)| model.places[&tensor.name] != *place);
            let name = twice.map(|(_, tensor)| tensor.name.as_str()).unwrap_or_default();
            return Err(GgufProblem::tensor(name, "it is in two parts of the split model"));
        }
        Ok(model)
    }

    /// The file; of a split model the first part.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The architecture: `llama`, `qwen2` and so on.
    ///
    /// # Errors
    /// Where it is missing or no text.
    pub fn architecture(&self) -> Result<&str, GgufError> {
        self.required_str("general.architecture")
    }

    /// All tensors, in the order of the file.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.tensors.iter()
    }

    /// A line of the tensor table, by the tensor's name.
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.places.get(name).map(|&place| &self.tensors[place])
    }

    /// Bytes of the file, of all parts together.
    pub fn file_size(&self) -> u64 {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// The number of weights.
    pub fn parameter_count(&self) -> u64 {
        self.tensors
            .iter()
            .map(TensorInfo::elements)
            .fold(0, u64::saturating_add)
    }

    /// The quantisation, as people call it: `Q4_K_M`. From `general.file_type`, or else the type of the most bytes.
    pub fn quantization(&self) -> String {
        let named = self
            .metadata
            .u64("general.file_type")
            .ok()
            .flatten()
            .and_then(tensor_type::file_type_name);
        let name = named.unwrap_or_else(|| {
            let mut bytes: HashMap<&str, u64> = HashMap::new();
            for tensor in &self.tensors {
                *bytes.entry(tensor.kind.name()).or_default() += tensor.byte_len as u64;
            }
            // By name where two are equal, so that the answer is always the same.
            bytes
                .into_iter()
                .max_by_key(|&(name, bytes)| (bytes, name))
                .map_or("none", |(name, _)| name)
        });
        name.to_owned()
    }

    /// An error about this file, for those who read more out of it than this module does.
    pub fn error(&self, problem: GgufProblem) -> GgufError {
        GgufError {
            file: self.path.clone(),
            problem,
        }
    }

    fn require<T>(&self, key: &str, found: Found<T>) -> Result<T, GgufError> {
        found
            .and_then(|value| value.ok_or_else(|| GgufProblem::MissingKey { key: key.to_owned() }))
            .map_err(|p| self.error(p))
    }
}

/// Declares the getters of [`Metadata`] on [`GgufHeader`], with errors that name the file, and those for keys that must be there.
macro_rules! getters {
    ($($get:ident, $required:ident -> $type:ty, $what:literal;)*) => {
        impl GgufHeader {
            $(
                #[doc = concat!($what, " None where the key is absent, an error where it is something else.")]
                pub fn $get(&self, key: &str) -> Result<Option<$type>, GgufError> {
                    self.metadata.$get(key).map_err(|problem| self.error(problem))
                }

                #[doc = concat!($what, " An error where the key is absent or something else.")]
                pub fn $required(&self, key: &str) -> Result<$type, GgufError> {
                    self.require(key, self.metadata.$get(key))
                }
            )*
        }
    };
}

getters! {
    u32, required_u32 -> u32, "A whole number of any integer type that fits 32 bits.";
    u64, required_u64 -> u64, "A whole number of any integer type, not negative.";
    f32, required_f32 -> f32, "A float of either width.";
    bool, required_bool -> bool, "A boolean.";
    str, required_str -> &str, "A text.";
    strings, required_strings -> &Strings, "An array of texts.";
    f32s, required_f32s -> Cow<'_, [f32]>, "An array of floats of either width.";
    i32s, required_i32s -> Cow<'_, [i32]>, "An array of integers that fit 32 bits with a sign.";
    u32s, required_u32s -> Cow<'_, [u32]>, "An array of integers, not negative, that fit 32 bits.";
    bools, required_bools -> &[bool], "An array of booleans.";
}
