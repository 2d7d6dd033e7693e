//! The trainable parameters: a LoRA adapter on each target module.

use crate::error::TrainError;
use crate::order::{DROPOUT, Random, WEIGHTS};
use burn::tensor::{Device, Tensor, TensorData};
use hearth_formats::shape::{LinearName, Module};
use hearth_llm::ops::{Adapter, Dropout};
use hearth_llm::{Decoder, LoraPart, Model};
use std::ops::Range;

/// The adapter of one module. Linear layers that transformers fuses have one `a`, as in PEFT.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub layer: usize,
    pub module: Module,
    /// `[rank, in]`.
    pub a: Tensor<2>,
    /// `[out, rank]`, with the rows of each linear layer of the module.
    pub b: Tensor<2>,
    /// The linear layers of the module, and their rows in `b`.
    parts: Vec<(LinearName, Range<usize>)>,
}

impl Pair {
    /// The prefix of its tensors in a checkpoint.
    pub fn name(&self) -> String {
        format!("blk.{}.{}", self.layer, self.module)
    }

    /// The values of `a` and `b` that its linear layers have in an adapter.
    ///
    /// # Errors
    /// The sentence's end that says how the adapter differs.
    fn values_in(&self, parts: &[LoraPart], scale: f32) -> Result<[Vec<f32>; 2], String> {
        let ([rank, inputs], mut values) = (self.a.dims(), [Vec::new(), Vec::new()]);
        for (linear, rows) in &self.parts {
            let name = format!("blk.{}.{linear}", self.layer);
            let is_same = |part: &&LoraPart| part.layer == self.layer && part.linear == *linear;
            let part = parts.iter().find(is_same);
            let part = part.ok_or_else(|| format!("it has no weights for {name}"))?;
            if part.rank != rank || part.a.len() != rank * inputs || part.b.len() != rows.len() * rank {
                return Err(format!("its rank for {name} is {}, and the run's is {rank}", part.rank));
            }
            if (part.scale - scale).abs() > 1e-6 * scale.abs() {
                let part_scale = part.scale;
                return Err(format!(
                    "its scale (alpha / rank) is {part_scale}, and the run's is {scale}"
                ));
            }
            let [a, b] = &mut values;
            if a.is_empty() {
                a.clone_from(&part.a);
            } else if *a != part.a {
                return Err(format!(
                    "{name} has another A than the linear layers that are fused with it"
                ));
            }
            b.extend_from_slice(&part.b);
        }
        Ok(values)
    }
}

/// The adapters that a run trains, layer by layer.
#[derive(Debug, Clone)]
pub struct Parameters {
    pub(crate) pairs: Vec<Pair>,
    pub(crate) scale: f32,
}

/// Dropout in one forward and backward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DropoutPass {
    pub rate: f32,
    pub seed: u64,
    /// The index of the pass in its run.
    pub pass: u64,
}

impl Parameters {
    /// New adapters of this rank, initialized as in PEFT: `a` is uniform from -1/sqrt(in) to
    /// 1/sqrt(in), and `b` is 0, so that they have no effect yet. No `targets` means all linear
    /// layers. A target that is a part of a fused module means the whole module.
    ///
    /// # Errors
    /// If a target is unknown or in no layer, or the rank is larger than a weight's shorter side.
    pub fn new(model: &Model, targets: &[String], rank: usize, scale: f32, seed: u64) -> Result<Self, TrainError> {
        let parse = |name: &String| Module::named(name).ok_or_else(|| TrainError::UnknownTarget(name.clone()));
        let targets = targets.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let is_target = |module: Module| {
            let mut parts = module.parts().iter();
            targets.is_empty() || parts.any(|part| targets.iter().any(|target| target.parts().contains(part)))
        };
        let architecture = model.config().architecture;
        let mut pairs: Vec<Pair> = Vec::new();
        for (layer, weights) in model.decoder().layers().iter().enumerate() {
            let device = model.decoder().device(layer);
            let mut weights = weights.clone();
            let linears = weights.linears_mut();
            let linears = linears.iter();
            let sizes: Vec<_> = linears
                .map(|(name, linear)| (*name, [linear.spec.rows, linear.spec.cols]))
                .collect();
            for (name, [_, inputs]) in &sizes {
                let module = architecture.module_with(*name);
                let is_first = module.parts().first() == Some(name);
                if !is_first || !is_target(module) {
                    continue;
                }
                let (parts, outputs) = rows_of_parts(module, &sizes);
                let inputs = *inputs;
                if rank > outputs.min(inputs) {
                    return Err(TrainError::Rank {
                        rank,
                        module,
                        most: outputs.min(inputs),
                    });
                }
                let mut random = Random::new(seed, &[WEIGHTS, layer as u64, pairs.len() as u64]);
                let bound = (inputs as f32).sqrt().recip();
                let a = (0..rank * inputs).map(|_| bound * random.signed()).collect();
                pairs.push(Pair {
                    layer,
                    module,
                    parts,
                    a: tensor(a, [rank, inputs], device),
                    b: tensor(vec![0.0; outputs * rank], [outputs, rank], device),
                });
            }
        }
        if pairs.is_empty() {
            Err(TrainError::NoTarget)
        } else {
            Ok(Self { pairs, scale })
        }
    }

