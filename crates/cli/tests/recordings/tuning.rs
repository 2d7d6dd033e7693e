//! The default settings of a run, and the sample datasets as the engine inspects them with the
//! default model.

use hearth_app::wire::{Inspection, TrainSettings};
use hearth_engine::training::inspect;
use hearth_protocol::{DataSource, InspectRequest};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Examples that an inspection shows token by token; the app asks for more.
const PREVIEWS: u32 = 3;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Recording {
    train_defaults: TrainSettings,
    samples: BTreeMap<&'static str, Sample>,
}

#[derive(Serialize)]
struct Sample {
    size: u64,
    inspection: Inspection,
}

/// A sample dataset.
fn sample(name: &str) -> Sample {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("assets/datasets").join(name)).unwrap();
    // A checkout on Windows may have other line endings.
    let text = text.replace("\r\n", "\n");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, &text).unwrap();
    let request = InspectRequest {
        model: root.join("models/SmolLM2-135M-Instruct.Q4_1.gguf"),
        data: DataSource {
            path,
            mapping: None,
            skip_broken: false,
        },
        sequence: None,
        system_prompt: None,
        previews: PREVIEWS,
    };
    let inspection = inspect(&request, &|| true).unwrap_or_else(|problem| panic!("{name}: {problem}"));
    Sample {
        size: text.len() as u64,
        inspection,
    }
}

/// The recording as JSON.
pub fn recording() -> String {
    let recording = Recording {
        train_defaults: TrainSettings::default(),
        samples: ["hearthside.jsonl", "notes.md"].map(|name| (name, sample(name))).into(),
    };
    serde_json::to_string_pretty(&recording).unwrap() + "\n"
}
