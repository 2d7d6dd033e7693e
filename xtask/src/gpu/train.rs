//! Training steps on the GPU, compared with the same steps on the CPU.

use super::options::Options;
use super::report::{Part, cell, collect_notices, command_line};
use crate::process::{Outcome, Output, capture};
use crate::{json, paths};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Part of the message of `hearth train` about layers on a GPU.
const GPU_LAYERS_NOTICE: &str = "layers are trained on";

/// Results of a training run.
struct TrainingResult {
    steps_a_second: Option<f64>,
    tokens_a_second: Option<f64>,
    losses: Vec<f64>,
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
    for (what, on) in [
        (device, &["--device", device, "--gpu-layers", "all"][..]),
        ("cpu", &["--device", "cpu"]),
    ] {
        let out = folder.join(what);
        let ran = run(hearth, model, on, options.steps(), &out)?;
        commands.push(ran.shown.clone());
        match ran.output.ok {
            true => rows.push((what, TrainingResult::read(&ran.output, &out))),
            false => part.fail(&format!("`{}`: {}", ran.shown, ran.output.last_stderr_line())),
        }
        // On a GPU failure training falls back to the CPU.
        if what == device && ran.output.ok && !ran.output.stderr.contains(GPU_LAYERS_NOTICE) {
            part.fail("the run succeeded, but none of its layers was on the GPU.");
        }
        collect_notices(&ran.output, &mut notes);
    }
    part.commands(&commands);
    part.say(&table(&rows));
    notes.iter().for_each(|note| part.say(note));
    if let [(_, on_gpu), (_, on_cpu)] = rows.as_slice() {
        part.say(&match max_relative_difference(&on_gpu.losses, &on_cpu.losses) {
            Some(share) => format!("Maximum relative difference of the losses: {share:.1e}."),
            None => "The numbers of steps differ, so the losses cannot be compared.".to_owned(),
        });
    }
    Ok(())
}

/// A command line and its output.
struct TrainingRun {
    shown: String,
    output: Output,
}

fn run(hearth: &Path, model: &Path, on: &[&str], steps: &str, out: &Path) -> Outcome<TrainingRun> {
    let data: PathBuf = paths::root().join("assets/datasets/hearthside.jsonl");
    let mut command = Command::new(hearth);
    command.arg("train").arg(model).arg(data).arg("--out").arg(out).args(on);
    command.args([
        "--max-steps",
        steps,
        "--no-shuffle",
        "--eval-split",
        "0",
        "--precision",
        "f32",
        "--json",
    ]);
    let shown = command_line(&command);
    let output = capture(&shown, &mut command)?;
    Ok(TrainingRun { shown, output })
}

impl TrainingResult {
    fn read(output: &Output, out: &Path) -> Self {
        let log = fs::read_to_string(out.join("log.jsonl")).unwrap_or_default();
        let speed = |line: &str| Some(json::number(line, "tokens_per_second")? / json::number(line, "tokens")?);
        // The first step compiles kernels.
        let mut speeds: Vec<f64> = log.lines().filter_map(speed).skip(1).collect();
        speeds.sort_by(f64::total_cmp);
        Self {
            steps_a_second: speeds.get(speeds.len() / 2).copied(),
            tokens_a_second: json::number(output.last_line(), "tok_s"),
            losses: json::numbers(output.last_line(), "losses"),
        }
    }
}

fn table(rows: &[(&str, TrainingResult)]) -> String {
    let mut lines = vec![
        "| | steps/s, median without the first | tokens/s, all steps | first loss | last loss |".to_owned(),
        "|---|---:|---:|---:|---:|".to_owned(),
    ];
    for (what, trained) in rows {
        lines.push(format!(
            "| {what} | {} | {} | {} | {} |",
            cell(trained.steps_a_second, 3),
            cell(trained.tokens_a_second, 1),
            cell(trained.losses.first().copied(), 5),
            cell(trained.losses.last().copied(), 5)
        ));
    }
    lines.join("\n")
}

/// The maximum relative difference of two lists of losses; `None` if their lengths differ.
fn max_relative_difference(found: &[f64], expected: &[f64]) -> Option<f64> {
    let same = found.len() == expected.len() && !found.is_empty();
    let shares = found
        .iter()
        .zip(expected)
        .map(|(found, expected)| (found - expected).abs() / expected.abs());
    same.then(|| shares.fold(0.0, f64::max))
}
