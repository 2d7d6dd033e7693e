//! The decoder of a model, each part on its device.

use crate::arch::{Config, DecoderSpec};
use crate::batch::Batch;
use crate::device;
use crate::error::LoadError;
use crate::layer::Layer;
use crate::ops::{
    Bias, Linear, Linears, MatmulPrecision, Norm, OptionalNorm, cross_entropy, embed, norm_linears, softcap,
};
use crate::placement::{Place, Placement};
use crate::threads::DecodeThreads;
use crate::weights::Weights;
use burn::backend::Dispatch;
use burn::tensor::{Device, Tensor};
use std::sync::Arc;

/// A decoder: token embedding, layers, output norm and output layer. A clone shares the weights and
/// may have other adapters.
#[derive(Clone)]
pub struct Decoder {
    embedding: Linear<Dispatch>,
    embedding_scale: f32,
    layers: Vec<Layer>,
    output_norm: Norm<Dispatch>,
    /// Includes the factor of the logits.
    output: Linear<Dispatch>,
    logit_softcap: Option<f32>,
    /// The device of each layer, then the device of the output layer.
    devices: Arc<[Device]>,
    /// Shared by clones, whose decode speed differs little: adapters are small.
    decode_threads: Arc<DecodeThreads>,
}

/// Moves the tensor to a device, unless it is there. The tensor stays on its autodiff tape.
fn move_to(x: Tensor<2>, device: &Device) -> Tensor<2> {
    let current = x.device();
    if current.clone().without_autodiff() == *device {
        return x;
    }
    if current.is_autodiff() {
        x.to_device(&device.clone().autodiff())
    } else {
        x.to_device(device)
    }
}

/// Multiplies the outputs of a linear layer without an adapter by a factor. With 1, its bits do not
/// change.
fn scale_outputs(linear: &mut Linear<Dispatch>, factor: f32) {
    linear.spec.scale *= factor;
    if let Bias::Add(bias) = &mut linear.bias
        && factor != 1.0
    {
        let scaled = Tensor::<1>::from_dispatch(bias.clone()).mul_scalar(factor);
        *bias = scaled.into_dispatch();
    }
}

impl Decoder {
    /// Loads the model that the file describes, with its layers on the devices of `placement`.
    ///
    /// # Errors
    /// If weights do not fit its architecture, or a device cannot be used.
    pub(crate) fn load(
        config: &Config,
        spec: &DecoderSpec,
        placement: &Placement,
        weights: &mut Weights,
    ) -> Result<Self, LoadError> {
        let embedding = weights.embedding(config)?;
        let layer_devices = (0..config.n_layers()).map(|layer| device::open(placement.place(layer)));
        let output_device = std::iter::once(device::open(placement.output()));
        let devices = layer_devices
            .chain(output_device)
            .collect::<Result<Arc<[Device]>, _>>()?;
        let mut layers = Vec::with_capacity(config.n_layers());
        for (index, layer) in spec.layers.iter().enumerate() {
            weights.set_device(&devices[index]);
            layers.push(Layer::load(config, layer, weights, index)?);
        }
        weights.set_device(&devices[config.n_layers()]);
        let output_norm = weights.norm("output_norm", config.width, config.norm_eps)?;
        // A model without an output layer ties it to the embedding: on the CPU the same tensor, on
        // a GPU a copy.
        let mut output = match weights.gguf().tensor("output.weight") {
            Some(_) => weights.linear("output", config.vocab, config.width)?,
            None if placement.output() == Place::Cpu => embedding.clone(),
            None => weights.embedding(config)?,
        };
        scale_outputs(&mut output, spec.logit_scale);
        Ok(Self {
            embedding,
            embedding_scale: spec.embedding_scale,
            layers,
            output_norm,
            output,
            logit_softcap: spec.logit_softcap,
            devices,
            decode_threads: Arc::default(),
        })
    }

    /// The residual stream `[T, D]` before the first layer.
    pub fn embed(&self, ids: Arc<[u32]>) -> Tensor<2> {
        embed(&self.embedding, ids, self.embedding_scale)
    }

    /// Hidden states `[T, D]` of these tokens, before the output norm.
    pub fn hidden(&self, ids: Arc<[u32]>, batch: &Arc<Batch>, precision: MatmulPrecision) -> Tensor<2> {
        (0..self.layers.len()).fold(self.embed(ids), |x, layer| self.run_layer(x, layer, batch, precision))
    }

    /// Runs one layer on the residual stream `[T, D]`.
    pub fn run_layer(&self, x: Tensor<2>, layer: usize, batch: &Arc<Batch>, precision: MatmulPrecision) -> Tensor<2> {
        self.layers[layer].forward(move_to(x, &self.devices[layer]), layer, batch, precision)
    }

