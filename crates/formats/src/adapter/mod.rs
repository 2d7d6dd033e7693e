//! LoRA adapters: what a fine-tuning leaves behind, read from and written for PEFT and llama.cpp.
//!
//! In memory an adapter always has the GGUF's order of rows. An adapter that Hearth trained is a folder of PEFT's with a
//! [`Passport`] in it, so that it can be refused where it does not belong.

mod base;
mod error;
mod fingerprint;
mod gguf_lora;
mod modelfile;
mod numbers;
mod passport;
mod peft;
mod peft_config;
mod safetensors_file;
mod target;
mod whole;

pub use base::BaseShape;
pub use error::{AdapterError, AdapterProblem};
pub use fingerprint::Fingerprint;
pub use modelfile::modelfile;
pub use passport::{BaseId, DataId, Passport};
pub use target::{LinearName, TargetName};
pub use whole::write_whole;

use crate::gguf::{GgufFile, TensorData};
use numbers::Numbers;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A LoRA adapter: to each linear `y = W x` that it names it adds `scale * B (A x)`.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterFile {
    /// Where it was read from, for errors; empty where it was made in memory.
    pub path: PathBuf,
    /// The architecture of the models it may change.
    pub architecture: String,
    /// What it says its base is called, if anything.
    pub base_name: Option<String>,
    /// Whether the scale is alpha over the root of the rank (rsLoRA), not over the rank.
    pub rslora: bool,
    /// Its matrices.
    pub tensors: BTreeMap<TargetName, LoraTensors>,
    /// What Hearth wrote down when it trained it; others' adapters have none.
    pub passport: Option<Passport>,
}

/// The two matrices for one linear.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraTensors {
    /// `[rank, inputs]`, row after row.
    pub a: Vec<f32>,
    /// `[outputs, rank]`, row after row; the rows in the GGUF's order.
    pub b: Vec<f32>,
    /// Numbers between the two.
    pub rank: usize,
    /// Inputs of the linear.
    pub inputs: usize,
    /// Outputs of the linear.
    pub outputs: usize,
    /// What the product is multiplied by, before it is divided for the rank.
    pub alpha: f32,
}

/// How well an adapter fits a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// It was trained on this very file.
    Exact,
    /// It was trained on another quantisation of this model, or on one that was tuned from the same: a sentence to show.
    OtherQuantization(String),
    /// It has no passport; its sizes fit, which is all that can be known.
    SizesOnly,
}

impl LoraTensors {
    /// What is wrong with the sizes, before a number is read.
    fn size_problem(rank: usize, inputs: usize, outputs: usize) -> Option<String> {
        (rank == 0 || rank > inputs.min(outputs))
            .then(|| format!("its rank is {rank}, and the layer is {outputs} x {inputs}"))
    }

    /// What is wrong with the numbers: lengths that are not those of the sizes, a rank of zero or beyond the linear, or values
    /// that are NaN or infinite.
    fn problem(&self) -> Option<String> {
        let Self {
            rank, inputs, outputs, ..
        } = *self;
        if let Some(why) = Self::size_problem(rank, inputs, outputs) {
            return Some(why);
        }
        if rank.checked_mul(inputs) != Some(self.a.len()) || rank.checked_mul(outputs) != Some(self.b.len()) {
            return Some("its matrices are not as long as its sizes say".to_owned());
        }
        if !self.alpha.is_finite() {
            return Some(format!("its alpha is {}", self.alpha));
        }
        let finite = self.a.iter().chain(&self.b).all(|value| value.is_finite());
        (!finite).then(|| "it holds values that are NaN or infinite".to_owned())
    }
}

impl AdapterFile {
    /// Reads an adapter from a GGUF file or a folder of PEFT's, for a model of these sizes. What cannot be that model's is
    /// refused before its numbers are read.
    ///
    /// # Errors
    /// Where it cannot be read, is damaged, or does what Hearth cannot do. Whether it belongs to a model is another
    /// question: [`AdapterFile::check_base`].
    pub fn open(path: &Path, base: &BaseShape) -> Result<Self, AdapterError> {
        Self::read(path, base, Numbers::Keep)
    }

