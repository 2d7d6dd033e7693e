//! Plans for hypothetical GPUs.

use super::*;
use hearth_formats::gguf::Gguf;
use hearth_formats::shape::{AttentionShape, MixerShape};
use hearth_protocol::sentences;
use std::path::Path;

const GIB: u64 = 1 << 30;

pub(super) fn fixture(name: &str) -> (ModelBytes, Config) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    let gguf = Gguf::open(folder.join(name)).expect("the fixture opens");
    let config = Config::from_gguf(&gguf).expect("a model");
    (ModelBytes::from_header(&gguf, &config).expect("its sizes"), config)
}

pub(super) fn device(id: &str, kind: &str, free: u64) -> DeviceInfo {
    DeviceInfo {
        id: id.to_owned(),
        identity: id.to_owned(),
        kind: kind.to_owned(),
        name: id.to_owned(),
        memory_total: Some(free),
        memory_free: Some(free),
        usable: true,
        ..DeviceInfo::default()
    }
}

pub(super) fn options(layers: GpuLayers) -> PlanOptions {
    PlanOptions {
        context: Some(64),
        gpu_layers: layers,
        ..PlanOptions::default()
    }
}

#[test]
fn the_predicted_speed_decides_whether_a_plan_that_fits_is_slow() {
    let (bytes, config) = fixture("llama.gguf");
    let devices = [device("cpu", "cpu", GIB)];
    let planned = compute_plan(&bytes, &config, &options(GpuLayers::Auto), &devices).expect("a plan");
    let judged = |mut plan: Plan, speed: f64| {
        judge_speed(&mut plan, speed);
        (plan.verdict, plan.notices)
    };
    let on_cpu = planned.plan.devices[0].weights;
    let slow = (Verdict::Slow, vec![Notice::SlowOnCpu { bytes: on_cpu }]);
    assert_eq!(judged(planned.plan.clone(), 0.99 * READING_SPEED), slow);
    assert_eq!(
        judged(planned.plan.clone(), READING_SPEED),
        (Verdict::Fits, vec![Notice::Fits])
    );
    let assumed_slow = Plan {
        verdict: Verdict::Slow,
        notices: vec![Notice::SlowOnCpu { bytes: on_cpu }],
        ..planned.plan.clone()
    };
    assert_eq!(judged(assumed_slow, 30.0), (Verdict::Fits, vec![Notice::Fits]));
    let on_gpu = Plan {
        gpu_layers: planned.plan.layers_total,
        ..planned.plan.clone()
    };
    assert_eq!(judged(on_gpu, 1.0), (Verdict::Slow, vec![Notice::SlowDecode]));
    let short = Plan {
        verdict: Verdict::WontFit,
        ..planned.plan
    };
    assert_eq!(judged(short, 30.0).0, Verdict::WontFit);
}

#[test]
fn an_estimate_and_a_plan_agree_on_a_machine_that_was_not_measured() {
    for bytes in [0, 1_000_000_000, 3_999_999_999, 4_000_000_001, 6 << 30] {
        let estimated = hearth_protocol::estimate(bytes, &[device("cpu", "cpu", 64 * GIB)]);
        assert_eq!(fitting(bytes).0, estimated.verdict, "{bytes}");
    }
}

#[test]
fn every_byte_is_on_one_device() {
    let (bytes, config) = fixture("llama.gguf");
    let devices = [
        device("cpu", "cpu", GIB),
        device("gpu0", "discrete", GIB),
        device("gpu1", "discrete", GIB),
    ];
    let total = config.layers() as u32;
    let cpu_only = compute_plan(&bytes, &config, &options(GpuLayers::Count(0)), &devices)
        .expect("a plan")
        .plan;
    for layers in 0..=total + 1 {
        let model_plan = compute_plan(&bytes, &config, &options(GpuLayers::Count(layers)), &devices).expect("a plan");
        let (plan, placement) = (model_plan.plan, model_plan.placement);
        assert_eq!((plan.gpu_layers, plan.layers_total), (layers.min(total), total));
        assert_eq!(placement.gpu_layers() as u32, plan.gpu_layers);
        let mut names: Vec<&str> = plan
            .devices
            .iter()
            .flat_map(|device| &device.layers)
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        let mut expected: Vec<String> = (0..config.n_layers()).map(|layer| format!("blk.{layer}")).collect();
        expected.extend(["output".to_owned(), "token_embd".to_owned()]);
        assert_eq!(names, expected);
        if layers == 0 {
            assert_eq!(
                plan.devices[1].weights + plan.devices[1].kv + plan.devices[1].compute,
                0
            );
        } else {
            assert!(
                plan.devices[0].weights < cpu_only.devices[0].weights || layers == 1,
                "{plan:?}"
            );
        }
    }
}

