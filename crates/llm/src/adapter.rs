//! LoRA adapters of a model, attached without a copy of its weights.

use crate::model::Model;
use crate::ops::Adapter;
use burn::tensor::{Device, Tensor, TensorData};
use hearth_formats::adapter::{AdapterFile, LinearName, LoraTensors, TargetName};

/// The LoRA adapter of one linear layer: adds `scale * (x a^T) b^T` to its output.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraPart {
    /// Index of the transformer layer.
    pub layer: usize,
    /// The linear layer in it.
    pub linear: LinearName,
    /// Rows of `a`.
    pub rank: usize,
    /// `[rank, in]`.
    pub a: Vec<f32>,
    /// `[out, rank]`.
    pub b: Vec<f32>,
    /// `alpha / rank`, times the scale that the user chose.
    pub scale: f32,
}

impl LoraPart {
    /// The parts of an adapter file. Each has the file's `alpha / rank` times `scale`.
    pub fn from_file(adapter: &AdapterFile, scale: f32) -> Vec<Self> {
        let part = |(target, lora): (&TargetName, &LoraTensors)| Self {
            layer: target.layer,
            linear: target.linear,
            rank: lora.rank,
            a: lora.a.clone(),
            b: lora.b.clone(),
            scale: scale * adapter.scale(*target).unwrap_or(1.0),
        };
        adapter.tensors.iter().map(part).collect()
    }
}

/// An adapter that does not fit a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdapterError {
    /// The model has no such linear layer.
    #[error(
        "The adapter changes '{linear}' in layer {layer}, which this model does not have. It belongs to another model."
    )]
    NoSuchLinear {
        /// Index of the transformer layer.
        layer: usize,
        /// The linear layer in it.
        linear: LinearName,
    },
    /// The linear layer has another shape.
    #[error(
        "The adapter's part for '{linear}' in layer {layer} does not fit a weight of {outputs} by {inputs}. It belongs \
         to another model."
    )]
    Shape {
        /// Index of the transformer layer.
        layer: usize,
        /// The linear layer in it.
        linear: LinearName,
        /// Rows of the weight.
        outputs: usize,
        /// Columns of the weight.
        inputs: usize,
    },
}

impl Model {
    /// Returns the model with these adapters instead of its current ones. Several adapters of one
    /// linear layer are summed. The weights are shared, not copied.
    ///
    /// # Errors
    /// If an adapter is for a linear layer that does not exist or has another shape.
    pub fn adapted(&self, parts: &[LoraPart]) -> Result<Self, AdapterError> {
        let mut decoder = self.decoder().clone();
        for (layer, layer_mut) in decoder.layers_mut().iter_mut().enumerate() {
            let device = self.decoder().device(layer);
            for (name, linear) in layer_mut.linears_mut() {
                let layer_parts: Vec<_> = parts
                    .iter()
                    .filter(|part| part.layer == layer && part.linear == name)
                    .collect();
                let (outputs, inputs) = (linear.spec.rows, linear.spec.cols);
                let fits = |part: &&LoraPart| part.a.len() == part.rank * inputs && part.b.len() == part.rank * outputs;
                if !layer_parts.iter().all(fits) {
                    return Err(AdapterError::Shape {
                        layer,
                        linear: name,
                        outputs,
                        inputs,
                    });
                }
                linear.adapter = match &*layer_parts {
                    [] => Adapter::None,
                    [part] => lora_adapter(
                        part.a.clone(),
                        part.b.clone(),
                        [outputs, part.rank, inputs],
                        part.scale,
                        device,
                    ),
                    parts => concatenated(parts, outputs, inputs, device),
                };
            }
        }
        if let Some(part) = parts.iter().find(|part| !self.has_linear(part)) {
            return Err(AdapterError::NoSuchLinear {
                layer: part.layer,
                linear: part.linear,
            });
        }
        Ok(self.with_decoder(decoder))
    }

    fn has_linear(&self, part: &LoraPart) -> bool {
        let layer = self.decoder().layers().get(part.layer);
        layer.is_some_and(|layer| layer.clone().linears_mut().iter().any(|(name, _)| *name == part.linear))
    }
}

/// The sum of several adapters as one: `a` and `b` are concatenated along the rank, and the scales
/// are folded into `b`.
fn concatenated(
    parts: &[&LoraPart],
    outputs: usize,
    inputs: usize,
    device: &Device,
) -> Adapter<burn::backend::Dispatch> {
    let rank = parts.iter().map(|part| part.rank).sum();
    let a = parts.iter().flat_map(|part| part.a.iter().copied()).collect();
    let mut b = Vec::with_capacity(outputs * rank);
    for row in 0..outputs {
        for part in parts {
            let b_row = &part.b[row * part.rank..(row + 1) * part.rank];
            b.extend(b_row.iter().map(|value| part.scale * value));
        }
    }
    lora_adapter(a, b, [outputs, rank, inputs], 1.0, device)
}

/// An adapter with `a` of `[rank, inputs]` and `b` of `[outputs, rank]` on a device.
fn lora_adapter(
    a: Vec<f32>,
    b: Vec<f32>,
    [outputs, rank, inputs]: [usize; 3],
    scale: f32,
    device: &Device,
) -> Adapter<burn::backend::Dispatch> {
    let tensor = |values, shape| Tensor::<2>::from_data(TensorData::new(values, shape), device).into_dispatch();
    Adapter::Lora {
        a: tensor(a, [rank, inputs]),
        b: tensor(b, [outputs, rank]),
        scale,
        dropout: None,
    }
}