    /// Runs one layer on a batch with several adapters. The batch consists of consecutive parts:
    /// `x[i]` is the residual stream `[T, D]` of the rows of `decoders[i]`. The decoders differ in
    /// adapters only.
    pub fn run_parts(
        decoders: &[&Self],
        mut x: Vec<Tensor<2>>,
        layer: usize,
        batch: &Arc<Batch>,
        precision: MatmulPrecision,
    ) -> Vec<Tensor<2>> {
        if let ([decoder], 1) = (decoders, x.len()) {
            let x = x.swap_remove(0);
            return vec![decoder.run_layer(x, layer, batch, precision)];
        }
        let x = decoders
            .iter()
            .zip(x)
            .map(|(decoder, x)| move_to(x, &decoder.devices[layer]))
            .collect();
        let layers: Vec<&Layer> = decoders.iter().map(|decoder| &decoder.layers[layer]).collect();
        Layer::forward_parts(&layers, x, layer, batch, precision)
    }

    /// The decoder of the first `count` layers, with the same output layer. The weights are shared.
    pub(crate) fn first_layers(&self, count: usize) -> Self {
        let mut first = self.clone();
        first.layers.truncate(count);
        first.decode_threads = Arc::default();
        first
    }

    /// Whether both have the same weights, so that they differ in adapters at most.
    pub fn shares_weights(&self, other: &Self) -> bool {
        // `first_layers` has the same devices but fewer layers.
        Arc::ptr_eq(&self.devices, &other.devices) && self.layers.len() == other.layers.len()
    }

    /// The number of threads for decode.
    pub(crate) fn decode_threads(&self) -> &DecodeThreads {
        &self.decode_threads
    }

    /// The device of a layer.
    pub fn device(&self, layer: usize) -> &Device {
        &self.devices[layer]
    }

    /// The device of the output layer.
    pub fn output_device(&self) -> &Device {
        // Not at the number of layers: `first_layers` has fewer layers than devices.
        &self.devices[self.devices.len() - 1]
    }

    /// Logits `[rows, vocab]` of hidden states `[rows, D]`.
    ///
    /// The softcap is also applied where only the argmax is needed. It is monotone, so the argmax
    /// would be the same, but for ties: distinct logits far beyond the cap become equal. So greedy
    /// decoding on any device chooses the token that the logits of a session have as their argmax.
    pub fn logits(&self, hidden: Tensor<2>, precision: MatmulPrecision) -> Tensor<2> {
        let hidden = move_to(hidden, self.output_device());
        let norm = OptionalNorm::from(self.output_norm.clone());
        let logits = norm_linears(hidden, &norm, &Linears::One(self.output.clone()), precision);
        match self.logit_softcap {
            None => logits,
            Some(cap) => softcap(logits, cap),
        }
    }

    /// `scale` times the summed cross-entropy of hidden states `[T, D]` against their target
    /// tokens, `[1]`. Logits are computed a few rows at a time; rows with the target
    /// [`NOT_TRAINED`](crate::ops::NOT_TRAINED) are skipped.
    pub fn loss(&self, hidden: Tensor<2>, targets: Arc<[u32]>, scale: f32, precision: MatmulPrecision) -> Tensor<1> {
        let hidden = move_to(hidden, self.output_device());
        let (norm, softcap) = (&self.output_norm, self.logit_softcap);
        cross_entropy(hidden, norm, &self.output, softcap, targets, scale, precision)
    }

    /// The layers.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The layers, for changes in place.
    pub fn layers_mut(&mut self) -> &mut [Layer] {
        &mut self.layers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Adapter, MatrixSpec};
    use burn::tensor::{DType, Int, TensorData};
    use hearth_kernels::{Layout, Quant};

    /// The scale and the bias of a linear layer after its outputs were scaled.
    fn scaled(factor: f32) -> (f32, Vec<f32>) {
        let device = Device::flex();
        let bytes = TensorData::new(vec![0_u8; 8], [8]);
        let bias = Tensor::<1>::from_data(TensorData::new(vec![1.5_f32, -0.1], [2]), &device);
        let mut linear = Linear {
            weight: Tensor::<1, Int>::from_data(bytes, (&device, DType::U8)).into_dispatch(),
            spec: MatrixSpec {
                quant: Quant::F32,
                layout: Layout::Plain,
                rows: 2,
                cols: 1,
                scale: 0.3,
            },
            adapter: Adapter::None,
            bias: Bias::Add(bias.into_dispatch()),
        };
        scale_outputs(&mut linear, factor);
        let Bias::Add(bias) = linear.bias else {
            panic!("the bias is gone")
        };
        let bias = Tensor::<1>::from_dispatch(bias).into_data();
        (linear.spec.scale, bias.try_into_vec().expect("f32"))
    }

    #[test]
    fn a_factor_of_outputs_also_scales_the_bias_and_1_changes_no_bit() {
        assert_eq!(scaled(1.0), (0.3, vec![1.5, -0.1]));
        assert_eq!(scaled(0.25), (0.075, vec![0.375, -0.025]));
    }
}