    /// Replaces the initial values with an adapter's.
    ///
    /// # Errors
    /// If its linear layers, rank or scale differ.
    pub fn start_from(&mut self, parts: &[LoraPart]) -> Result<(), TrainError> {
        let needed: usize = self.pairs.iter().map(|pair| pair.parts.len()).sum();
        if parts.len() != needed {
            let found = parts.len();
            return Err(TrainError::InitialAdapter(format!(
                "it has {found} target modules, and the run has {needed}"
            )));
        }
        for pair in &mut self.pairs {
            let [a, b] = pair.values_in(parts, self.scale).map_err(TrainError::InitialAdapter)?;
            pair.a = tensor(a, pair.a.dims(), &pair.a.device());
            pair.b = tensor(b, pair.b.dims(), &pair.b.device());
        }
        Ok(())
    }

    /// The number of trainable parameters.
    pub fn count(&self) -> u64 {
        let size = |tensor: &Tensor<2>| tensor.dims().iter().product::<usize>() as u64;
        self.pairs.iter().map(|pair| size(&pair.a) + size(&pair.b)).sum()
    }

    /// Whether all values are finite.
    pub(crate) fn are_finite(&self) -> bool {
        let is_finite = |tensor: &Tensor<2>| values(tensor).iter().all(|value| value.is_finite());
        self.pairs.iter().all(|pair| is_finite(&pair.a) && is_finite(&pair.b))
    }

    /// The current adapters, for inference or a file.
    pub fn parts(&self) -> Vec<LoraPart> {
        let mut parts = Vec::new();
        for pair in &self.pairs {
            let (rank, a, b) = (pair.a.dims()[0], values(&pair.a), values(&pair.b));
            parts.extend(pair.parts.iter().map(|(linear, rows)| LoraPart {
                layer: pair.layer,
                linear: *linear,
                rank,
                a: a.clone(),
                b: b[rows.start * rank..rows.end * rank].to_vec(),
                scale: self.scale,
            }));
        }
        parts
    }

    /// The decoder with the adapters attached, for passes without a gradient.
    pub(crate) fn attach(&self, decoder: &Decoder, dropout: Option<DropoutPass>) -> Decoder {
        let tensors = self.pairs.iter().map(|pair| [pair.a.clone(), pair.b.clone()]);
        self.attach_tensors(decoder, tensors, dropout)
    }

    /// The decoder with the adapters attached as leaves of a tape, and each adapter's leaves.
    pub(crate) fn attach_tracked(
        &self,
        decoder: &Decoder,
        dropout: Option<DropoutPass>,
    ) -> (Decoder, Vec<[Tensor<2>; 2]>) {
        let leaf = |tensor: &Tensor<2>| tensor.clone().autodiff().require_grad();
        let leaves: Vec<_> = self.pairs.iter().map(|pair| [leaf(&pair.a), leaf(&pair.b)]).collect();
        (self.attach_tensors(decoder, leaves.iter().cloned(), dropout), leaves)
    }

    fn attach_tensors(
        &self,
        decoder: &Decoder,
        tensors: impl Iterator<Item = [Tensor<2>; 2]>,
        dropout: Option<DropoutPass>,
    ) -> Decoder {
        let mut decoder = decoder.clone();
        let mut linears: Vec<_> = decoder
            .layers_mut()
            .iter_mut()
            .enumerate()
            .flat_map(|(layer, weights)| {
                weights
                    .linears_mut()
                    .into_iter()
                    .map(move |(name, linear)| (layer, name, linear))
            })
            .collect();
        for (index, (pair, [a, b])) in self.pairs.iter().zip(tensors).enumerate() {
            // Fused linear layers have the same input, so they also have the same dropout of it.
            let dropout = dropout.map(|dropout| Dropout {
                seed: Random::new(dropout.seed, &[DROPOUT, dropout.pass, index as u64]).next(),
                rate: dropout.rate,
            });
            for (part, rows) in &pair.parts {
                let target = linears
                    .iter_mut()
                    .find(|(layer, name, _)| *layer == pair.layer && name == part);
                // On a tape, the gradients of the parts are summed in `a` and in the rows of `b`.
                let b = if pair.parts.len() == 1 {
                    b.clone()
                } else {
                    b.clone().slice_dim(0, rows.clone())
                };
                if let Some((_, _, linear)) = target {
                    linear.adapter = Adapter::Lora {
                        a: a.clone().into_dispatch(),
                        b: b.into_dispatch(),
                        scale: self.scale,
                        dropout,
                    };
                }
            }
        }
        decoder
    }
}

/// The linear layers of a module with their rows in its `b`, and the number of all rows. `sizes`
/// has the rows and columns of each linear layer.
fn rows_of_parts(module: Module, sizes: &[(LinearName, [usize; 2])]) -> (Vec<(LinearName, Range<usize>)>, usize) {
    let mut start = 0;
    let mut parts = Vec::new();
    for part in module.parts() {
        if let Some((name, [outputs, _])) = sizes.iter().find(|(name, _)| name == part) {
            parts.push((*name, start..start + outputs));
            start += outputs;
        }
    }
    (parts, start)
}