#[test]
fn a_tied_embedding_counts_again_on_a_gpu() {
    for (name, tied) in [("gemma3.gguf", true), ("llama.gguf", false)] {
        let (bytes, _) = fixture(name);
        let output = bytes.layers.last().expect("an output layer");
        assert_eq!(
            output.gpu > bytes.embedding,
            tied || output.cpu > bytes.embedding,
            "{name}"
        );
        assert_eq!(output.cpu < bytes.embedding, tied, "{name}: {bytes:?}");
    }
}

/// The automatic number of layers fits, and one more layer does not. For a context that is too
/// long, the longest context that fits is reported.
#[test]
fn auto_takes_what_fits_and_no_more() {
    let (bytes, config) = fixture("llama.gguf");
    let (mut layer_counts, total) = (Vec::new(), config.layers() as u32);
    for free in (0..320).map(|step| step * (128 << 10)) {
        let devices = [device("cpu", "cpu", 64 * GIB), device("gpu0", "discrete", free)];
        let auto = compute_plan(&bytes, &config, &options(GpuLayers::Auto), &devices)
            .expect("a plan")
            .plan;
        assert!(auto.fits, "{auto:?}");
        assert_eq!(auto.gpu_layers, auto.layers_fit);
        if auto.gpu_layers < total {
            let more = options(GpuLayers::Count(auto.gpu_layers + 1));
            assert!(
                !compute_plan(&bytes, &config, &more, &devices)
                    .expect("a plan")
                    .plan
                    .fits
            );
        }
        layer_counts.push(auto.gpu_layers);
    }
    assert!(
        layer_counts.is_sorted() && layer_counts.first() == Some(&0) && layer_counts.last() == Some(&total),
        "{layer_counts:?}"
    );

    let devices = [device("cpu", "cpu", GIB / 2)];
    let mut long = options(GpuLayers::Auto);
    long.context = Some(100_000_000);
    let plan = compute_plan(&bytes, &config, &long, &devices).expect("a plan").plan;
    assert!(
        !plan.fits && matches!(plan.verdict, Verdict::FitsWithLessContext { context } if context == plan.context_fits)
    );
    long.context = Some(plan.context_fits);
    assert!(
        compute_plan(&bytes, &config, &long, &devices)
            .expect("a plan")
            .plan
            .fits
    );
    long.context = Some(plan.context_fits + 256);
    assert!(
        !compute_plan(&bytes, &config, &long, &devices)
            .expect("a plan")
            .plan
            .fits
    );
}

#[test]
fn only_a_discrete_gpu_is_selected_automatically() {
    let (bytes, config) = fixture("llama.gguf");
    let layers = |devices: &[DeviceInfo], ids: Option<&str>| {
        let options = PlanOptions {
            device: ids.map(str::to_owned),
            ..options(GpuLayers::Auto)
        };
        compute_plan(&bytes, &config, &options, devices).map(|planned| planned.plan.gpu_layers)
    };
    let total = config.layers() as u32;
    let mut devices = vec![
        device("cpu", "cpu", GIB),
        device("gpu0", "software", GIB),
        device("gpu1", "integrated", GIB),
    ];
    assert_eq!(layers(&devices, None), Ok(0));
    assert_eq!(layers(&devices, Some("gpu0")), Ok(total));
    assert_eq!(layers(&devices, Some("gpu1")), Ok(total));
    assert_eq!(layers(&devices, Some("gpu1,gpu0")), Ok(total));
    assert_eq!(layers(&devices, Some("gpu2")).unwrap_err().code, ProblemCode::NoDevice);
    devices[2].kind = "discrete".to_owned();
    assert_eq!(layers(&devices, None), Ok(total));
    assert_eq!(layers(&devices, Some("cpu")), Ok(0));
    devices[2].usable = false;
    assert_eq!(layers(&devices, None), Ok(0));
    assert_eq!(layers(&devices, Some("gpu1")).unwrap_err().code, ProblemCode::NoDevice);
}

