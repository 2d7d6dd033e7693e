//! Runs on tiny random models, compared with PyTorch and PEFT, and with uninterrupted runs.
//!
//! The fixtures, and the script that makes them, are in `tests/fixtures/training` and
//! `tests/fixtures/models`.

use crate::exports;
use crate::nvfp4_pair;
use hearth_formats::adapter::{AdapterFile, BaseShape};
use hearth_formats::gguf::Gguf;
use hearth_llm::threads::{self, Threads};
use hearth_llm::{LoadOptions, LoraPart, Model};
use hearth_train::{Control, End, EndReason, Example, Report, Run, Schedule, Settings, TrainError, latest_checkpoint};
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum relative difference of a loss from PyTorch's. Rounding alone gives 3e-7.
const LOSS_TOLERANCE: f64 = 1e-4;
/// Maximum cosine distance of a trained matrix from PyTorch's.
const COSINE_TOLERANCE: f64 = 1e-5;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

struct Fixture {
    name: &'static str,
    model: Arc<Model>,
    base: BaseShape,
    /// Settings, examples and metrics of the run in PyTorch.
    json: Value,
}

impl Fixture {
    fn read(name: &'static str) -> Self {
        let gguf = Gguf::open(fixtures().join("models").join(name).with_extension("gguf")).expect("the model opens");
        let text = std::fs::read_to_string(fixtures().join("training").join(name).join("run.json")).expect("the run");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let lengths = Self::examples_in(&json).into_iter().map(|example| example.ids.len());
        let options = LoadOptions {
            context: lengths.max(),
            ..LoadOptions::default()
        };
        let model = Model::load(&gguf, &options, &mut |_| ControlFlow::Continue(()));
        Self {
            name,
            model: Arc::new(model.expect("it loads")),
            base: BaseShape::from_gguf(&gguf).expect("its sizes"),
            json,
        }
    }

    fn examples(&self) -> Vec<Example> {
        Self::examples_in(&self.json)
    }

    fn examples_in(json: &Value) -> Vec<Example> {
        let numbers = |value: &Value| -> Vec<u32> {
            let list = value.as_array().expect("a list");
            list.iter()
                .map(|number| number.as_u64().expect("a number") as u32)
                .collect()
        };
        let example = |value: &Value| Example {
            ids: numbers(&value["ids"]),
            trained: numbers(&value["trained"]).into_iter().map(|flag| flag == 1).collect(),
        };
        json["examples"]
            .as_array()
            .expect("a list")
            .iter()
            .map(example)
            .collect()
    }

    /// The settings of the run in PyTorch.
    fn settings(&self) -> Settings {
        let number = |key: &str| self.json["settings"][key].as_f64().unwrap_or_else(|| panic!("{key}"));
        let steps = self.json["steps"].as_array().expect("a list").len();
        Settings {
            version: Settings::VERSION,
            rank: number("rank") as usize,
            alpha: number("alpha") as f32,
            dropout: 0.0,
            rslora: false,
            targets: Vec::new(),
            learning_rate: number("learning_rate"),
            schedule: Schedule::Cosine,
            // Times `steps` and rounded up, this is the script's number of warm-up steps.
            warmup: (number("warmup") - 0.01) / steps as f64,
            weight_decay: number("weight_decay"),
            max_gradient_norm: number("clip"),
            epochs: 1e9,
            max_steps: Some(steps),
            batch: number("batch") as usize,
            accumulation: number("accumulation") as usize,
            seed: 1,
            shuffle: false,
            eval_every: 5,
            patience: 0,
            checkpoint_every: 3,
            bf16: false,
            layers_on_tape: 99,
        }
    }

    /// The adapter of the run in PyTorch at its `start` or `end`.
    fn adapter(&self, folder: &str) -> Vec<LoraPart> {
        let path = fixtures().join("training").join(self.name).join(folder);
        LoraPart::from_file(&AdapterFile::open(&path, &self.base).expect("the adapter opens"), 1.0)
    }

