//! A model ready to run: its weights on a device, and what its file says about it.

use crate::config::Config;
use crate::error::LoadError;
use crate::models::{self, Decoder};
use crate::packed::PackedWeights;
use crate::placement::Placement;
use crate::weights::Weights;
use burn::tensor::Device;
use hearth_formats::gguf::Gguf;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// How a model is to be loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Where its layers are to lie; none: with the processor.
    pub placement: Option<Placement>,
    /// The folder in which weights that were packed for this machine are kept for the next load;
    /// none: they are packed each time.
    pub packed_in: Option<PathBuf>,
}

/// A model ready to run.
pub struct Model {
    config: Config,
    placement: Placement,
    decoder: Decoder,
}

impl Model {
    /// Loads the weights of `gguf`. `progress` gets the share done, from 0 to 1, and what is being
    /// done; when it breaks, loading ends.
    ///
    /// # Errors
    /// The file is damaged or of a kind that is not known, the device cannot be used, or `progress`
    /// broke.
    pub fn load(
        gguf: &Gguf,
        options: &LoadOptions,
        progress: &mut dyn FnMut(f32, &str) -> ControlFlow<()>,
    ) -> Result<Self, LoadError> {
        let config = Config::from_gguf(gguf)?;
        let placement = match &options.placement {
            None => Placement::cpu(config.layers()),
            Some(placement) if placement.layers() == config.layers() => placement.clone(),
            Some(placement) => {
                let (planned, layers) = (placement.layers(), config.layers());
                let what = format!("it has {layers} layers, and places were chosen for {planned}");
                return Err(LoadError::unsupported(gguf, &what));
            }
        };
        let packed = PackedWeights::of(gguf, options.packed_in.as_deref());
        let mut weights = Weights::new(gguf, packed, Device::flex(), progress);
        let decoder = models::build(&config, &placement, &mut weights)?;
        weights.finish();
        Ok(Self {
            config,
            placement,
            decoder,
        })
    }

    /// The same model with another network.
    pub(crate) fn with_decoder(&self, decoder: Decoder) -> Self {
        Self {
            config: self.config.clone(),
            placement: self.placement.clone(),
            decoder,
        }
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where its layers lie.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The network.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The network, for adapters.
    pub fn decoder_mut(&mut self) -> &mut Decoder {
        &mut self.decoder
    }
}
