//! A model ready to run: its weights on a device, and what its file says about it.

use crate::config::Config;
use crate::error::LoadError;
use crate::models::{self, Decoder};
use crate::weights::Weights;
use burn::tensor::Device;
use hearth_formats::gguf::Gguf;
use std::ops::ControlFlow;

/// Where a model is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The processor.
    #[default]
    Cpu,
    /// The GPU of this number.
    Gpu(usize),
}

/// How a model is to be loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Where it is to run.
    pub device: DeviceChoice,
}

/// A model ready to run.
pub struct Model {
    config: Config,
    decoder: Decoder,
}

impl Model {
    /// Loads the weights of `gguf`. `progress` gets the share done, from 0 to 1, and what is being done; when it breaks, loading ends.
    ///
    /// # Errors
    /// The file is damaged or of a kind that is not known, the device cannot be used, or `progress` broke.
    pub fn load(
        gguf: &Gguf,
        options: &LoadOptions,
        progress: &mut dyn FnMut(f32, &str) -> ControlFlow<()>,
    ) -> Result<Self, LoadError> {
        let device = match options.device {
            DeviceChoice::Cpu => Device::flex(),
            DeviceChoice::Gpu(index) => {
                return Err(LoadError::Device {
                    device: format!("gpu{index}"),
                    why: "chat on a GPU comes with a later version. Choose 'cpu'.".to_owned(),
                });
            }
        };
        let config = Config::from_gguf(gguf)?;
        let decoder = models::build(&config, &mut Weights::new(gguf, device, progress))?;
        Ok(Self { config, decoder })
    }

    /// The same model with another network.
    pub(crate) fn with_decoder(&self, decoder: Decoder) -> Self {
        let config = self.config.clone();
        Self { config, decoder }
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
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
