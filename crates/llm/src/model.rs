//! A loaded model: its weights on their devices, and its configuration.

use crate::arch::{self, Config, RopeIdentity};
use crate::cache::LayerGroup;
use crate::decoder::Decoder;
use crate::error::{LoadError, SessionError};
use crate::packed::PackedWeights;
use crate::placement::Placement;
use crate::weights::Weights;
use burn::tensor::Device;
use hearth_formats::gguf::Gguf;
use hearth_kernels::Calibrated;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Options for loading a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// The placement of the layers; `None` means that all are on the CPU.
    pub placement: Option<Placement>,
    /// The cache folder of packed weights; `None` means that weights are packed at each load.
    pub packed_in: Option<PathBuf>,
    /// The planned context length, in tokens per sequence, by which LongRoPE chooses its
    /// frequencies; `None` means the context length in training. Sequences may be longer or
    /// shorter.
    pub context: Option<usize>,
    /// Whether to measure the best prefetching of weights on the CPU, for formats that were not
    /// measured yet.
    pub calibrate: bool,
}

/// A loaded model.
pub struct Model {
    config: Config,
    groups: Vec<LayerGroup>,
    placement: Placement,
    rope_identity: RopeIdentity,
    decoder: Decoder,
    calibrated: Vec<Calibrated>,
}

impl Model {
    /// Loads the weights of `gguf`. `progress` receives the fraction done, from 0 to 1, and breaks
    /// to cancel.
    ///
    /// # Errors
    /// If the file is corrupt or unsupported, the device cannot be used, or `progress` cancelled.
    pub fn load(
        gguf: &Gguf,
        options: &LoadOptions,
        progress: &mut dyn FnMut(f32) -> ControlFlow<()>,
    ) -> Result<Self, LoadError> {
        let config = Config::from_gguf(gguf)?;
        let placement = match &options.placement {
            None => Placement::cpu(config.layers()),
            Some(placement) if placement.layers() == config.layers() => placement.clone(),
            Some(placement) => {
                let (planned, layers) = (placement.layers(), config.layers());
                let what = format!("it has {layers} layers, but the placement has {planned}");
                return Err(LoadError::unsupported(gguf, &what));
            }
        };
        let packed = PackedWeights::new(gguf, options.packed_in.as_deref());
        let context = options.context.unwrap_or(config.context_trained);
        let mut weights = Weights::new(gguf, packed, Device::flex(), context, progress);
        let spec = arch::describe(gguf, &config)?;
        let decoder = Decoder::load(&config, &spec, &placement, &mut weights)?;
        let cpu_matrices = weights.finish();
        let calibrated = if options.calibrate {
            cpu_matrices.calibrate()
        } else {
            Vec::new()
        };
        Ok(Self {
            config,
            groups: LayerGroup::from_spec(&spec),
            placement,
            rope_identity: spec.rope_identity(context),
            decoder,
            calibrated,
        })
    }

    /// The same model with another decoder.
    pub(crate) fn with_decoder(&self, decoder: Decoder) -> Self {
        Self {
            config: self.config.clone(),
            groups: self.groups.clone(),
            placement: self.placement.clone(),
            rope_identity: self.rope_identity,
            decoder,
            calibrated: Vec::new(),
        }
    }

    /// The model of the first `count` layers with the same output layer, for drafts. The weights
    /// are shared. The placement is unchanged: it also counts the omitted layers.
    pub(crate) fn first_layers(&self, count: usize) -> Self {
        let groups = self.groups.iter().map(|group| LayerGroup {
            layers: group.layers.iter().copied().filter(|layer| *layer < count).collect(),
            ..group.clone()
        });
        let mut config = self.config.clone();
        config.layer_shapes.truncate(count);
        Self {
            config,
            groups: groups.filter(|group| !group.layers.is_empty()).collect(),
            placement: self.placement.clone(),
            rope_identity: self.rope_identity,
            decoder: self.decoder.first_layers(count),
            calibrated: Vec::new(),
        }
    }

    /// The results of calibration during the load; see [`LoadOptions::calibrate`].
    pub fn calibrated(&self) -> &[Calibrated] {
        &self.calibrated
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The layers, grouped by the shapes of their KV caches.
    pub fn groups(&self) -> &[LayerGroup] {
        &self.groups
    }

    /// The placement of the layers.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The choice of RoPE's frequencies by [`LoadOptions::context`]. KV cells of a model with
    /// another choice are useless with this one.
    pub fn rope_identity(&self) -> RopeIdentity {
        self.rope_identity
    }

    /// Checks that all tokens are in the vocabulary.
    ///
    /// # Errors
    /// If one is not.
    pub fn check_ids(&self, ids: &[u32]) -> Result<(), SessionError> {
        let vocab = self.config.vocab;
        match ids.iter().find(|id| **id as usize >= vocab) {
            Some(&id) => Err(SessionError::NoSuchToken { id, vocab }),
            None => Ok(()),
        }
    }

    /// The decoder.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The decoder, for changes in place.
    pub fn decoder_mut(&mut self) -> &mut Decoder {
        &mut self.decoder
    }
}
