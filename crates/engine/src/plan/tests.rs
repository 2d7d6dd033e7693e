//! Plans for GPUs that are not there.

use super::*;
use std::path::Path;

const GIB: u64 = 1 << 30;

pub(super) fn fixture(name: &str) -> (Bytes, Config) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    let gguf = Gguf::open(folder.join(name)).expect("the fixture opens");
    let config = Config::from_gguf(&gguf).expect("a model");
    (Bytes::of(&gguf, &config), config)
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

pub(super) fn asked(layers: GpuLayers) -> Asked {
    Asked {
        context: Some(64),
        gpu_layers: layers,
        ..Asked::default()
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
    let cpu_only = planned(&bytes, &config, &asked(GpuLayers::Count(0)), &devices)
        .expect("a plan")
        .plan;
    for layers in 0..=total + 1 {
        let plan = planned(&bytes, &config, &asked(GpuLayers::Count(layers)), &devices).expect("a plan");
        let (plan, placement) = (plan.plan, plan.placement);
        assert_eq!((plan.gpu_layers, plan.layers_total), (layers.min(total), total));
        assert_eq!(placement.gpu_layers() as u32, plan.gpu_layers);
        let mut named: Vec<&str> = plan
            .devices
            .iter()
            .flat_map(|device| &device.layers)
            .map(String::as_str)
            .collect();
        named.sort_unstable();
        let mut expected: Vec<String> = (0..config.n_layers).map(|layer| format!("blk.{layer}")).collect();
        expected.extend(["output".to_owned(), "token_embd".to_owned()]);
        assert_eq!(named, expected);
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

/// The most layers that fit do, and one more does not; a context that is too long is shortened to one that fits.
#[test]
fn auto_takes_what_fits_and_no_more() {
    let (bytes, config) = fixture("llama.gguf");
    let (mut seen, total) = (Vec::new(), config.layers() as u32);
    for free in (0..320).map(|step| step * (128 << 10)) {
        let devices = [device("cpu", "cpu", 64 * GIB), device("gpu0", "discrete", free)];
        let auto = planned(&bytes, &config, &asked(GpuLayers::Auto), &devices)
            .expect("a plan")
            .plan;
        assert!(auto.fits, "{auto:?}");
        assert_eq!(auto.gpu_layers, auto.layers_fit);
        if auto.gpu_layers < total {
            let more = asked(GpuLayers::Count(auto.gpu_layers + 1));
            assert!(!planned(&bytes, &config, &more, &devices).expect("a plan").plan.fits);
        }
        seen.push(auto.gpu_layers);
    }
    assert!(
        seen.is_sorted() && seen.first() == Some(&0) && seen.last() == Some(&total),
        "{seen:?}"
    );

    let devices = [device("cpu", "cpu", GIB / 2)];
    let mut long = asked(GpuLayers::Auto);
    long.context = Some(100_000_000);
    let plan = planned(&bytes, &config, &long, &devices).expect("a plan").plan;
    assert!(
        !plan.fits && matches!(plan.verdict, Verdict::FitsWithLessContext { context } if context == plan.context_fits)
    );
    long.context = Some(plan.context_fits);
    assert!(planned(&bytes, &config, &long, &devices).expect("a plan").plan.fits);
    long.context = Some(plan.context_fits + 256);
    assert!(!planned(&bytes, &config, &long, &devices).expect("a plan").plan.fits);
}

#[test]
fn only_a_gpu_of_its_own_memory_is_chosen_by_itself() {
    let (bytes, config) = fixture("llama.gguf");
    let layers = |devices: &[DeviceInfo], ids: Option<&str>| {
        let asked = Asked {
            device: ids.map(str::to_owned),
            ..asked(GpuLayers::Auto)
        };
        planned(&bytes, &config, &asked, devices).map(|planned| planned.plan.gpu_layers)
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