    fn run(&self, settings: Settings, folder: Option<&Path>) -> Run {
        let examples = self.examples();
        let held_out = examples[..2].to_vec();
        let run = Run::new(
            self.model.clone(),
            settings,
            examples,
            held_out,
            folder.map(Path::to_owned),
        );
        run.expect("it can run")
    }
}

fn run_to_end(run: &mut Run) -> End {
    run.run(&mut |_| Control::Continue).expect("it runs")
}

/// 1 - cosine similarity.
fn cosine_distance(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    assert_eq!(a.len(), b.len());
    1.0 - dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Repeats the fixture's run, with changed settings, and compares losses, gradient norms and the
/// trained adapter with PyTorch's.
fn check_against_pytorch(
    name: &'static str,
    loss_tolerance: f64,
    cosine_tolerance: f64,
    change: impl Fn(&mut Settings),
) -> (Fixture, Vec<LoraPart>) {
    let fixture = Fixture::read(name);
    let mut settings = fixture.settings();
    change(&mut settings);
    let mut run = fixture.run(settings, None);
    run.start_from(&fixture.adapter("start"))
        .expect("it starts from the adapter");
    let mut steps = Vec::new();
    run.run(&mut |report| {
        if let Report::Step(step) = report {
            steps.push(step);
        }
        Control::Continue
    })
    .expect("it runs");
    let expected = fixture.json["steps"].as_array().expect("a list");
    assert_eq!(steps.len(), expected.len());
    for (step, expected) in steps.iter().zip(expected) {
        let assert_close = |key: &str, actual: f64, tolerance: f64| {
            let expected = expected[key].as_f64().expect("a number");
            assert!(
                (actual - expected).abs() <= tolerance * expected.abs(),
                "{name} {key}: {actual} against {expected}"
            );
        };
        assert_close("loss", step.loss, loss_tolerance);
        assert_close("learning_rate", step.learning_rate, 1e-6);
        assert_close("gradient_norm", step.gradient_norm, 30.0 * loss_tolerance);
    }
    let parts = run.parameters().parts();
    for expected in fixture.adapter("end") {
        let (layer, linear) = (expected.layer, expected.linear);
        let actual = parts
            .iter()
            .find(|part| part.layer == layer && part.linear == linear)
            .expect("the same linears");
        for (actual, expected) in [(&actual.a, &expected.a), (&actual.b, &expected.b)] {
            let distance = cosine_distance(actual, expected);
            assert!(distance <= cosine_tolerance, "{name} {layer}.{linear}: {distance}");
        }
    }
    (fixture, parts)
}

/// Repeats the fixture's run, and exports its adapter.
fn check_family(name: &'static str) {
    let (fixture, parts) = check_against_pytorch(name, LOSS_TOLERANCE, COSINE_TOLERANCE, |_| {});
    let (alpha, ids) = (fixture.settings().alpha, &fixture.examples()[0].ids);
    exports::check_trained(name, &fixture.base, &fixture.model, &parts, alpha, ids);
}

#[test]
fn a_llama_follows_pytorch_and_peft() {
    check_family("llama");
}

#[test]
fn a_gemma_follows_pytorch_and_peft() {
    check_family("gemma3");
}

/// With fused linear layers, and the divisors of LongRoPE for a short context.
#[test]
fn a_phi3_follows_pytorch_and_peft() {
    check_family("phi3-2");
}

/// With softcaps.
#[test]
fn a_gemma2_follows_pytorch_and_peft() {
    check_family("gemma2");
}

#[test]
fn gradient_checkpointing_of_every_layer_gives_the_same() {
    check_against_pytorch("llama", LOSS_TOLERANCE, COSINE_TOLERANCE, |settings| {
        settings.layers_on_tape = 1;
    });
}

#[test]
fn bf16_follows_to_its_precision() {
    // 1 % of the loss; a cosine similarity of 0.999.
    check_against_pytorch("llama", 1e-2, 1e-3, |settings| settings.bf16 = true);
}

/// The result of a run, for a comparison of its bits.
#[derive(PartialEq)]
struct RunResult {
    loss_bits: Vec<u64>,
    parts: Vec<LoraPart>,
    /// Steps and bits of the loss of the best evaluation.
    best: Option<(usize, u64)>,
}

impl RunResult {
    /// Takes the remaining steps of a run.
    fn from_run(run: &mut Run) -> Self {
        let end = run_to_end(run);
        Self {
            loss_bits: end.losses.iter().map(|loss| loss.to_bits()).collect(),
            parts: run.parameters().parts(),
            best: run.best().map(|(step, loss)| (step, loss.to_bits())),
        }
    }
}

/// Settings with shuffling and dropout.
fn random_settings(fixture: &Fixture) -> Settings {
    Settings {
        shuffle: true,
        dropout: 0.1,
        max_steps: Some(10),
        ..fixture.settings()
    }
}

#[test]
fn a_run_is_reproducible_on_any_number_of_threads() {
    let fixture = Fixture::read("llama");
    let result_on = |threads: usize| {
        let _threads = threads::set_until_drop(Threads::Fixed(threads));
        RunResult::from_run(&mut fixture.run(random_settings(&fixture), None))
    };
    let result = result_on(1);
    assert!(result == result_on(3));
    let other_seed = Settings {
        seed: 2,
        ..random_settings(&fixture)
    };
    assert!(result != RunResult::from_run(&mut fixture.run(other_seed, None)));
}

#[test]
fn an_interrupted_run_resumes_to_the_same_bits() {
    let fixture = Fixture::read("llama");
    let folder = tempfile::tempdir().expect("a folder");
    let uninterrupted = RunResult::from_run(&mut fixture.run(random_settings(&fixture), None));
    // Interrupted in the middle of step 8; the last checkpoint is of step 6.
    let mut steps = 0;
    let interrupted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut run = fixture.run(random_settings(&fixture), Some(folder.path()));
        run.run(&mut |report| {
            steps += usize::from(matches!(report, Report::Step(_)));
            assert!(steps < 7 || !matches!(report, Report::Batch));
            Control::Continue
        })
    }));
    assert!(interrupted.is_err());
    let mut resumed = fixture.run(random_settings(&fixture), Some(folder.path()));
    resumed
        .resume(&latest_checkpoint(folder.path()).expect("a checkpoint"))
        .expect("it resumes");
    assert_eq!(resumed.losses().len(), 6);
    assert!(RunResult::from_run(&mut resumed) == uninterrupted);
}

