//! The shape of an adapter's base model.

use super::base_record::{BaseRecord, FFN_WIDTH, HEAD_DIM, HEADS, KV_HEADS, LayerSize};
use super::error::quotable;
use super::{AdapterError, AdapterProblem, LinearName, ModuleName, RowOrder, TargetName};
use crate::Architecture;
use crate::gguf::{GgufHeader, TensorInfo};
use crate::shape::{FusedLinear, LayerShape, ModelShape, Module};
use serde::{Deserialize, Serialize};

/// The architecture and shape of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BaseRecord", try_from = "BaseRecord")]
pub struct BaseShape {
    /// `llama`, `qwen2` and so on.
    pub architecture: String,
    /// Hidden size: width of the residual stream.
    pub width: usize,
    /// Vocabulary size.
    pub vocab: usize,
    /// The layers, also those for multi-token prediction.
    pub layers: Vec<LayerShape>,
}

/// The sizes of a layer in messages.
const LAYER_SIZES: [(&str, LayerSize); 4] = [
    ("feed-forward size", FFN_WIDTH),
    ("number of query heads", HEADS),
    ("number of key/value heads", KV_HEADS),
    ("head dimension", HEAD_DIM),
];

impl BaseShape {
    /// Reads the shape of a model.
    ///
    /// # Errors
    /// As for [`ModelShape::from_gguf`], or if adapters of the architecture are not supported.
    pub fn from_gguf(gguf: &GgufHeader) -> Result<Self, AdapterError> {
        let read = || -> Result<Self, AdapterProblem> {
            let architecture = supported(gguf.architecture()?)?;
            let shape = ModelShape::from_gguf(gguf, architecture)?;
            Ok(Self {
                architecture: architecture.name().to_owned(),
                width: shape.width,
                vocab: shape.vocab,
                layers: shape.layers,
            })
        };
        read().map_err(|problem| AdapterError::new(gguf.path(), problem))
    }

    /// The numbers of outputs and inputs of a target; `None` if this model does not have it.
    pub fn linear(&self, target: TargetName) -> Option<[usize; 2]> {
        self.layers.get(target.layer)?.linear(target.linear)
    }

    /// Refuses a module that this model does not have or whose shape does not match. Fused linears
    /// may be separate in this model.
    pub(super) fn check_module(&self, name: ModuleName, inputs: usize, outputs: usize) -> Result<(), AdapterProblem> {
        let shape = self.layers.get(name.layer).and_then(|layer| name.module.shape(layer));
        let Some([own_outputs, own_inputs]) = shape else {
            return Err(AdapterProblem::OtherModel(self.no_such_target(name)));
        };
        if (outputs, inputs) != (own_outputs, own_inputs) {
            return Err(AdapterProblem::OtherModel(format!(
                "its matrices for {name} are for {inputs} x {outputs}, but this model's weight is {own_inputs} x \
                 {own_outputs}"
            )));
        }
        Ok(())
    }

    /// Returns that this model does not have a target, as the end of a sentence.
    pub(super) fn no_such_target(&self, target: impl Into<ModuleName>) -> String {
        let (name, layers) = (target.into(), self.layers.len());
        if name.layer >= layers {
            format!("it targets {name}, but this model has {layers} layers")
        } else {
            format!("it targets {name}, which this model does not have")
        }
    }

    /// The architecture; an error if its adapters are not supported.
    pub(super) fn known_architecture(&self) -> Result<Architecture, AdapterProblem> {
        supported(&self.architecture)
    }

