//! Tests the engine with a GPU: placement and memory as planned, and fallback if the GPU refuses
//! memory or is lost.
//!
//! On Linux a software driver is used, unless the environment names another one. The engine queries
//! the driver in a separate process, which runs this program; so it has a `main` and no test
//! harness.

mod common;

use common::{Worker, failed, generate, load, model, raw, summary};
use hearth_engine::{Engine, check, hardware, training};
use hearth_llm::{Place, device, gpus, ops};
use hearth_protocol::{
    DataSource, DeviceStatus, DraftChoice, Event, GenerateRequest, GpuLayers, KvType, LoadRequest, PlanRequest,
    Precision, ProblemCode, Prompt, Request, TrainRequest, TrainSettings, TrainingEvent,
};
use hearth_test_parts::Parts;
use hearth_tests::driver;
use libtest_mimic::{Arguments, Trial};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("probe") {
        println!("{}", serde_json::to_string(&hardware::query()).expect("a probe"));
        return;
    }
    let mut arguments = Arguments::from_args();
    // The tests run one after the other, because they change the environment and share the GPU.
    arguments.test_threads = Some(1);
    let tests = if driver::is_disabled() {
        Vec::new()
    } else {
        driver::select();
        tests()
    };
    libtest_mimic::run(&arguments, tests).exit();
}

/// The tests by name.
fn tests() -> Vec<Trial> {
    macro_rules! trials {
        ($($name:ident)+) => {
            vec![$(Trial::test(stringify!($name), || {
                $name();
                Ok(())
            })),+]
        };
    }
    let mut trials = trials!(
        a_software_gpu_is_listed_and_never_selected
        layers_are_placed_as_requested
        a_gpu_passes_its_check
        a_gpu_reports_its_buffer_limit
        logits_of_many_tokens_are_computed_in_row_groups
        a_gpu_holds_what_was_planned
        drafts_change_an_answer_only_where_logits_are_close
        refused_memory_costs_layers_and_not_the_model
        a_gpu_lost_during_an_answer_is_replaced_by_the_cpu
        a_run_on_the_gpu_matches_one_on_the_cpu
    );
    // `cargo xtask spirv` and `cargo xtask gpu` run them on a GPU with matrix units.
    let ignored = trials!(gemms_on_matrix_units_are_within_tolerance);
    trials.extend(ignored.into_iter().map(|trial| trial.with_ignored_flag(true)));
    trials
}

/// A load request for the GPU.
fn on_gpu(context: u32, layers: GpuLayers) -> LoadRequest {
    LoadRequest {
        device: Some("gpu0".to_owned()),
        gpu_layers: layers,
        ..load(model(), context)
    }
}

fn load_engine(request: &LoadRequest) -> Engine {
    Engine::load(request, &mut |_, _| ControlFlow::Continue(())).expect("it loads")
}

/// The ids of an engine's answer.
fn answer(engine: &mut Engine) -> Vec<u32> {
    let request = generate(raw("Once upon a time"), 8);
    let summary = engine.generate(&request, std::time::Instant::now(), &|| false, &mut |_| {});
    summary.expect("an answer").ids
}

fn a_software_gpu_is_listed_and_never_selected() {
    let devices = hardware::devices();
    let gpu = devices
        .iter()
        .find(|device| device.id == "gpu0")
        .expect("a GPU; is there a driver?");
    assert!(
        gpu.usable && gpu.memory_total > Some(0) && gpu.status != DeviceStatus::Unknown,
        "{gpu:?}"
    );
    if gpu.kind == "software" {
        let engine = load_engine(&load(model(), 64));
        assert_eq!((engine.info().gpu_layers, engine.info().device.as_str()), (0, "cpu"));
    }
}

fn layers_are_placed_as_requested() {
    let expected = answer(&mut load_engine(&load(model(), 64)));
    let layers = load_engine(&load(model(), 64)).info().layers_total;
    for requested in 0..=layers + 1 {
        let mut engine = load_engine(&on_gpu(64, GpuLayers::Count(requested)));
        let info = engine.info();
        assert_eq!((info.gpu_layers, info.layers_total), (requested.min(layers), layers));
        assert_eq!(info.device, if requested == 0 { "cpu" } else { "gpu0" });
        let on_gpu = &info.placement[1].layers;
        assert_eq!(on_gpu.len() as u32, requested.min(layers), "{info:?}");
        assert_eq!(on_gpu.last().map(String::as_str), (requested > 0).then_some("output"));
        assert_eq!(answer(&mut engine).len(), expected.len());
    }
    assert_eq!(load_engine(&on_gpu(64, GpuLayers::All)).info().gpu_layers, layers);
    assert_eq!(load_engine(&on_gpu(64, GpuLayers::Auto)).info().gpu_layers, layers);
}

