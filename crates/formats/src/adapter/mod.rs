//! LoRA adapters: reading and writing them as PEFT folders and as llama.cpp's GGUF files. In memory
//! the rows of an adapter are always in GGUF order. Hearth saves an adapter as a PEFT folder with
//! an [`AdapterManifest`], so that it can be refused for another model.

mod base;
mod base_record;
mod error;
mod fingerprint;
mod gguf_lora;
mod header;
mod manifest;
mod modelfile;
mod modules;
mod peft;
mod peft_config;
mod python_pattern;
mod row_order;
mod safetensors_file;
mod target;
mod unmatched;
mod values;

pub use crate::shape::LinearName;
pub use base::BaseShape;
pub use error::{AdapterError, AdapterProblem};
pub use fingerprint::Fingerprint;
pub use header::{AdapterHeader, LinearShape, Mismatch};
pub use manifest::{AdapterManifest, BaseId, DataId, MERGED_KEY};
pub use modelfile::modelfile;
pub use peft::{MANIFEST as PEFT_MANIFEST, TENSORS as PEFT_TENSORS};
pub use peft_config::{CONFIG as PEFT_CONFIG, MAX_CONFIG_BYTES as MAX_PEFT_CONFIG_BYTES};
pub use row_order::RowOrder;
pub use target::{ModuleName, TargetName};
pub use unmatched::UnmatchedEntries;

use crate::Architecture;
use crate::gguf::{GgufFile, TensorData};
use crate::shape::Module;
use header::TargetShape;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use values::ReadMode;

/// A LoRA adapter: adds `scale * B (A x)` to each linear `y = W x` that it targets.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterFile {
    /// The path it was read from, for errors; empty for an adapter made in memory.
    pub path: PathBuf,
    /// The architecture of its base model.
    pub architecture: String,
    /// The name of its base model, if given.
    pub base_name: Option<String>,
    /// Whether the scale is `alpha / sqrt(rank)` (rsLoRA) instead of `alpha / rank`.
    pub rslora: bool,
    /// The matrices of each target.
    pub tensors: BTreeMap<TargetName, LoraTensors>,
    /// The manifest of an adapter trained by Hearth; `None` for any other.
    pub manifest: Option<AdapterManifest>,
    /// Entries of its PEFT configuration that match no module, so that they have no effect.
    pub unmatched: Vec<UnmatchedEntries>,
}

/// The LoRA matrices A and B of one linear.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraTensors {
    /// A: `[rank, inputs]`, row-major.
    pub a: Vec<f32>,
    /// B: `[outputs, rank]`, row-major; rows in GGUF order.
    pub b: Vec<f32>,
    /// Rank: the inner dimension of A and B.
    pub rank: usize,
    /// Input features of the linear.
    pub inputs: usize,
    /// Output features of the linear.
    pub outputs: usize,
    /// Alpha: the scale before division by the rank (or its square root).
    pub alpha: f32,
}

/// Compatibility of an adapter with a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// Trained on this file.
    Exact,
    /// Trained on another quantization of this model, or on a model fine-tuned from it: the sizes
    /// and norms are the same, but not the weights.
    OtherQuantization {
        /// Name of the file that it was trained on.
        file: String,
    },
    /// No manifest: only the sizes were compared, and they match.
    SizesOnly,
}

impl LoraTensors {
    /// The scale of the product, with `rslora` as in [`AdapterFile`].
    fn scale(&self, rslora: bool) -> f32 {
        let rank = self.rank as f32;
        self.alpha / if rslora { rank.sqrt() } else { rank }
    }

    /// Returns why the shape is invalid, without reading any values.
    fn shape_problem(rank: usize, inputs: usize, outputs: usize) -> Option<String> {
        (rank == 0 || rank > inputs.min(outputs))
            .then(|| format!("its rank is {rank}, but the layer is {outputs} x {inputs}"))
    }

    /// Returns why the matrices are invalid: lengths that do not match the shape, a rank of zero,
    /// or NaN or infinite values; if `limits_rank`, also a rank larger than the linear.
    fn problem(&self, limits_rank: bool) -> Option<String> {
        let Self {
            rank, inputs, outputs, ..
        } = *self;
        let most = if limits_rank { outputs } else { usize::MAX };
        if rank == 0 || rank > most.min(inputs) {
            return Self::shape_problem(rank, inputs, outputs);
        }
        if rank.checked_mul(inputs) != Some(self.a.len()) || rank.checked_mul(outputs) != Some(self.b.len()) {
            return Some("the lengths of its matrices do not match its shape".to_owned());
        }
        if !self.alpha.is_finite() {
            return Some(format!("its alpha is {}", self.alpha));
        }
        let is_finite = self.a.iter().chain(&self.b).all(|value| value.is_finite());
        (!is_finite).then(|| "it holds values that are NaN or infinite".to_owned())
    }
}