#[test]
fn a_run_suspended_at_any_report_resumes_to_the_same_bits() {
    let fixture = Fixture::read("llama");
    let uninterrupted = RunResult::from_run(&mut fixture.run(random_settings(&fixture), None));
    let mut suspended_runs = 0;
    // Suspends at each report until the run has no more.
    for suspend_at in 1.. {
        let folder = tempfile::tempdir().expect("a folder");
        let mut run = fixture.run(random_settings(&fixture), Some(folder.path()));
        let (mut reports, mut steps_after, mut evaluations_after) = (0, 0, 0);
        let end = run.run(&mut |report| {
            reports += 1;
            if reports < suspend_at {
                return Control::Continue;
            }
            steps_after += usize::from(matches!(report, Report::Step(_)));
            evaluations_after += usize::from(matches!(report, Report::Evaluated { .. }) && reports > suspend_at);
            Control::Suspend
        });
        let end = end.expect("it ends");
        assert!(steps_after <= 1, "only the current step is finished");
        assert_eq!(evaluations_after, 0, "no evaluation is made");
        if reports < suspend_at {
            assert!(suspended_runs > 20, "every report was tried");
            return;
        }
        // After the report of its last step the run is complete, even if suspension is requested.
        suspended_runs += usize::from(end.reason == EndReason::Suspended);
        let mut resumed = fixture.run(random_settings(&fixture), Some(folder.path()));
        match latest_checkpoint(folder.path()) {
            Some(checkpoint) => {
                resumed.resume(&checkpoint).expect("it resumes");
                assert_eq!(resumed.losses().len(), end.losses.len(), "it resumes from that step");
            }
            None => assert!(end.losses.is_empty()),
        }
        let result = RunResult::from_run(&mut resumed);
        assert!(result == uninterrupted, "suspended at report {suspend_at}");
    }
}

