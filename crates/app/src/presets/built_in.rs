//! Hearth's own presets.

use crate::wire::{Preset, PresetValues, SamplingOverrides};

/// Prefix of their ids. No id of a file has a colon.
const PREFIX: &str = "built-in:";

/// Hearth's own presets. Unset parameters have the model's defaults.
pub(super) fn all() -> impl Iterator<Item = Preset> {
    [
        preset("precise", "Precise", sampling(0.2, 40, 0.9, 0.05)),
        preset("balanced", "Balanced", sampling(0.7, 40, 0.95, 0.05)),
        // Only min-p filters: a higher temperature needs many candidates, but no unlikely ones.
        preset("creative", "Creative", sampling(1.1, 0, 1.0, 0.05)),
        preset("code", "Code", without_penalties(sampling(0.1, 20, 0.95, 0.05))),
    ]
    .into_iter()
}

fn preset(id: &str, name: &str, sampling: SamplingOverrides) -> Preset {
    Preset {
        id: format!("{PREFIX}{id}"),
        name: name.to_owned(),
        is_built_in: true,
        values: PresetValues {
            sampling,
            ..PresetValues::default()
        },
    }
}

fn sampling(temperature: f32, top_k: u32, top_p: f32, min_p: f32) -> SamplingOverrides {
    SamplingOverrides {
        temperature: Some(temperature),
        top_k: Some(top_k),
        top_p: Some(top_p),
        min_p: Some(min_p),
        ..SamplingOverrides::default()
    }
}

/// Disables the penalties: code repeats identifiers, which penalties would change.
fn without_penalties(sampling: SamplingOverrides) -> SamplingOverrides {
    SamplingOverrides {
        repetition_penalty: Some(1.0),
        frequency_penalty: Some(0.0),
        presence_penalty: Some(0.0),
        ..sampling
    }
}