impl AdapterFile {
    /// Reads an adapter from a GGUF file or a PEFT folder, for a model of this shape. A mismatched
    /// target is refused before its values are read.
    ///
    /// # Errors
    /// If it cannot be read, is corrupt or unsupported. Use [`AdapterFile::check_base`] to check
    /// that it belongs to a model.
    pub fn open(path: &Path, base: &BaseShape) -> Result<Self, AdapterError> {
        Self::read(path, base, ReadMode::Load)
    }

    /// Checks an adapter for a model as [`AdapterFile::open`] and [`AdapterFile::check_base`] do,
    /// holding the values of one target in memory at a time.
    ///
    /// # Errors
    /// As for these methods.
    pub fn check_file(path: &Path, model: &GgufFile) -> Result<Fit, AdapterError> {
        let base = BaseShape::from_gguf(model)?;
        Self::read(path, &base, ReadMode::Check)?.check_base(model)
    }

    fn read(path: &Path, base: &BaseShape, mode: ReadMode) -> Result<Self, AdapterError> {
        let mut adapter = if path.is_dir() {
            peft::read_folder(path, base, mode)?
        } else {
            let gguf = GgufFile::open(path).map_err(|error| AdapterError::new(path, error))?;
            gguf_lora::read(&gguf, Some(base), mode).map_err(|problem| AdapterError::new(path, problem))?
        };
        path.clone_into(&mut adapter.path);
        Ok(adapter)
    }

    /// The scale of a target's LoRA product; `None` if the adapter does not target it.
    pub fn scale(&self, target: TargetName) -> Option<f32> {
        let lora = self.tensors.get(&target)?;
        Some(lora.scale(self.rslora))
    }

    /// Checks that the adapter belongs to this model and returns how well it fits.
    ///
    /// # Errors
    /// If the architecture, a layer or a shape does not match, the manifest names another model, or
    /// the model cannot be read.
    pub fn check_base(&self, gguf: &impl TensorData) -> Result<Fit, AdapterError> {
        let refuse = |reason: String| Err(AdapterError::new(&self.path, AdapterProblem::OtherModel(reason)));
        let base = BaseShape::from_gguf(gguf)?;
        if let Some(mismatch) = base.architecture_mismatch(&self.architecture) {
            return refuse(mismatch);
        }
        if let Some(mismatch) = self
            .manifest
            .as_ref()
            .and_then(|manifest| manifest.base.shape.mismatch(&base))
        {
            return refuse(mismatch);
        }
        for (target, lora) in &self.tensors {
            if target.layer >= base.layers.len() {
                return refuse(base.no_such_target(*target));
            }
            match base.weight_shape(gguf, *target) {
                Some(shape) if shape == [lora.inputs as u64, lora.outputs as u64] => {}
                Some(shape) => {
                    return refuse(format!(
                        "its matrices for {target} are for {} x {}, but this model's weight is {}",
                        lora.inputs,
                        lora.outputs,
                        shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")
                    ));
                }
                None => return refuse(base.no_such_target(*target)),
            }
        }
        let Some(manifest) = &self.manifest else {
            return Ok(Fit::SizesOnly);
        };
        let fingerprint = Fingerprint::from_gguf(gguf).map_err(|error| AdapterError::new(gguf.path(), error))?;
        let trained_on = &manifest.base;
        if trained_on.fingerprint == fingerprint {
            return Ok(Fit::Exact);
        }
        if trained_on.fingerprint.model == fingerprint.model {
            return Ok(Fit::OtherQuantization {
                file: trained_on.file.clone(),
            });
        }
        refuse(format!(
            "it was trained on '{}', which has the same sizes as this model but different weights",
            trained_on.file
        ))
    }

    /// Validates the adapter before it is written: at least one target, and valid values for each.
    fn check(&self) -> Result<(), AdapterProblem> {
        self.check_not_empty()?;
        let architecture = Architecture::named(&self.architecture);
        for (&target, lora) in &self.tensors {
            let module = architecture.map(|architecture| architecture.module_with(target.linear));
            // The rank of fused linears is limited by the rows of all of them, when it is written.
            let is_part = matches!(module, Some(Module::Fused(_)));
            if let Some(problem) = lora.problem(!is_part) {
                return Err(AdapterProblem::target(target, problem));
            }
        }
        Ok(())
    }

    /// Refuses an adapter without targets.
    fn check_not_empty(&self) -> Result<(), AdapterProblem> {
        if self.tensors.is_empty() {
            Err(AdapterProblem::NotAnAdapter("it targets no weight".to_owned()))
        } else {
            Ok(())
        }
    }
}