#[test]
fn a_stopped_run_saves_the_best_and_resumes_to_the_same_bits() {
    let fixture = Fixture::read("llama");
    let folder = tempfile::tempdir().expect("a folder");
    let uninterrupted = RunResult::from_run(&mut fixture.run(random_settings(&fixture), None));
    let mut improved = Vec::new();
    let mut run = fixture.run(random_settings(&fixture), Some(folder.path()));
    let end = run.run(&mut |report| {
        match report {
            Report::Improved { step, loss, .. } => improved.push((step, loss)),
            Report::Step(step) if step.step == 4 => return Control::Stop,
            _ => {}
        }
        Control::Continue
    });
    let end = end.expect("it ends");
    assert_eq!((end.reason, end.losses.len()), (EndReason::Stopped, 4));
    let [(4, loss)] = improved[..] else {
        panic!("{improved:?}")
    };
    assert!(loss.is_some() && loss < end.eval_before);
    let mut resumed = fixture.run(random_settings(&fixture), Some(folder.path()));
    resumed
        .resume(&latest_checkpoint(folder.path()).expect("a checkpoint"))
        .expect("it resumes");
    assert!(RunResult::from_run(&mut resumed) == uninterrupted);
}

#[test]
fn a_run_that_stopped_early_takes_no_step_after_a_resume() {
    let fixture = Fixture::read("llama");
    let folder = tempfile::tempdir().expect("a folder");
    // The learning rate is practically 0, so the loss does not improve.
    let settings = Settings {
        learning_rate: f64::MIN_POSITIVE,
        eval_every: 1,
        patience: 2,
        ..fixture.settings()
    };
    let assert_early_stop = |end: End| assert_eq!((end.reason, end.losses.len()), (EndReason::EarlyStop, 3));
    assert_early_stop(run_to_end(&mut fixture.run(settings.clone(), Some(folder.path()))));
    let mut resumed = fixture.run(settings, Some(folder.path()));
    resumed
        .resume(&latest_checkpoint(folder.path()).expect("a checkpoint"))
        .expect("it resumes");
    assert_early_stop(run_to_end(&mut resumed));
}

#[test]
fn a_checkpoint_of_another_run_or_a_corrupt_one_is_refused() {
    let fixture = Fixture::read("llama");
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings {
        max_steps: Some(1),
        ..random_settings(&fixture)
    };
    run_to_end(&mut fixture.run(settings.clone(), Some(folder.path())));
    let path = latest_checkpoint(folder.path()).expect("a checkpoint");
    let assert_refused = |settings: Settings| {
        let error = fixture.run(settings, None).resume(&path).expect_err("it is refused");
        assert!(matches!(error, TrainError::Checkpoint { .. }), "{error}");
    };
    assert_refused(Settings {
        seed: 7,
        ..settings.clone()
    });
    let mut bytes = std::fs::read(&path).expect("it is there");
    bytes.truncate(bytes.len() - 9);
    std::fs::write(&path, &bytes).expect("it is written");
    assert_refused(settings.clone());
    std::fs::write(&path, [0xff; 64]).expect("it is written");
    assert_refused(settings);
}

