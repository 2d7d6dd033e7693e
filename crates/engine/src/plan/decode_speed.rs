//! The decode speed that a plan promises: of a model that was never loaded on this machine, from
//! the formats and sizes in its header.

use crate::check::decode_cost::DecodeCost;
use crate::hardware;
use hearth_formats::gguf::{GgufHeader, TensorInfo};
use hearth_kernels::Quant;
use hearth_llm::{Config, Place, Placement};

/// Weights that a token is multiplied by, per layer: their formats and bytes. The last layer is the
/// output layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TokenWeights {
    layers: Vec<Vec<(Quant, u64)>>,
}

impl TokenWeights {
    /// Of a file's tensor table. A tensor in a format that Hearth does not support is not counted:
    /// such a file is not loaded.
    pub(super) fn of(gguf: &GgufHeader, config: &Config) -> Self {
        let mut layers = vec![Vec::new(); config.layers()];
        let output = layers.len() - 1;
        let is_tied = gguf.info("output.weight").is_none();
        for tensor in gguf.tensors().filter(|tensor| is_matrix(tensor)) {
            let mut parts = tensor.name.split('.');
            let layer = match parts.next() {
                Some("blk") => parts.next().and_then(|number| number.parse().ok()),
                Some("output") => Some(output),
                Some("token_embd") if is_tied => Some(output),
                _ => None,
            };
            let weights = layer.filter(|at| *at < config.n_layers || *at == output);
            if let (Some(at), Some(format)) = (weights, Quant::from_name(tensor.kind.name())) {
                layers[at].push((format, tensor.byte_len as u64));
            }
        }
        Self { layers }
    }

    /// Every format, once.
    fn formats(&self) -> Vec<Quant> {
        let mut formats: Vec<Quant> = Vec::new();
        for (format, _) in self.layers.iter().flatten() {
            if !formats.contains(format) {
                formats.push(*format);
            }
        }
        formats
    }

    /// What a step costs on the CPU; measures what is not on record if `may_measure`. `None` means
    /// that something was never measured.
    pub(super) fn cost(&self, may_measure: bool) -> Option<DecodeCost> {
        hardware::decode_cost(&self.formats(), may_measure)
    }

    /// Seconds of a step: on the CPU by `cost`, elsewhere by the bandwidth of the device. `None`
    /// means that a device was not measured.
    pub(super) fn seconds(
        &self,
        placement: &Placement,
        cost: Option<&DecodeCost>,
        bandwidth: impl Fn(Place) -> Option<f64>,
    ) -> Option<f64> {
        let output = self.layers.len().checked_sub(1)?;
        let mut seconds = 0.0;
        let mut is_on_cpu = false;
        for (at, weights) in self.layers.iter().enumerate() {
            seconds += match placement.of(at) {
                Place::Cpu => {
                    is_on_cpu = true;
                    match at == output {
                        true => cost?.weights(weights)?,
                        false => cost?.layer(weights)?,
                    }
                }
                place => bytes(weights) as f64 / bandwidth(place)?,
            };
        }
        if is_on_cpu {
            seconds += cost?.step();
        }
        Some(seconds)
    }
}

fn bytes(weights: &[(Quant, u64)]) -> u64 {
    weights.iter().map(|(_, bytes)| bytes).sum()
}

fn is_matrix(tensor: &TensorInfo) -> bool {
    tensor.shape.iter().filter(|length| **length > 1).count() > 1
}