    /// Checks an adapter for a model as [`AdapterFile::open`] and [`AdapterFile::check_base`] do, with the numbers of one
    /// target in memory at a time.
    ///
    /// # Errors
    /// As those two.
    pub fn check_file(path: &Path, model: &GgufFile) -> Result<Fit, AdapterError> {
        let base = BaseShape::from_gguf(model)?;
        Self::read(path, &base, Numbers::Check)?.check_base(model)
    }

    fn read(path: &Path, base: &BaseShape, numbers: Numbers) -> Result<Self, AdapterError> {
        let mut adapter = if path.is_dir() {
            peft::read_folder(path, base, numbers)?
        } else {
            let gguf = GgufFile::open(path).map_err(|error| AdapterError::new(path, error))?;
            gguf_lora::read(&gguf, Some(base), numbers).map_err(|problem| AdapterError::new(path, problem))?
        };
        path.clone_into(&mut adapter.path);
        Ok(adapter)
    }

    /// What the product for a target is multiplied by; none where the adapter does not change it.
    pub fn scale(&self, target: TargetName) -> Option<f32> {
        let lora = self.tensors.get(&target)?;
        let rank = lora.rank as f32;
        Some(lora.alpha / if self.rslora { rank.sqrt() } else { rank })
    }

    /// Checks that the adapter may change this model, and says how sure that is.
    ///
    /// # Errors
    /// Where the architecture, a layer or a size is another, or the passport says that it was trained on another model, or the
    /// model cannot be read.
    pub fn check_base(&self, gguf: &impl TensorData) -> Result<Fit, AdapterError> {
        let refuse = |why: String| Err(AdapterError::new(&self.path, AdapterProblem::OtherModel(why)));
        let base = BaseShape::from_gguf(gguf)?;
        if let Some(why) = base.other_architecture(&self.architecture) {
            return refuse(why);
        }
        if let Some(difference) = self.passport.as_ref().and_then(|p| p.base.shape.difference(&base)) {
            return refuse(difference);
        }
        for (target, lora) in &self.tensors {
            if target.layer >= base.layers {
                return refuse(format!(
                    "it changes {target}, and this model has {} layers",
                    base.layers
                ));
            }
            let shape = gguf.info(&target.weight()).map(|info| info.shape.as_slice());
            match shape {
                Some(&[inputs, outputs]) if (inputs, outputs) == (lora.inputs as u64, lora.outputs as u64) => {}
                Some(shape) => {
                    return refuse(format!(
                        "its part for {target} is {} x {}, and this model's weight is {}",
                        lora.inputs,
                        lora.outputs,
                        shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")
                    ));
                }
                None => return refuse(format!("it changes {target}, which this model does not have")),
            }
        }
        let Some(passport) = &self.passport else {
            return Ok(Fit::SizesOnly);
        };
        let found = Fingerprint::of(gguf).map_err(|error| AdapterError::new(gguf.path(), error))?;
        let trained_on = &passport.base;
        if trained_on.fingerprint == found {
            return Ok(Fit::Exact);
        }
        if trained_on.fingerprint.model == found.model {
            return Ok(Fit::OtherQuantization(format!(
                "This adapter was trained on '{}'. This model has the same sizes and norms but other weights, so it is another \
                 quantisation, or one tuned from the same model; the adapter may do a little worse on it.",
                trained_on.file
            )));
        }
        refuse(format!(
            "it was trained on '{}', whose weights are not those of this model, though its sizes are the same",
            trained_on.file
        ))
    }

    /// Checks what others are to read: every target's numbers, and that there are any.
    fn check(&self) -> Result<(), AdapterProblem> {
        self.check_any()?;
        for (&target, lora) in &self.tensors {
            if let Some(why) = lora.problem() {
                return Err(AdapterProblem::target(target, why));
            }
        }
        Ok(())
    }

    /// Checks that it changes anything.
    fn check_any(&self) -> Result<(), AdapterProblem> {
        match self.tensors.is_empty() {
            true => Err(AdapterProblem::NotAnAdapter("it changes no weight".to_owned())),
            false => Ok(()),
        }
    }
}