    /// The linears that transformers fuses.
    pub(super) fn fused_linears(&self) -> &'static [FusedLinear] {
        let architecture = Architecture::named(&self.architecture);
        architecture.map(Architecture::fused_linears).unwrap_or_default()
    }

    /// Whether transformers has this module in the model.
    pub(super) fn has_module(&self, name: ModuleName) -> bool {
        let layer = self.layers.get(name.layer);
        name.module.is_with(self.fused_linears()) && layer.and_then(|layer| name.module.shape(layer)).is_some()
    }

    /// The dimensions of a target's weight in a file of this model, row length first. If the file
    /// has it in a fused weight, the dimensions of its rows, provided that the fused weight has the
    /// right dimensions. `None` if the file has no such weight.
    pub(super) fn weight_shape(&self, gguf: &GgufHeader, target: TargetName) -> Option<Vec<u64>> {
        let architecture = Architecture::named(&self.architecture)?;
        let fused = architecture.fused_in(gguf, target.layer, target.linear);
        let module = fused.map_or(Module::Linear(target.linear), Module::Fused);
        let layer = target.layer;
        let TensorInfo { shape, .. } = gguf.info(&ModuleName { layer, module }.weight())?;
        let layer = self.layers.get(layer)?;
        let [outputs, inputs] = module.shape(layer)?;
        if fused.is_some() && *shape == [inputs as u64, outputs as u64] {
            let rows = module.rows(layer, target.linear)?;
            return Some(vec![inputs as u64, rows.len() as u64]);
        }
        Some(shape.clone())
    }

    /// Returns why an adapter for `architecture` does not belong to this model; `None` if it may.
    pub(super) fn architecture_mismatch(&self, architecture: &str) -> Option<String> {
        (architecture != self.architecture).then(|| {
            format!(
                "it was trained for the architecture '{architecture}', but this model's is '{}'",
                self.architecture
            )
        })
    }

    /// Returns how `other` differs from this shape, as the end of a sentence; `None` if it does
    /// not.
    pub(super) fn mismatch(&self, other: &Self) -> Option<String> {
        if let Some(mismatch) = other.architecture_mismatch(&self.architecture) {
            return Some(mismatch);
        }
        let differs = |size: &str, own: usize, other: usize| {
            let mismatch = || format!("it was trained on a model whose {size} is {own}, but this model's is {other}");
            (own != other).then(mismatch)
        };
        differs("number of layers", self.layers.len(), other.layers.len())
            .or_else(|| differs("hidden size", self.width, other.width))
            .or_else(|| self.layer_mismatch(other))
            .or_else(|| differs("vocabulary size", self.vocab, other.vocab))
    }

    /// The first size of a layer that differs in `other`, which has as many layers.
    fn layer_mismatch(&self, other: &Self) -> Option<String> {
        LAYER_SIZES.iter().find_map(|(name, size)| {
            let sizes = |shape: &Self| shape.layers.iter().map(size).collect::<Vec<_>>();
            let (own, other) = (sizes(self), sizes(other));
            let layer = own.iter().zip(&other).position(|(own, other)| own != other)?;
            let is_uniform = |sizes: &[usize]| sizes.iter().all(|size| *size == sizes[0]);
            let place = if is_uniform(&own) && is_uniform(&other) {
                String::new()
            } else {
                format!(" in layer {layer}")
            };
            let (own, other) = (own[layer], other[layer]);
            Some(format!(
                "it was trained on a model whose {name} is {own}{place}, but this model's is {other}"
            ))
        })
    }

    /// The row order of a target, and the rows of a head, which it permutes.
    pub(super) fn row_order(&self, target: TargetName) -> Result<(RowOrder, usize), AdapterProblem> {
        let attention = self.layers.get(target.layer).and_then(LayerShape::attention);
        match (target.linear, attention) {
            (LinearName::AttnQ | LinearName::AttnK, Some(attention)) => {
                Ok((self.known_architecture()?.row_order(), attention.head_dim))
            }
            _ => Ok((RowOrder::Same, 1)),
        }
    }
}

/// The architecture of this name; an error if its adapters are not supported.
fn supported(architecture: &str) -> Result<Architecture, AdapterProblem> {
    Architecture::named(architecture).ok_or_else(|| AdapterProblem::Architecture(quotable(architecture)))
}