/// On a GPU, the results of a step with several rows equal the results of single rows only within a
/// tolerance. So a greedy answer with a draft may differ from the answer without one where the two
/// largest logits are closer than this tolerance.
fn drafts_change_an_answer_only_where_logits_are_close() {
    const TOLERANCE: f32 = 0.05;
    let drafts = [
        ("n-grams", DraftChoice::Ngram),
        ("own layers", DraftChoice::FirstLayers { layers: Some(1) }),
        ("a model", DraftChoice::Model { path: model() }),
    ];
    let answer = |draft, tokens, prompt: &[u32]| {
        let mut engine = load_engine(&LoadRequest {
            draft,
            draft_tokens: tokens,
            ..on_gpu(128, GpuLayers::All)
        });
        let request = GenerateRequest {
            ignore_end: true,
            ..generate(Prompt::Tokens(prompt.to_vec()), 24)
        };
        let summary = engine.generate(&request, std::time::Instant::now(), &|| false, &mut |_| {});
        summary.expect("an answer")
    };
    let parts = Parts::from_variable("gpu");
    for (number, prompt) in [&[5, 6, 7, 5, 6, 7, 5][..], &[9, 8, 100, 20]].into_iter().enumerate() {
        let mut expected = None;
        for (index, (kind, draft)) in drafts.iter().enumerate() {
            let case = format!("drafts_change_an_answer_only_where_logits_are_close {kind} after prompt {number}");
            if !parts.includes(2 * number + index, &case) {
                continue;
            }
            let expected = expected.get_or_insert_with(|| answer(DraftChoice::None, None, prompt).ids);
            let summary = answer(draft.clone(), Some(3), prompt);
            assert!(summary.draft.is_some_and(|draft| draft.drafted > 0) || *draft == DraftChoice::Ngram);
            let equal = summary.ids.iter().zip(&*expected).take_while(|(a, b)| a == b).count();
            if equal < expected.len() {
                let ids = [prompt, &expected[..equal]].concat();
                let mut engine = load_engine(&load(model(), 128));
                let session = engine.session_mut();
                session
                    .prefill(&ids, &mut |_, _| ControlFlow::Continue(()))
                    .expect("it runs");
                let mut logits = session.logits().to_vec();
                logits.sort_by(|a, b| b.total_cmp(a));
                assert!(logits[0] - logits[1] < TOLERANCE, "{draft} differs at token {equal}");
            }
        }
    }
}

/// The device check of `hearth devices --check`: the driver's results match the CPU's. On a
/// software driver this takes minutes, so a run of the tests may have only a part of the cases, but
/// always the first of each op.
fn a_gpu_passes_its_check() {
    let (parts, mut ops) = (Parts::from_variable("gpu"), BTreeSet::new());
    let (mut number, mut skipped) = (0, 0);
    let mut select = |name: &str| {
        let op = name.split_once(" (").map(|(op, _)| op.to_owned());
        let is_first = op.is_some_and(|op| ops.insert(op));
        number += usize::from(!is_first);
        // Every fourth case is similar, and adjacent cases differ in cost. The shift by one after
        // four cases gives each part cases of all costs.
        let case = format!("a_gpu_passes_its_check {name}");
        let included = parts.includes_or(is_first, number + number / 4, &case);
        skipped += usize::from(!included);
        included
    };
    let actual = check::check_selected(Place::Gpu(0), true, &mut select).expect("it runs");
    assert_eq!(actual.mismatch, None);
    assert!(
        actual.bytes_per_second > 0.0 && actual.macs_per_second > 0.0,
        "{actual:?}"
    );
    let min_kernels = if skipped == 0 { 100 } else { 30 };
    assert!(
        actual.kernels_compiled > min_kernels
            && actual.kernels_launched > actual.kernels_compiled
            && actual.seconds > 0.0,
        "{actual:?}"
    );
    assert!(ops.len() == 6 && number > 100, "{number} cases of {ops:?}");
}

/// Fails on a device without matrix units, because nothing is compared there.
fn gemms_on_matrix_units_are_within_tolerance() {
    let mut cases = 0;
    let mut report = |case: &str, error: f64, tolerance: f64| {
        eprintln!("error {error:.1e}, tolerance {tolerance:.1e}: {case}");
        cases += 1;
    };
    let mismatch = check::matrix_units(Place::Gpu(0), &mut report).expect("it runs");
    assert_eq!(mismatch, None);
    assert!(cases > 0, "this driver has no matrix units");
}

