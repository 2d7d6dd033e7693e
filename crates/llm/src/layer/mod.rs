//! A transformer layer of any architecture.

mod attention;
mod feed_forward;
mod mixer;
mod weights;

use crate::arch::{Config, LayerSpec};
use crate::batch::Batch;
use crate::error::LoadError;
use crate::ops::{Linear, MatmulPrecision};
use crate::weights::Weights;
use burn::backend::Dispatch;
use burn::tensor::Tensor;
use feed_forward::FeedForward;
use hearth_formats::shape::LinearName;
use mixer::Mixer;
use std::sync::Arc;
use weights::LayerWeights;

/// A transformer layer: a mixer, then a feed-forward. A clone shares the weights and may have other
/// adapters.
#[derive(Clone)]
pub struct Layer {
    mixer: Option<Mixer>,
    feed_forward: Option<FeedForward>,
}

impl Layer {
    /// Loads layer `index`.
    ///
    /// # Errors
    /// If weights do not fit the description.
    pub(crate) fn load(
        config: &Config,
        spec: &LayerSpec,
        weights: &mut Weights,
        index: usize,
    ) -> Result<Self, LoadError> {
        let mut weights = LayerWeights::new(weights, spec, index, config);
        let mixer = spec.mixer.map(|mixer| Mixer::load(mixer, &mut weights)).transpose()?;
        let feed_forward = spec.feed_forward.map(|spec| FeedForward::load(spec, &mut weights));
        Ok(Self {
            mixer,
            feed_forward: feed_forward.transpose()?,
        })
    }

    /// Runs the layer, which has this index in its decoder, on the residual stream `[T, D]` of a
    /// batch. Returns the residual stream after it.
    pub fn forward(&self, x: Tensor<2>, index: usize, batch: &Arc<Batch>, precision: MatmulPrecision) -> Tensor<2> {
        let x = match &self.mixer {
            None => x,
            Some(mixer) => {
                let inputs = mixer.inputs(x.clone(), precision);
                let mixed = mixer.mix(inputs, index, batch);
                mixer.add_output(x, mixed, precision)
            }
        };
        self.feed_forward(x, precision)
    }

    /// [`Layer::forward`] for a batch with several adapters, which consists of consecutive parts:
    /// the rows of `x[i]` run in `layers[i]`. The layers differ in adapters only. The mixer is one
    /// op over the rows of all parts.
    pub fn forward_parts(
        layers: &[&Self],
        x: Vec<Tensor<2>>,
        index: usize,
        batch: &Arc<Batch>,
        precision: MatmulPrecision,
    ) -> Vec<Tensor<2>> {
        let mixers: Vec<&Mixer> = layers.iter().filter_map(|layer| layer.mixer.as_ref()).collect();
        let Some(first) = mixers.first() else {
            let parts = layers.iter().zip(x);
            return parts.map(|(layer, x)| layer.feed_forward(x, precision)).collect();
        };
        let parts = mixers.iter().zip(x);
        let (inputs, x): (Vec<_>, Vec<_>) = parts.map(|(mixer, x)| (mixer.inputs(x.clone(), precision), x)).unzip();
        let mixed = first.mix(Tensor::cat(inputs, 0), index, batch);
        let mut end = 0;
        let finish_part = |((layer, mixer), x): ((&&Self, &&Mixer), Tensor<2>)| {
            let rows = end..end + x.dims()[0];
            end = rows.end;
            let x = mixer.add_output(x, mixed.clone().slice_dim(0, rows), precision);
            layer.feed_forward(x, precision)
        };
        layers.iter().zip(&mixers).zip(x).map(finish_part).collect()
    }

    fn feed_forward(&self, x: Tensor<2>, precision: MatmulPrecision) -> Tensor<2> {
        match &self.feed_forward {
            None => x,
            Some(feed_forward) => feed_forward.forward(x, precision),
        }
    }

    /// The linear layers in the order of execution, to change their adapters.
    pub fn linears_mut(&mut self) -> Vec<(LinearName, &mut Linear<Dispatch>)> {
        let mixer = self.mixer.iter_mut().flat_map(Mixer::linears_mut);
        let feed_forward = self.feed_forward.iter_mut().flat_map(FeedForward::linears_mut);
        mixer.chain(feed_forward).collect()
    }
}
