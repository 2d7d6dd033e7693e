//! Checkpoints: a run's state in one file, replaced atomically. A resumed run is bit-identical to
//! an uninterrupted one.

use crate::adamw::{AdamW, Moments};
use crate::error::TrainError;
use crate::parameters::{Parameters, tensor, values};
use crate::settings::Settings;
use burn::tensor::Tensor;
use hearth_formats::durable;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The checkpoint's file name in a run's folder.
const FILE_NAME: &str = "checkpoint.safetensors";
/// The metadata key of the [`State`].
const STATE_KEY: &str = "hearth.run";
/// The format version.
const VERSION: u32 = 1;

/// The history of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// The loss of each step taken.
    pub losses: Vec<f64>,
    /// Validation losses, each with the number of steps taken before it.
    pub evaluations: Vec<(usize, f64)>,
    /// Tokens processed in the steps.
    pub tokens: u64,
    /// Seconds spent in the steps.
    pub seconds: f64,
}

impl Progress {
    /// The best evaluation since the first step: steps and loss. The loss is never NaN or infinite.
    pub fn best(&self) -> Option<(usize, f64)> {
        let trained = self.evaluations.iter().filter(|(step, _)| *step > 0);
        let finite = trained.filter(|(_, loss)| loss.is_finite());
        finite.copied().min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Whether a new validation loss is better than all since the first step.
    pub fn is_better(&self, loss: f64) -> bool {
        loss.is_finite() && self.best().is_none_or(|(_, best)| loss < best)
    }

    /// The number of evaluations after the best.
    pub fn since_best(&self) -> usize {
        let best_step = self.best().map_or(0, |(step, _)| step);
        self.evaluations.iter().filter(|(step, _)| *step > best_step).count()
    }
}

/// The part of a checkpoint that is not tensors.
#[derive(Serialize, Deserialize)]
struct State {
    version: u32,
    settings: Settings,
    /// Fingerprint of the examples.
    data: u64,
    tokens: u64,
    seconds: f64,
}

/// The fields that every version of the file has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The checkpoint in a run's folder, if there is one.
pub fn latest(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(FILE_NAME)).filter(|path| path.is_file())
}

/// Writes a checkpoint to `folder`. The previous one is replaced only when this one is complete.
pub(crate) fn save(
    folder: &Path,
    settings: &Settings,
    data: u64,
    parameters: &Parameters,
    optimizer: &AdamW,
    progress: &Progress,
) -> Result<(), TrainError> {
    let path = folder.join(FILE_NAME);
    let write = || -> io::Result<()> {
        let state = State {
            version: VERSION,
            settings: settings.clone(),
            data,
            tokens: progress.tokens,
            seconds: progress.seconds,
        };
        let mut arrays = Vec::new();
        let mut add = |name: String, tensor: &Tensor<2>| {
            let bytes: Vec<u8> = values(tensor).iter().flat_map(|value| value.to_le_bytes()).collect();
            arrays.push((name, Dtype::F32, tensor.dims().to_vec(), bytes));
        };
        for (pair, moments) in parameters.pairs.iter().zip(&optimizer.moments) {
            for ((side, weight), moments) in [("a", &pair.a), ("b", &pair.b)].into_iter().zip(moments) {
                add(format!("{}.{side}", pair.name()), weight);
                add(format!("{}.{side}.first", pair.name()), &moments.first);
                add(format!("{}.{side}.second", pair.name()), &moments.second);
            }
        }
        // Losses are tensors, since JSON might round them and has no NaN.
        let mut add_f64 = |name: &str, values: Vec<f64>| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            arrays.push((name.to_owned(), Dtype::F64, vec![values.len()], bytes));
        };
        add_f64("losses", progress.losses.clone());
        let evaluations = progress
            .evaluations
            .iter()
            .flat_map(|(step, loss)| [*step as f64, *loss]);
        add_f64("evaluations", evaluations.collect());
        let views = arrays
            .iter()
            .map(|(name, dtype, shape, bytes)| Ok((name.as_str(), TensorView::new(*dtype, shape.clone(), bytes)?)))
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(io::Error::other)?;
        let state = serde_json::to_string(&state).map_err(io::Error::other)?;
        let metadata = HashMap::from([(STATE_KEY.to_owned(), state)]);
        let bytes = safetensors::serialize(views, Some(metadata)).map_err(io::Error::other)?;
        durable::create_folder(folder)?;
        durable::write_file(&path, |out| out.write_all(&bytes))
    };
    write().map_err(|source| TrainError::Write {
        path: path.clone(),
        source,
    })
}