/// Plans use the driver's buffer limit.
fn a_gpu_reports_its_buffer_limit() {
    let devices = hardware::devices();
    let gpu = devices.iter().find(|device| device.id == "gpu0").expect("a GPU");
    // WebGPU's minimum.
    assert!(gpu.largest_buffer >= Some(128 << 20), "{gpu:?}");
    assert_eq!(devices[0].largest_buffer, None);
}

/// The logits of all rows exceed the buffer limit, but the output layer's weight is within it.
fn logits_of_many_tokens_are_computed_in_row_groups() {
    let request = |device: &str, layers| LoadRequest {
        path: hearth_tests::paths::model(),
        device: Some(device.to_owned()),
        ..on_gpu(352, GpuLayers::Count(layers))
    };
    let ids: Vec<u32> = (0..352).collect();
    let scores = |device, layers| {
        let mut engine = load_engine(&request(device, layers));
        assert_eq!(engine.info().gpu_layers, layers, "{:?}", engine.info().notices);
        engine.session_mut().score(&ids, 1).expect("it runs")
    };
    let expected = scores("cpu", 0);
    device::close(0);
    // SAFETY: the tests of this program run one after the other, and read the environment through
    // the standard library.
    unsafe { std::env::set_var("HEARTH_LARGEST_BUFFER", (64 << 20).to_string()) };
    let actual = scores("gpu0", 1);
    // SAFETY: as above.
    unsafe { std::env::remove_var("HEARTH_LARGEST_BUFFER") };
    device::close(0);
    let errors = expected.iter().zip(&actual).map(|(a, b)| (a - b).abs());
    let mean = errors.sum::<f64>() / expected.len() as f64;
    assert!(
        actual.len() == expected.len() && mean < 0.1,
        "a mean error of {mean} nats"
    );
}

/// Planned and allocated bytes of the default model's output layer and last layers, in short and
/// long contexts.
fn a_gpu_holds_what_was_planned() {
    let (parts, mut tested) = (Parts::from_variable("gpu"), 0);
    let cases = [
        (512, 1, KvType::F16),
        (512, 3, KvType::F16),
        (16_384, 4, KvType::F16),
        (16_384, 4, KvType::Q8_0),
    ];
    for (number, (context, layers, kv)) in cases.into_iter().enumerate() {
        let case = format!("a_gpu_holds_what_was_planned {layers} layers, {context} tokens, {kv}");
        if !parts.includes(number, &case) {
            continue;
        }
        tested += 1;
        device::close(0);
        let request = LoadRequest {
            path: hearth_tests::paths::model(),
            kv,
            ..on_gpu(context, GpuLayers::Count(layers))
        };
        let mut engine = load_engine(&request);
        // A chunk of the maximum size, with the maximum number of logits. The scheduler would give
        // a slow GPU smaller chunks.
        let ids: Vec<u32> = (0..512).collect();
        engine.session_mut().score(&ids, ids.len() - 96).expect("it runs");
        let (used, reserved) = ops::memory_use(&device::opened(0).expect("it is open"));
        let planned = &engine.info().placement[1];
        let sum = planned.weights + planned.kv + planned.compute;
        assert!(used <= reserved);
        let error = (reserved as f64 - sum as f64).abs() / sum as f64;
        assert!(
            error < 0.05,
            "{layers} layers, {context} tokens, {kv}: {reserved} reserved, {planned:?}"
        );
    }
    assert!(tested > 0, "each part of four has a case");
}

/// The GPU refuses allocations above a limit. With the smallest limit nothing fits, with the
/// largest everything.
fn refused_memory_costs_layers_and_not_the_model() {
    let mut layer_counts = Vec::new();
    for limit in [64_u64, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 64 << 20] {
        device::close(0);
        // SAFETY: the tests of this program run one after the other, and read the environment
        // through the standard library.
        unsafe { std::env::set_var("HEARTH_LARGEST_BUFFER", limit.to_string()) };
        let mut engine = load_engine(&on_gpu(2048, GpuLayers::All));
        let info = engine.info().clone();
        assert_eq!(answer(&mut engine).len(), 8, "with {limit} bytes");
        let has_fewer = info.gpu_layers < info.layers_total;
        assert_eq!(
            info.notices.iter().any(|notice| notice.to_string().contains("GPU")),
            has_fewer,
            "{info:?}"
        );
        layer_counts.push(info.gpu_layers);
    }
    // SAFETY: as above.
    unsafe { std::env::remove_var("HEARTH_LARGEST_BUFFER") };
    device::close(0);
    assert!(
        layer_counts.is_sorted() && layer_counts.first() == Some(&0) && layer_counts.last() > Some(&0),
        "{layer_counts:?}"
    );
}

