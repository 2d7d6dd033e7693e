//! Predicts the decode speed from the tensor table of a GGUF file.

use super::bytes::{is_embedding, is_vector, layer_of};
use crate::check::decode_cost::DecodeCost;
use crate::hardware;
use hearth_formats::gguf::GgufHeader;
use hearth_kernels::Quant;
use hearth_llm::{Config, Place, Placement};
use hearth_protocol::DeviceCheck;

/// Weight matrices that a decode step reads: formats and bytes of each layer. The last layer is the
/// output layer. Prediction layers have no matrices here, because plain decode does not run them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DecodeWeights {
    layers: Vec<Vec<(Quant, u64)>>,
}

impl DecodeWeights {
    /// Reads a file's tensor table. Skips tensors in formats that Hearth does not support, because
    /// such a file is not loaded.
    pub(super) fn from_header(gguf: &GgufHeader, config: &Config) -> Self {
        let mut layers = vec![Vec::new(); config.layers()];
        let output = layers.len() - 1;
        let is_tied = gguf.info("output.weight").is_none();
        for tensor in gguf.tensors().filter(|tensor| !is_vector(tensor)) {
            let layer = if is_embedding(tensor) {
                is_tied.then_some(output)
            } else {
                layer_of(tensor, config)
            };
            if let (Some(layer), Some(format)) = (layer, Quant::from_name(tensor.kind.name())) {
                layers[layer].push((format, tensor.byte_len as u64));
            }
        }
        Self { layers }
    }

    /// The formats of all matrices, without duplicates.
    fn formats(&self) -> Vec<Quant> {
        let mut formats: Vec<Quant> = Vec::new();
        for (format, _) in self.layers.iter().flatten() {
            if !formats.contains(format) {
                formats.push(*format);
            }
        }
        formats
    }

    /// Cost of a step on the CPU with this many threads. Measures formats that are not on record if
    /// `may_measure`. `None` means that a format is not measured.
    pub(super) fn cost(&self, threads: usize, may_measure: bool) -> Option<DecodeCost> {
        hardware::decode_cost(&self.formats(), threads, may_measure)
    }

    /// Seconds of a step, from `cost` on the CPU and from the device check on a GPU. `None` means
    /// that a device is not measured.
    pub(super) fn seconds<'a>(
        &self,
        placement: &Placement,
        cost: Option<&DecodeCost>,
        check: impl Fn(Place) -> Option<&'a DeviceCheck>,
    ) -> Option<f64> {
        let output = self.layers.len().checked_sub(1)?;
        let mut seconds = 0.0;
        let mut uses_cpu = false;
        let layers = self.layers.iter().enumerate();
        for (layer, weights) in layers.filter(|(_, weights)| !weights.is_empty()) {
            seconds += match placement.place(layer) {
                Place::Cpu => {
                    uses_cpu = true;
                    if layer == output {
                        cost?.weights_seconds(weights)?
                    } else {
                        cost?.layer_seconds(weights)?
                    }
                }
                place => {
                    // The step's overhead includes the overhead of the output layer.
                    let layers = if layer == output { 0.0 } else { 1.0 };
                    check(place)?.decode_seconds(bytes(weights) as f64, layers)
                }
            };
        }
        for gpu in placement.gpus() {
            seconds += check(Place::Gpu(gpu))?.step_seconds;
        }
        if uses_cpu {
            seconds += cost?.step_overhead();
        }
        Some(seconds)
    }
}

fn bytes(weights: &[(Quant, u64)]) -> u64 {
    weights.iter().map(|(_, bytes)| bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_formats::gguf::Gguf;
    use hearth_protocol::PlanRequest;
    use std::path::{Path, PathBuf};

    fn fixture() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf")
    }

    #[test]
    fn a_token_is_multiplied_by_every_matrix_but_the_embedding() {
        let gguf = Gguf::open(fixture()).expect("the fixture opens");
        let config = Config::from_gguf(&gguf).expect("a model");
        let weights = DecodeWeights::from_header(&gguf, &config);
        let actual: u64 = weights.layers.iter().map(|layer| bytes(layer)).sum();
        let matrices = gguf.tensors().filter(|tensor| !is_vector(tensor));
        let all: u64 = matrices.map(|tensor| tensor.byte_len as u64).sum();
        let table = gguf.info("token_embd.weight").expect("a table").byte_len as u64;
        let expected = if gguf.info("output.weight").is_none() {
            all
        } else {
            all - table
        };
        assert_eq!(actual, expected);
        assert_eq!(weights.layers.len(), config.layers());
        assert!(weights.layers.iter().all(|layer| !layer.is_empty()));
    }

    #[test]
    fn layers_on_a_gpu_cost_by_its_check() {
        let weights = DecodeWeights {
            layers: vec![vec![(Quant::F32, 100)], vec![(Quant::F32, 50)], vec![(Quant::F32, 20)]],
        };
        let on_gpu = |layers| Placement::offload(3, layers, &[(0, 1)]);
        let measured = DeviceCheck {
            bytes_per_second: 10.0,
            step_seconds: 2.0,
            layer_seconds: 0.5,
            ..DeviceCheck::default()
        };
        let check = |place| (place == Place::Gpu(0)).then_some(&measured);
        let all = 17.0 + 2.0 * 0.5 + 2.0;
        assert_eq!(weights.seconds(&on_gpu(3), None, check), Some(all));
        assert_eq!(
            weights.seconds(&on_gpu(2), None, check),
            None,
            "the CPU was not measured"
        );
        assert_eq!(weights.seconds(&on_gpu(3), None, |_| None), None, "nor the GPU");
    }

    #[test]
    fn a_plan_has_a_speed_once_the_cpu_is_measured() {
        let request = |measure_speed| PlanRequest {
            path: fixture(),
            device: Some("cpu".to_owned()),
            measure_speed,
            ..PlanRequest::default()
        };
        let plan = |measure| crate::plan::plan(&request(measure), &mut |_| {}).expect("a plan");
        assert_eq!(plan(false).tokens_per_second, None);
        let measured = plan(true).tokens_per_second.expect("a speed");
        assert!(measured > 0.0 && measured.is_finite(), "{measured}");
        assert_eq!(plan(false).tokens_per_second, Some(measured), "on record");
    }
}
