//! GGUF, the file format of local models: metadata, then a table of tensors, then their data.
//!
//! [`Gguf::open`] maps a file and checks all of its header; the tensors' bytes are used where they lie.
//! [`GgufWriter`] writes one. Little-endian, versions 2 and 3.

mod error;
mod identity;
mod metadata;
mod parse;
mod source;
mod split;
mod tensor_type;
mod value;
mod write;

pub use error::{GgufError, GgufProblem};
pub use identity::Identity;
pub use metadata::{Found, Metadata};
pub use tensor_type::TensorType;
pub use value::{Array, Strings, Value};
pub use write::{GgufWriter, TensorHeader};

use parse::Header;
use source::Source;
use split::Part;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// One model's file, or files, mapped and checked. It may be shared between threads.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    metadata: Metadata,
    parts: Vec<Source>,
    tensors: Vec<TensorInfo>,
    places: HashMap<String, usize>,
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
    part: usize,
    start: usize,
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

/// One tensor of a file.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    /// What the table says of it.
    pub info: &'a TensorInfo,
    bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// Its data, as it lies in the file: [`TensorInfo::byte_len`] bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl Gguf {
    /// Maps a model and checks its header. Of a split model any part may be named; the others are found by their names.
    ///
    /// # Errors
    /// Where the file cannot be mapped, or where anything in it cannot be right.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GgufError> {
        let path = path.as_ref();
        let (source, header) = open_part(path)?;
        let at_path = |problem| GgufError {
            file: path.to_owned(),
            problem,
        };
        let part = Part::read(&header.metadata).map_err(at_path)?;
        if part.count == 1 {
            return Self::assemble(path.to_owned(), vec![(source, header)]).map_err(at_path);
        }
        let mut opened = Some((source, header));
        let mut parts = Vec::new();
        for number in 0..part.count {
            if number == part.number
                && let Some(this) = opened.take()
            {
                parts.push(this);
                continue;
            }
            let other = split::sibling(path, part, number).map_err(at_path)?;
            if !other.exists() {
                return Err(at_path(GgufProblem::Split(format!(
                    "this is part {} of {} of a split model, but '{}' is missing. Put all parts into one folder.",
                    part.number + 1,
                    part.count,
                    other.display()
                ))));
            }
            let (source, header) = open_part(&other)?;
            let says = Part::read(&header.metadata).map_err(|problem| GgufError {
                file: other.clone(),
                problem,
            })?;
            if says != (Part { number, ..part }) {
                return Err(GgufError {
                    file: other,
                    problem: GgufProblem::Split(format!(
                        "it does not belong to '{}': the two do not agree on the number of parts or tensors. Download all \
                         parts again.",
                        path.display()
                    )),
                });
            }
            parts.push((source, header));
        }
        let first = split::sibling(path, part, 0).map_err(at_path)?;
        let model = Self::assemble(first, parts).map_err(at_path)?;
        match part.tensors {
            Some(count) if count != model.tensors.len() as u64 => Err(at_path(GgufProblem::Split(format!(
                "the parts of this split model hold {} tensors together, not the {count} they should. Download all parts \
                 again.",
                model.tensors.len()
            )))),
            _ => Ok(model),
        }
    }

    /// Reads a file that is already in memory.
    ///
    /// # Errors
    /// As [`Gguf::open`]; a part of a split model is refused.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, GgufError> {
        let file = PathBuf::from("GGUF in memory");
        let assembled = (|| {
            let header = parse::parse(&bytes)?;
            if Part::read(&header.metadata)?.count > 1 {
                return Err(GgufProblem::Split(
                    "a part of a split model can only be opened as a file.".to_owned(),
                ));
            }
            Self::assemble(file.clone(), vec![(Source::copy(&bytes)?, header)])
        })();
        assembled.map_err(|problem| GgufError { file, problem })
    }

    /// Joins the parts; the metadata are those of the first.
    fn assemble(path: PathBuf, parts: Vec<(Source, Header)>) -> Result<Self, GgufProblem> {
        let mut model = Self {
            path,
            metadata: Metadata::new(),
            parts: Vec::with_capacity(parts.len()),
            tensors: Vec::new(),
            places: HashMap::new(),
        };
        for (part, (source, header)) in parts.into_iter().enumerate() {
            model.parts.push(source);
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

    /// A tensor by name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let info = &self.tensors[*self.places.get(name)?];
        Some(Tensor {
            info,
            bytes: &self.parts[info.part].bytes()[info.start..info.start + info.byte_len],
        })
    }

    /// Tells this file from others by what can be read of it at once; none for a file in memory.
    pub fn identity(&self) -> Option<Identity> {
        Identity::of(&self.parts)
    }

    /// Lets the mapped pages of a tensor go, once its bytes were copied elsewhere; they are read from the file again when
    /// touched. Does nothing for a file in memory, and on systems that have no such advice.
    pub fn release(&self, tensor: &TensorInfo) {
        if let Some(part) = self.parts.get(tensor.part) {
            // An info from another file could point anywhere.
            let end = tensor.start.saturating_add(tensor.byte_len).min(part.bytes().len());
            part.release(tensor.start, end.saturating_sub(tensor.start));
        }
    }

    /// As [`Gguf::release`], for all tensors at once.
    pub fn release_all(&self) {
        for part in &self.parts {
            part.release(0, part.bytes().len());
        }
    }

    /// Bytes of the file, of all parts together.
    pub fn file_size(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes().len() as u64).sum()
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

/// Declares the getters of [`Metadata`] on [`Gguf`], with errors that name the file, and those for keys that must be there.
macro_rules! getters {
    ($($get:ident, $required:ident -> $type:ty, $what:literal;)*) => {
        impl Gguf {
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

/// Maps one part and reads its header.
fn open_part(path: &Path) -> Result<(Source, Header), GgufError> {
    let opened = Source::map(path).map_err(GgufProblem::Io).and_then(|source| {
        let header = parse::parse(source.bytes())?;
        Ok((source, header))
    });
    opened.map_err(|problem| GgufError {
        file: path.to_owned(),
        problem,
    })
}