fn a_gpu_lost_during_an_answer_is_replaced_by_the_cpu() {
    device::close(0);
    let mut worker = Worker::start();
    let loaded = worker.call(Request::Load(on_gpu(1024, GpuLayers::All)));
    assert!(matches!(loaded, Event::Loaded(info) if info.gpu_layers > 0));
    let answers = [(); 2].map(|()| worker.send(Request::Generate(generate(raw("Once upon a time"), 200))));
    while !matches!(worker.event(answers[1]), Event::Text { .. }) {}
    gpus::lose(0);
    for answer in answers {
        let events = worker.events(answer);
        let (code, message) = failed(&events);
        assert!(code == ProblemCode::GpuFailed && message.contains("GPU"), "{message}");
    }
    let answer = || generate(raw("Once upon a time"), 8);
    assert_eq!(failed(&worker.answer(answer())).0, ProblemCode::NoModel);
    let on_cpu = LoadRequest {
        device: Some("cpu".to_owned()),
        ..on_gpu(1024, GpuLayers::All)
    };
    let loaded = worker.call(Request::Load(on_cpu));
    assert!(matches!(loaded, Event::Loaded(info) if info.gpu_layers == 0));
    assert_eq!(summary(&worker.answer(answer())).tokens, 8);
    let plan = PlanRequest {
        path: model(),
        ..PlanRequest::default()
    };
    assert!(matches!(worker.call(Request::Plan(plan)), Event::Planned(plan) if plan.fits));
    let Event::Measured(measured) = worker.call(Request::Measure) else {
        panic!("it failed")
    };
    assert!(
        measured.tokens_per_second > 0.0 && measured.prompt_tokens_per_second > 0.0,
        "{measured:?}"
    );
    worker.close();
    device::close(0);
}

fn a_run_on_the_gpu_matches_one_on_the_cpu() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data.jsonl");
    let line =
        |i: usize| format!("{{\"text\": \"Tale {i}: once upon a time there was a fox number {i} in the wood.\"}}\n");
    std::fs::write(&data, (0..12).map(line).collect::<String>()).expect("it is written");
    let losses = |device: &str, layers: GpuLayers| {
        let out = folder.path().join(format!("{device}-{layers}"));
        losses_of(&data, &out, device, layers)
    };
    let expected = losses("cpu", GpuLayers::Auto);
    let parts = Parts::from_variable("gpu");
    // The model has three layers, including the output layer.
    let cases = [
        GpuLayers::All,
        GpuLayers::Count(1),
        GpuLayers::Count(2),
        GpuLayers::Count(3),
    ];
    for (number, layers) in cases.into_iter().enumerate() {
        let case = format!("a_run_on_the_gpu_matches_one_on_the_cpu with {layers} layers");
        if !parts.includes(number, &case) {
            continue;
        }
        let actual = losses("gpu0", layers);
        assert_eq!(actual.len(), expected.len());
        let error = actual
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs() / b)
            .fold(0.0, f64::max);
        assert!(error < 1e-4, "{layers} layers: error {error}: {actual:?}, {expected:?}");
    }
}

/// Returns the losses of six steps.
fn losses_of(data: &Path, out: &Path, device: &str, layers: GpuLayers) -> Vec<f64> {
    let request = TrainRequest {
        model: model(),
        data: DataSource {
            path: data.to_owned(),
            mapping: None,
            skip_broken: false,
        },
        out: out.to_owned(),
        settings: TrainSettings {
            rank: 4,
            learning_rate: 1e-2,
            max_steps: Some(6),
            epochs: Some(4.0),
            eval_split: 0.0,
            dropout: 0.1,
            precision: Precision::F32,
            ..TrainSettings::default()
        },
        resume: false,
        threads: Some(2),
        device: Some(device.to_owned()),
        build: None,
        gpu_layers: layers,
        low_priority: false,
    };
    let mut losses = Vec::new();
    let outcome = training::train(&request, &training::RunControl::default(), &mut |event| {
        if let TrainingEvent::Step(step) = event {
            losses.push(step.loss);
        }
    });
    outcome.expect("it ends");
    losses
}