/// A GPU with ample memory but a small buffer limit.
fn with_buffer_limit(largest_buffer: u64) -> [DeviceInfo; 2] {
    let card = DeviceInfo {
        largest_buffer: Some(largest_buffer),
        ..device("gpu0", "discrete", 1024 * GIB)
    };
    [device("cpu", "cpu", 1024 * GIB), card]
}

/// A KV cache above the buffer limit is refused before loading, and the problem names the context
/// that fits. If the number of layers is automatic, they stay on the CPU instead, with a notice.
#[test]
fn a_cache_above_the_buffer_limit_is_refused_or_stays_on_the_cpu() {
    let (bytes, config) = fixture("llama.gguf");
    let total = config.layers() as u32;
    let plan_for = |context: u32, layers, devices: &[DeviceInfo]| {
        let options = PlanOptions {
            context: Some(context),
            ..options(layers)
        };
        compute_plan(&bytes, &config, &options, devices).expect("a plan")
    };
    const FITTING: u32 = 1 << 16;
    let key_bytes = |context| bytes.caches(context, KvFormat::F16)[0].bytes.gpu / 2;
    let (devices, at_most) = (
        with_buffer_limit(key_bytes(FITTING)),
        format!("at most {FITTING} tokens"),
    );
    for layers in [GpuLayers::All, GpuLayers::Count(2)] {
        let refused = plan_for(2 * FITTING, layers, &devices);
        assert!(
            !refused.plan.fits && refused.plan.context_fits == FITTING,
            "{refused:?}"
        );
        assert!(matches!(
            refused.plan.verdict,
            Verdict::FitsWithLessContext { context: FITTING }
        ));
        let reasons = sentences(&refused.plan.notices);
        assert!(reasons.contains("gpu0") && reasons.contains("cache"), "{reasons}");
        let problem = refused.check().expect_err("it is refused");
        assert_eq!(problem.code, ProblemCode::OutOfMemory);
        assert!(problem.to_string().contains(&at_most), "{problem:?}");
        let fitting = plan_for(FITTING, layers, &devices);
        assert!(fitting.plan.fits && fitting.check().is_ok(), "{fitting:?}");
    }
    let auto = plan_for(2 * FITTING, GpuLayers::Auto, &devices);
    // The output layer has no cache.
    assert!(
        auto.plan.fits && auto.check().is_ok() && auto.plan.gpu_layers == 1,
        "{auto:?}"
    );
    let limits = sentences(&auto.limits);
    assert!(limits.contains("gpu0") && limits.contains(&at_most), "{limits}");
    assert!(auto.plan.notices.ends_with(&auto.limits), "{auto:?}");
    let auto = plan_for(FITTING, GpuLayers::Auto, &devices);
    assert_eq!((auto.plan.gpu_layers, auto.limits), (total, Vec::new()));

    // Kernels index with 32 bits, whatever the driver reports.
    let mut context = FITTING;
    while key_bytes(context) <= u64::from(u32::MAX) {
        context *= 2;
    }
    for limit in [Some(u64::MAX), None] {
        let mut devices = with_buffer_limit(0);
        devices[1].largest_buffer = limit;
        assert!(plan_for(context, GpuLayers::All, &devices).check().is_err());
        assert!(plan_for(context / 2, GpuLayers::All, &devices).check().is_ok());
    }
    // Every GPU is checked.
    let mut two_gpus = with_buffer_limit(u64::MAX).to_vec();
    two_gpus.push(DeviceInfo {
        id: "gpu1".to_owned(),
        name: "gpu1".to_owned(),
        ..with_buffer_limit(key_bytes(FITTING))[1].clone()
    });
    let refused = plan_for(2 * FITTING, GpuLayers::All, &two_gpus);
    assert!(sentences(&refused.plan.notices).contains("gpu1"), "{refused:?}");
}

