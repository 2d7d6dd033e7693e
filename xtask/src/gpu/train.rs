//! Steps of training on the GPU, beside the same steps on the processor.

use super::options::Options;
use super::report::{Part, cell, collect_notes, typed};
use crate::process::{Outcome, Said, hear};
use crate::{json, place};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `hearth train` says of layers that are trained on a GPU.
const TRAINED_ON: &str = "layers are trained on";

/// One run.
struct Trained {
    steps_a_second: Option<f64>,
    tokens_a_second: Option<f64>,
    losses: Vec<f64>,
}

/// Trains a few steps on the sample data.
pub fn part(hearth: &Path, device: &str, model: &Path, options: &Options) -> Part {
    if !model.is_file() {
        return Part::left_out("the model is not there.");
    }
    let folder = std::env::temp_dir().join(format!("hearth-gpu-{}", std::process::id()));
    let mut part = Part::default();
    if let Err(problem) = measure(hearth, device, model, &folder, options, &mut part) {
        part.fail(&problem);
    }
    // What is left behind in a folder for such things harms nobody.
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
        match ran.said.ok {
            true => rows.push((what, Trained::read(&ran.said, &out))),
            false => part.fail(&format!("`{}`: {}", ran.shown, ran.said.complaint())),
        }
        // A GPU that fails gives way to the processor.
        if what == device && ran.said.ok && !ran.said.stderr.contains(TRAINED_ON) {
            part.fail("the run ended well, but none of its layers was on the GPU.");
        }
        collect_notes(&ran.said, &mut notes);
    }
    part.commands(&commands);
    part.say(&table(&rows));
    notes.iter().for_each(|note| part.say(note));
    if let [(_, on_gpu), (_, on_cpu)] = rows.as_slice() {
        part.say(&match furthest(&on_gpu.losses, &on_cpu.losses) {
            Some(share) => format!("Losses of the same steps differ by {share:.1e} of their size at most."),
            None => "The two made different numbers of steps, so their losses cannot be compared.".to_owned(),
        });
    }
    Ok(())
}

/// What was typed, and what came of it.
struct Ran {
    shown: String,
    said: Said,
}

fn run(hearth: &Path, model: &Path, on: &[&str], steps: &str, out: &Path) -> Outcome<Ran> {
    let data: PathBuf = place::root().join("assets/datasets/hearthside.jsonl");
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
    let shown = typed(&command);
    let said = hear(&shown, &mut command)?;
    Ok(Ran { shown, said })
}

impl Trained {
    fn read(said: &Said, out: &Path) -> Self {
        let log = fs::read_to_string(out.join("log.jsonl")).unwrap_or_default();
        let speed = |line: &str| Some(json::number(line, "tokens_per_second")? / json::number(line, "tokens")?);
        // The first step compiles kernels.
        let mut speeds: Vec<f64> = log.lines().filter_map(speed).skip(1).collect();
        speeds.sort_by(f64::total_cmp);
        Self {
            steps_a_second: speeds.get(speeds.len() / 2).copied(),
            tokens_a_second: json::number(said.last_line(), "tok_s"),
            losses: json::numbers(said.last_line(), "losses"),
        }
    }
}

fn table(rows: &[(&str, Trained)]) -> String {
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

/// The greatest distance of two lists of losses, as a share of the second; none where they are not as long.
fn furthest(found: &[f64], expected: &[f64]) -> Option<f64> {
    let same = found.len() == expected.len() && !found.is_empty();
    let shares = found
        .iter()
        .zip(expected)
        .map(|(found, expected)| (found - expected).abs() / expected.abs());
    same.then(|| shares.fold(0.0, f64::max))
}