pub(crate) fn tensor(values: Vec<f32>, shape: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

pub(crate) fn values(tensor: &Tensor<2>) -> Vec<f32> {
    tensor.clone().into_data().try_into_vec().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Batch, Example};
    use crate::gradient::{GradientOptions, batch_gradient};
    use hearth_formats::gguf::Gguf;
    use hearth_formats::shape::FusedLinear;
    use hearth_llm::LoadOptions;
    use hearth_llm::ops::MatmulPrecision;
    use std::ops::ControlFlow;
    use std::path::Path;

    const RANK: usize = 2;

    /// A tiny model with fused linear layers.
    fn phi3() -> Model {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/phi3.gguf");
        let gguf = Gguf::open(path).expect("the fixture opens");
        let progress = &mut |_: f32| ControlFlow::Continue(());
        Model::load(&gguf, &LoadOptions::default(), progress).expect("it loads")
    }

    /// Adapters of all modules with this `b`.
    fn parameters(model: &Model, targets: &[&str], b: f32) -> Parameters {
        let targets: Vec<String> = targets.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = Parameters::new(model, &targets, RANK, 2.0, 1).expect("it has these modules");
        for pair in &mut parameters.pairs {
            pair.b = pair.b.clone() + b;
        }
        parameters
    }

    /// The same adapters with an `a` for each linear layer.
    fn separate(parameters: &Parameters) -> Parameters {
        let pairs = parameters.pairs.iter().flat_map(|pair| {
            pair.parts.iter().map(|(linear, rows)| Pair {
                layer: pair.layer,
                module: Module::Linear(*linear),
                a: pair.a.clone(),
                b: pair.b.clone().slice_dim(0, rows.clone()),
                parts: vec![(*linear, 0..rows.len())],
            })
        });
        Parameters {
            pairs: pairs.collect(),
            scale: parameters.scale,
        }
    }

    fn assert_near(actual: &[f32], expected: &[f32]) {
        assert_eq!(actual.len(), expected.len());
        // Sums of at most three f32 in another order, of gradients that are sums of few.
        let largest = expected.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
        let is_near = |(actual, expected): (&f32, &f32)| (actual - expected).abs() <= 1e-5 * largest;
        assert!(largest > 0.0 && actual.iter().zip(expected).all(is_near));
    }

    /// The gradient of a shared `a` is the sum of the gradients of separate ones.
    #[test]
    fn fused_linear_layers_share_one_a() {
        let model = phi3();
        let shared = parameters(&model, &[], 0.1);
        assert_eq!(shared.pairs.len(), 4 * model.config().n_layers());
        let separate = separate(&shared);
        let example = Example {
            ids: vec![10, 20, 30, 40, 50],
            trained: vec![true; 5],
        };
        let options = GradientOptions {
            precision: MatmulPrecision::F32,
            layers_on_tape: 1,
            scale: 1.0,
            dropout: None,
        };
        let gradient = |parameters: &Parameters| {
            let batch = Batch::new([&example]);
            batch_gradient(model.decoder(), parameters, &batch, &options)
        };
        let ((loss, gradients), (separate_loss, separate_gradients)) = (gradient(&shared), gradient(&separate));
        assert_eq!(loss, separate_loss);
        let mut rest = separate_gradients.into_iter();
        for (pair, [a, b]) in shared.pairs.iter().zip(&gradients) {
            let parts: Vec<_> = rest.by_ref().take(pair.parts.len()).collect();
            let mut sum = vec![0.0; values(a).len()];
            for [a, _] in &parts {
                sum.iter_mut().zip(values(a)).for_each(|(sum, x)| *sum += x);
            }
            assert_near(&values(a), &sum);
            let rows: Vec<f32> = parts.iter().flat_map(|[_, b]| values(b)).collect();
            assert_near(&values(b), &rows);
        }
        assert!(rest.next().is_none());
    }

    #[test]
    fn an_adapter_of_fused_linear_layers_starts_a_run() {
        let model = phi3();
        // A part stands for the module.
        let trained = parameters(&model, &["k_proj", "down_proj"], 0.1);
        let modules: Vec<Module> = trained.pairs.iter().take(2).map(|pair| pair.module).collect();
        let qkv = Module::Fused(FusedLinear::AttnQkv);
        assert_eq!(modules, [qkv, Module::Linear(LinearName::FfnDown)]);
        let parts = trained.parts();
        assert_eq!(parts.len(), 4 * model.config().n_layers());
        assert!(parts[1].a == parts[0].a && parts[2].a == parts[0].a);
        let mut next = parameters(&model, &["qkv_proj", "ffn_down"], 0.0);
        next.start_from(&parts).expect("it is the same adapter");
        assert_eq!(next.parts(), parts);
        let mut changed = parts;
        changed[1].a[0] += 1.0;
        let error = next.start_from(&changed).expect_err("it is refused").to_string();
        assert!(error.contains("blk.0.attn_k has another A"), "{error}");
    }
}