#[test]
fn untrainable_input_is_refused() {
    let fixture = Fixture::read("llama");
    let check = |settings: Settings, examples: Vec<Example>, message: &str| {
        let run = Run::new(fixture.model.clone(), settings, examples, Vec::new(), None);
        let error = run.err().expect("it is refused").to_string();
        assert!(error.contains(message), "{error}");
    };
    let check_settings = |change: fn(&mut Settings), message: &str| {
        let mut settings = fixture.settings();
        change(&mut settings);
        check(settings, fixture.examples(), message);
    };
    check_settings(|settings| settings.rank = 4000, "larger than the weight");
    check_settings(|settings| settings.rank = 0, "at least 1");
    check_settings(|settings| settings.learning_rate = f64::NAN, "above 0");
    check_settings(
        |settings| settings.targets = vec!["lm_head".to_owned()],
        "no module 'lm_head'",
    );
    check(fixture.settings(), Vec::new(), "a token to train on");
    let untrained = Example {
        ids: vec![1, 2, 3],
        trained: vec![false; 3],
    };
    check(fixture.settings(), vec![untrained], "a token to train on");
    let unknown = Example {
        ids: vec![1, 1_000_000],
        trained: vec![true; 2],
    };
    check(fixture.settings(), vec![unknown], "1000000");
}

#[test]
fn a_non_finite_adapter_is_not_saved() {
    let fixture = Fixture::read("llama");
    let settings = Settings {
        learning_rate: 1e38,
        warmup: 0.0,
        max_steps: Some(1),
        schedule: Schedule::Constant,
        weight_decay: 0.99,
        ..fixture.settings()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = Run::new(
        fixture.model.clone(),
        settings,
        fixture.examples(),
        Vec::new(),
        Some(folder.path().to_owned()),
    )
    .expect("it can run");
    let mut parts = fixture.adapter("end");
    parts
        .iter_mut()
        .for_each(|part| part.b.iter_mut().for_each(|value| *value *= 1e3));
    run.start_from(&parts).expect("it starts from the adapter");
    let mut is_saved = false;
    let error = run.run(&mut |report| {
        is_saved |= matches!(report, Report::Improved { .. });
        Control::Continue
    });
    let error = error.expect_err("it diverges");
    assert!(
        matches!(error, TrainError::Diverged { .. }) && error.to_string().contains("NaN"),
        "{error}"
    );
    assert!(!is_saved && latest_checkpoint(folder.path()).is_none());
}

#[test]
fn an_exploding_loss_ends_the_run() {
    let fixture = Fixture::read("llama");
    let settings = Settings {
        learning_rate: 1e30,
        max_gradient_norm: 0.0,
        schedule: Schedule::Constant,
        max_steps: Some(20),
        ..fixture.settings()
    };
    let error = fixture
        .run(settings, None)
        .run(&mut |_| Control::Continue)
        .expect_err("it diverges");
    assert!(matches!(error, TrainError::Diverged { .. }), "{error}");
}

/// A weight's tensor scale affects the gradient of its input, but not the gradients of its adapter.
#[test]
fn a_run_on_nvfp4_applies_tensor_scales() {
    let mut fixture = Fixture::read("llama");
    let [scaled, folded] = nvfp4_pair::files().map(|gguf| {
        let model = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
        fixture.model = Arc::new(model.expect("it loads"));
        let mut run = fixture.run(fixture.settings(), None);
        run.start_from(&fixture.adapter("start"))
            .expect("it starts from the adapter");
        let mut losses = Vec::new();
        run.run(&mut |report| {
            if let Report::Step(step) = report {
                losses.push(step.loss);
            }
            Control::Continue
        })
        .expect("it runs");
        losses
    });
    assert!(
        scaled.len() > 3 && scaled[0] > *scaled.last().expect("steps"),
        "{scaled:?}"
    );
    for (scaled, folded) in scaled.iter().zip(&folded) {
        assert!(
            (scaled - folded).abs() <= LOSS_TOLERANCE * folded.abs(),
            "{scaled} and {folded}"
        );
    }
}