/// A fixture with a large KV cache.
fn fixture_with_many_kv_heads() -> (ModelBytes, Config) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
    let gguf = Gguf::open(path).expect("the fixture opens");
    let mut config = Config::from_gguf(&gguf).expect("a model");
    config.context_trained = 1 << 20;
    for layer in &mut config.layer_shapes {
        let attention = layer.attention().expect("attention");
        layer.mixer = Some(MixerShape::Attention(AttentionShape {
            kv_heads: 64,
            ..attention
        }));
    }
    (ModelBytes::from_header(&gguf, &config).expect("its sizes"), config)
}

/// An automatic context is never refused. It is shortened to the longest context within the buffer
/// limit, with a notice.
#[test]
fn an_automatic_context_is_the_longest_within_the_buffer_limit() {
    let (bytes, config) = fixture_with_many_kv_heads();
    let total = config.layers() as u32;
    let default = LoadRequest::DEFAULT_CONTEXT;
    let plan_for = |fitting: u32, layers| {
        let devices = with_buffer_limit(bytes.caches(fitting, KvFormat::F16)[0].bytes.gpu / 2);
        let options = PlanOptions {
            context: None,
            ..options(layers)
        };
        compute_plan(&bytes, &config, &options, &devices).expect("a plan")
    };
    const FITTING: u32 = 3 * 1024;
    for layers in [GpuLayers::All, GpuLayers::Count(total), GpuLayers::Auto] {
        let shortened = plan_for(FITTING, layers);
        assert!(shortened.plan.fits && shortened.check().is_ok(), "{shortened:?}");
        assert_eq!((shortened.plan.context, shortened.plan.gpu_layers), (FITTING, total));
        let limits = sentences(&shortened.limits);
        for part in ["gpu0", "cache", "3072 tokens instead of 8192"] {
            assert!(limits.contains(part), "{part}: {limits}");
        }
        assert!(shortened.plan.notices.ends_with(&shortened.limits), "{shortened:?}");
        let full = plan_for(default, layers);
        assert_eq!((full.plan.context, full.limits), (default, Vec::new()));
    }
    // The output layer alone has no KV cache, so the context is not shortened.
    let output = plan_for(FITTING, GpuLayers::Count(1));
    assert_eq!((output.plan.context, output.limits), (default, Vec::new()));
    // Below the minimum context, layers stay on the CPU instead, unless they were requested.
    let auto = plan_for(1536, GpuLayers::Auto);
    assert_eq!((auto.plan.context, auto.plan.gpu_layers), (default, 1), "{auto:?}");
    assert!(!auto.limits.is_empty());
    let all = plan_for(1536, GpuLayers::All).plan;
    assert!(all.fits && (1..=1536).contains(&all.context), "{all:?}");
}

#[test]
fn an_automatic_context_is_not_shortened_for_a_full_gpu() {
    let (bytes, config) = fixture_with_many_kv_heads();
    let mut devices = with_buffer_limit(bytes.caches(4096, KvFormat::F16)[0].bytes.gpu / 2);
    devices[1].memory_total = Some(0);
    devices[1].memory_free = Some(0);
    let options = PlanOptions {
        context: None,
        ..options(GpuLayers::Auto)
    };
    let plan = compute_plan(&bytes, &config, &options, &devices).expect("a plan").plan;
    assert_eq!((plan.context, plan.gpu_layers), (LoadRequest::DEFAULT_CONTEXT, 0));
}

