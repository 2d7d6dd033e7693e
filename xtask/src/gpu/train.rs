//! Training steps on the GPU, compared with the same steps on the CPU.

use super::options::Options;
use super::report::{Part, cell, collect_notices, command_line};
use crate::measure::{Hearth, Measured, TrainLog, TrainReport, measure as run, median};
use crate::paths;
use crate::process::Outcome;
use std::fs;
use std::path::Path;

/// Part of the message of `hearth train` about layers on a GPU.
const GPU_LAYERS_NOTICE: &str = "layers are trained on";

/// Results of a training run.
struct TrainingResult {
    /// Median without the first step, which compiles kernels.
    steps_per_second: Option<f64>,
    report: TrainReport,
}

/// Trains a few steps on the sample data.
pub fn part(hearth: &Path, device: &str, model: &Path, options: &Options) -> Part {
    if !model.is_file() {
        return Part::skipped("the model does not exist.");
    }
    let folder = std::env::temp_dir().join(format!("hearth-gpu-{}", std::process::id()));
    let mut part = Part::default();
    if let Err(problem) = measure(hearth, device, model, &folder, options, &mut part) {
        part.fail(&problem);
    }
    // Leftovers in the temporary folder do no harm.
    let _ = fs::remove_dir_all(&folder);
    part
}

fn measure(hearth: &Path, device: &str, model: &Path, folder: &Path, options: &Options, part: &mut Part) -> Outcome {
    let (mut commands, mut rows, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let data = paths::root().join("assets/datasets/hearthside.jsonl");
    let fixed = ["--max-steps", options.steps(), "--precision", "f32"];
    for (name, device_options) in [
        (device, &["--device", device, "--gpu-layers", "all"][..]),
        ("cpu", &["--device", "cpu"]),
    ] {
        let out = folder.join(name);
        let mut command = Hearth::new(hearth).train(model, &data, &out, &[device_options, &fixed].concat());
        commands.push(command_line(&command));
        let Measured { report, output } = match run(&mut command) {
            Ok(measured) => measured,
            Err(problem) => {
                part.fail(&problem);
                continue;
            }
        };
        // On a GPU failure training falls back to the CPU.
        if name == device && !output.stderr.contains(GPU_LAYERS_NOTICE) {
            part.fail("the run succeeded, but none of its layers was on the GPU.");
        }
        collect_notices(&output, &mut notes);
        let steps = TrainLog::read(&out)?;
        let speeds: Vec<f64> = steps.iter().map(|step| step.tokens_per_second / step.tokens).collect();
        let steps_per_second = median(speeds.get(1..).unwrap_or_default());
        rows.push((
            name,
            TrainingResult {
                steps_per_second,
                report,
            },
        ));
    }
    part.commands(&commands);
    part.say(&table(&rows));
    notes.iter().for_each(|note| part.say(note));
    if let [(_, on_gpu), (_, on_cpu)] = rows.as_slice() {
        part.say(
            &match max_relative_difference(&on_gpu.report.losses, &on_cpu.report.losses) {
                Some(share) => format!("Maximum relative difference of the losses: {share:.1e}."),
                None => "The numbers of steps differ, so the losses cannot be compared.".to_owned(),
            },
        );
    }
    Ok(())
}

fn table(rows: &[(&str, TrainingResult)]) -> String {
    let mut lines = vec![
        "| | steps/s, median without the first | tokens/s, all steps | first loss | last loss |".to_owned(),
        "|---|---:|---:|---:|---:|".to_owned(),
    ];
    for (name, result) in rows {
        lines.push(format!(
            "| {name} | {} | {} | {} | {} |",
            cell(result.steps_per_second, 3),
            cell(Some(result.report.tok_s), 1),
            cell(result.report.losses.first().copied(), 5),
            cell(result.report.losses.last().copied(), 5)
        ));
    }
    lines.join("\n")
}

/// The maximum relative difference of two lists of losses; `None` if their lengths differ.
fn max_relative_difference(actual: &[f64], expected: &[f64]) -> Option<f64> {
    let is_comparable = actual.len() == expected.len() && !actual.is_empty();
    let shares = actual
        .iter()
        .zip(expected)
        .map(|(actual, expected)| (actual - expected).abs() / expected.abs());
    is_comparable.then(|| shares.fold(0.0, f64::max))
}