/// Replaces a new run's state with a checkpoint's.
pub(crate) fn restore(
    path: &Path,
    settings: &Settings,
    data: u64,
    parameters: &mut Parameters,
    optimizer: &mut AdamW,
) -> Result<Progress, TrainError> {
    let unusable = |why: String| TrainError::Checkpoint {
        path: path.to_owned(),
        why,
    };
    let bytes = fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let corrupt = |error: &dyn std::fmt::Display| unusable(format!("it is corrupt ({error})"));
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|error| corrupt(&error))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| corrupt(&error))?;
    let state = header.metadata().as_ref().and_then(|metadata| metadata.get(STATE_KEY));
    let state = state.ok_or_else(|| unusable("it was not written by Hearth".to_owned()))?;
    // Checked first: the rest of a newer version may not be readable.
    let version = serde_json::from_str(state).map(|Version { version }| version);
    match version.map_err(|error| corrupt(&error))? {
        VERSION => {}
        version => {
            let why = format!(
                "it has version {version}, and this Hearth reads {VERSION}; resume it with the version of Hearth \
                 that wrote it"
            );
            return Err(unusable(why));
        }
    }
    let state: State = serde_json::from_str(state).map_err(|error| corrupt(&error))?;
    if state.settings != *settings {
        return Err(unusable("the run had other settings".to_owned()));
    }
    if state.data != data {
        return Err(unusable("the run was trained on other data".to_owned()));
    }
    let bytes_of = |name: &str, dtype: Dtype, length: Option<usize>| {
        let view = file.tensor(name).map_err(|error| corrupt(&error))?;
        let has_length = length.is_none_or(|length| view.shape().iter().product::<usize>() == length);
        if view.dtype() == dtype && has_length {
            Ok(view.data().to_vec())
        } else {
            Err(unusable(format!("'{name}' has another shape")))
        }
    };
    let matrix = |name: &str, like: &Tensor<2>| -> Result<Tensor<2>, TrainError> {
        let shape: [usize; 2] = like.dims();
        let bytes = bytes_of(name, Dtype::F32, Some(shape[0] * shape[1]))?;
        let values = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        Ok(tensor(values.collect(), shape, &like.device()))
    };
    for (pair, moments) in parameters.pairs.iter_mut().zip(&mut optimizer.moments) {
        let name = pair.name();
        for ((side, weight), moments) in [("a", &mut pair.a), ("b", &mut pair.b)].into_iter().zip(moments) {
            let name = format!("{name}.{side}");
            *moments = Moments {
                first: matrix(&format!("{name}.first"), weight)?,
                second: matrix(&format!("{name}.second"), weight)?,
            };
            *weight = matrix(&name, weight)?;
        }
    }
    let f64_values = |name: &str| -> Result<Vec<f64>, TrainError> {
        let bytes = bytes_of(name, Dtype::F64, None)?;
        Ok(bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|bytes| f64::from_le_bytes(*bytes))
            .collect())
    };
    let progress = Progress {
        losses: f64_values("losses")?,
        evaluations: f64_values("evaluations")?
            .as_chunks::<2>()
            .0
            .iter()
            .map(|[step, loss]| (*step as usize, *loss))
            .collect(),
        tokens: state.tokens,
        seconds: state.seconds,
    };
    optimizer.steps = progress.losses.len();
    Ok(progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_non_finite_evaluation_is_never_the_best() {
        // 0 / 0 is a negative NaN on x86, which sorts before every number.
        let nan = |sign: f64| f64::NAN.copysign(sign);
        let mut progress = Progress::default();
        progress
            .evaluations
            .extend([(0, 1.0), (5, nan(-1.0)), (10, nan(1.0)), (15, f64::INFINITY)]);
        assert_eq!((progress.best(), progress.since_best()), (None, 3));
        for loss in [nan(-1.0), nan(1.0), f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!progress.is_better(loss), "{loss}");
        }
        assert!(progress.is_better(3.0));
        progress
            .evaluations
            .extend([(20, 2.0), (25, nan(-1.0)), (30, f64::NEG_INFINITY), (35, 2.5)]);
        assert_eq!((progress.best(), progress.since_best()), (Some((20, 2.0)), 3));
        assert!(progress.is_better(1.5) && !progress.is_better(2.0) && !progress.is_better(nan(-1.0)));
    }
}