#[test]
fn activations_and_logits_above_the_buffer_limit_are_refused() {
    let (bytes, config) = fixture("llama.gguf");
    // Of at least 33 rows: a draft of 32 tokens, and the token after it.
    let logits = 4 * 33 * config.vocab as u64;
    for (limit, content) in [(logits - 1, "logits"), (1 << 14, "activations")] {
        // The activations of a long prompt are larger than the logits.
        let (context, layers) = match content {
            "logits" => (64, GpuLayers::Count(1)),
            _ => (512, GpuLayers::All),
        };
        let options = PlanOptions {
            context: Some(context),
            ..options(layers)
        };
        let refused = compute_plan(&bytes, &config, &options, &with_buffer_limit(limit)).expect("a plan");
        assert!(sentences(&refused.plan.notices).contains(content), "{refused:?}");
        assert!(refused.check().is_err());
    }
}

/// Fine-tuning with a mebibyte of saved activations per layer.
fn training(config: &Config, tokens: u64) -> Training {
    Training {
        tokens,
        operations: 1 << 20,
        saved_per_layer_cpu: 1 << 20,
        layers_at_once: 1,
        fixed_per_layer: 1 << 10,
        largest_activation: tokens << 10,
        output: config.vocab as u64 * 4,
    }
}

#[test]
fn a_batch_above_the_buffer_limit_is_refused_or_stays_on_the_cpu() {
    let (bytes, config) = fixture("llama.gguf");
    let plan_for = |tokens, layers| {
        let options = PlanOptions {
            training: Some(training(&config, tokens)),
            ..options(layers)
        };
        compute_plan(&bytes, &config, &options, &with_buffer_limit(1 << 20)).expect("a plan")
    };
    assert!(plan_for(1024, GpuLayers::All).check().is_ok());
    let refused = plan_for(1025, GpuLayers::All);
    let problem = refused.check().expect_err("it is refused");
    assert!(
        problem.to_string().contains("a batch") && problem.to_string().contains("smaller batch"),
        "{problem:?}"
    );
    let auto = plan_for(1025, GpuLayers::Auto);
    assert_eq!(auto.plan.gpu_layers, 1, "the output layer has no such activation");
    assert!(sentences(&auto.limits).contains("at most 1024 tokens"), "{auto:?}");
}

/// The number of layers on the tape depends on the memory of the devices with layers only.
#[test]
fn the_tape_depends_on_the_devices_with_layers() {
    let (bytes, config) = fixture("llama.gguf");
    // Returns the layers on the GPU, and the layers on the tape.
    let plan_for = |main: u64, card: u64, layers| {
        let options = PlanOptions {
            training: Some(training(&config, 64)),
            ..options(layers)
        };
        let devices = [device("cpu", "cpu", main), device("gpu0", "discrete", card)];
        let model_plan = plan_training(&bytes, &config, &options, &devices).expect("a plan");
        let training = model_plan.training.expect("a plan for training");
        let needed = model_plan.plan.devices[1].weights + model_plan.plan.devices[1].compute;
        assert!(model_plan.plan.gpu_layers == 0 || needed <= card, "{model_plan:?}");
        (model_plan.plan.gpu_layers as usize, training.layers_at_once)
    };
    let (total, transformer_layers) = (config.layers(), config.n_layers());
    assert!(transformer_layers > 1, "a tape of one layer cannot be shorter");
    // Little main memory and much GPU memory, and vice versa.
    assert_eq!(plan_for(3 << 20, 64 * GIB, GpuLayers::All), (total, transformer_layers));
    assert_eq!(
        plan_for(64 * GIB, 64 * GIB, GpuLayers::Count(0)),
        (0, transformer_layers)
    );
    assert_eq!(plan_for(3 << 20, 64 * GIB, GpuLayers::Count(0)), (0, 1));
    let mut tape_lengths = Vec::new();
    for card in (0..200).map(|step| step * (128 << 10)) {
        let (layers, on_tape) = plan_for(64 * GIB, card, GpuLayers::Auto);
        // The number of layers on the GPU comes first.
        if layers == total {
            tape_lengths.push(on_tape);
        }
    }
    assert!(
        tape_lengths.is_sorted()
            && tape_lengths.first() == Some(&1)
            && tape_lengths.last() == Some(&transformer_layers),
        "{tape_lengths:?}"
    );
}
