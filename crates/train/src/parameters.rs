//! The trainable parameters: a LoRA adapter on each target module.

use crate::error::TrainError;
use crate::order::{DROPOUT, Random, WEIGHTS};
use burn::tensor::{Device, Tensor, TensorData};
use hearth_formats::adapter::LinearName;
use hearth_llm::ops::{Adapter, Dropout};
use hearth_llm::{Decoder, LoraPart, Model};

/// The adapter of one linear layer.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub layer: usize,
    pub linear: LinearName,
    /// `[rank, in]`.
    pub a: Tensor<2>,
    /// `[out, rank]`.
    pub b: Tensor<2>,
}

impl Pair {
    /// The prefix of its tensors in a checkpoint.
    pub fn name(&self) -> String {
        format!("blk.{}.{}", self.layer, self.linear)
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
    /// layers.
    ///
    /// # Errors
    /// If a target is unknown or in no layer, or the rank is larger than a weight's shorter side.
    pub fn new(model: &Model, targets: &[String], rank: usize, scale: f32, seed: u64) -> Result<Self, TrainError> {
        let parse = |name: &String| LinearName::named(name).ok_or_else(|| TrainError::UnknownTarget(name.clone()));
        let targets = targets.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let mut pairs = Vec::new();
        for (layer, weights) in model.decoder().layers().iter().enumerate() {
            let device = model.decoder().device(layer);
            for (name, linear) in weights.clone().linears_mut() {
                if !targets.is_empty() && !targets.contains(&name) {
                    continue;
                }
                let (outputs, inputs) = (linear.spec.rows, linear.spec.cols);
                if rank > outputs.min(inputs) {
                    return Err(TrainError::Rank {
                        rank,
                        linear: name,
                        most: outputs.min(inputs),
                    });
                }
                let mut random = Random::new(seed, &[WEIGHTS, layer as u64, pairs.len() as u64]);
                let bound = (inputs as f32).sqrt().recip();
                let a = (0..rank * inputs).map(|_| bound * random.signed()).collect();
                pairs.push(Pair {
                    layer,
                    linear: name,
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
        let mismatch = |why: String| TrainError::InitialAdapter(why);
        if parts.len() != self.pairs.len() {
            let (found, needed) = (parts.len(), self.pairs.len());
            return Err(mismatch(format!(
                "it has {found} target modules, and the run has {needed}"
            )));
        }
        for pair in &mut self.pairs {
            let name = pair.name();
            let part = parts
                .iter()
                .find(|part| part.layer == pair.layer && part.linear == pair.linear);
            let part = part.ok_or_else(|| mismatch(format!("it has no weights for {name}")))?;
            let ([rank, inputs], [outputs, _]) = (pair.a.dims(), pair.b.dims());
            if part.rank != rank || part.a.len() != rank * inputs || part.b.len() != outputs * rank {
                return Err(mismatch(format!(
                    "its rank for {name} is {}, and the run's is {rank}",
                    part.rank
                )));
            }
            if (part.scale - self.scale).abs() > 1e-6 * self.scale.abs() {
                return Err(mismatch(format!(
                    "its scale (alpha / rank) is {}, and the run's is {}",
                    part.scale, self.scale
                )));
            }
            pair.a = tensor(part.a.clone(), [rank, inputs], &pair.a.device());
            pair.b = tensor(part.b.clone(), [outputs, rank], &pair.b.device());
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
        let part = |pair: &Pair| LoraPart {
            layer: pair.layer,
            linear: pair.linear,
            rank: pair.a.dims()[0],
            a: values(&pair.a),
            b: values(&pair.b),
            scale: self.scale,
        };
        self.pairs.iter().map(part).collect()
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
            let target = linears
                .iter_mut()
                .find(|(layer, name, _)| *layer == pair.layer && *name == pair.linear);
            let dropout = dropout.map(|dropout| Dropout {
                seed: Random::new(dropout.seed, &[DROPOUT, dropout.pass, index as u64]).next(),
                rate: dropout.rate,
            });
            if let Some((_, _, linear)) = target {
                linear.adapter = Adapter::Lora {
                    a: a.into_dispatch(),
                    b: b.into_dispatch(),
                    scale: self.scale,
                    dropout,
                };
            }
        }
        decoder
    }
}

pub(crate) fn tensor(values: Vec<f32>, shape: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

pub(crate) fn values(tensor: &Tensor<2>) -> Vec<f32> {
    tensor.clone().into_data().try_into_vec().unwrap_or_default()
}
