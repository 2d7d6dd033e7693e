//! Files of PEFT and of llama.cpp's converter are read identically, and written files round-trip.

use crate::adapter::fixtures::{adapter, assert_same, known, model, path, shape, with_manifest};
use hearth_formats::adapter::{AdapterFile, LinearName, TargetName};
use hearth_formats::durable::write_file;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use tempfile::TempDir;

const ADAPTERS: [&str; 3] = ["llama", "qwen2", "patterns"];

#[test]
fn a_peft_folder_and_its_gguf_conversion_are_equal() {
    for name in ["llama", "qwen2"] {
        let folder = adapter(name);
        assert_eq!(folder.tensors.len(), 14);
        assert_same(&folder, &adapter(&format!("{name}.gguf")));
    }
}

#[test]
fn scales_match_peft() {
    for name in ADAPTERS {
        let adapter = adapter(name);
        let scales = known(name)["scales"].clone();
        for (module, scale) in scales.as_object().unwrap() {
            let target = TargetName::from_module(module).unwrap();
            let (actual, expected) = (adapter.scale(target).unwrap(), scale.as_f64().unwrap() as f32);
            assert!((actual - expected).abs() < 1e-6, "{name} {target}: {actual} {expected}");
        }
    }
}

/// The folder for exports: HEARTH_EXPORTS, if set, for check.py, which loads them in PEFT and
/// llama.cpp.
fn exports(temporary: &TempDir) -> PathBuf {
    std::env::var_os("HEARTH_EXPORTS").map_or(temporary.path().to_owned(), PathBuf::from)
}

#[test]
fn peft_folders_round_trip() {
    let temporary = tempfile::tempdir().unwrap();
    let out = exports(&temporary);
    for name in ADAPTERS {
        let base = known(name)["base"].as_str().unwrap().to_owned();
        let adapter = with_manifest(name, &model(&base));
        let folder = out.join(name);
        adapter.write_peft(&folder, &shape(&base)).unwrap();
        let read = AdapterFile::open(&folder, &shape(&base)).unwrap();
        assert_eq!(
            read,
            AdapterFile {
                path: folder.clone(),
                ..adapter
            }
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "no temporary file is left");
        let written = fs::read_to_string(folder.join("adapter_config.json")).unwrap();
        assert!(
            written.contains("\"q_proj\""),
            "equal layers use short names: {written}"
        );
    }
}

#[test]
fn an_adapter_with_fewer_targets_replaces_another_completely() {
    let out = tempfile::tempdir().unwrap();
    let mut adapter = with_manifest("llama", &model("llama"));
    adapter.write_peft(out.path(), &shape("llama")).unwrap();
    adapter.manifest = None;
    adapter
        .tensors
        .retain(|target, _| target.layer == 1 && target.linear == LinearName::AttnK);
    adapter.write_peft(out.path(), &shape("llama")).unwrap();
    let read = AdapterFile::open(out.path(), &shape("llama")).unwrap();
    assert_same(&read, &adapter);
    assert_eq!(read.manifest, None, "the manifest of the old adapter is removed");
    let config = fs::read_to_string(out.path().join("adapter_config.json")).unwrap();
    assert!(config.contains("\"model.layers.1.self_attn.k_proj\""), "{config}");
}

#[test]
fn gguf_round_trip_preserves_the_manifest_and_scales_b_for_targets_with_other_alphas() {
    let temporary = tempfile::tempdir().unwrap();
    let out = exports(&temporary);
    for name in ADAPTERS {
        let base = known(name)["base"].as_str().unwrap().to_owned();
        let adapter = with_manifest(name, &model(&base));
        let file = out.join(format!("{name}.gguf"));
        adapter.write_gguf(&file, &shape(&base)).unwrap();
        let read = AdapterFile::open(&file, &shape(&base)).unwrap();
        assert_eq!(
            (&read.manifest, &read.base_name),
            (&adapter.manifest, &adapter.base_name)
        );
        for (&target, lora) in &adapter.tensors {
            let (scale, read_scale) = (adapter.scale(target).unwrap(), read.scale(target).unwrap());
            let read_lora = &read.tensors[&target];
            assert_eq!(lora.a, read_lora.a);
            for (b, read_b) in lora.b.iter().zip(&read_lora.b) {
                assert!(
                    (b * scale - read_b * read_scale).abs() <= 1e-6 * (b * scale).abs(),
                    "{name} {target}"
                );
            }
        }
        if name != "patterns" {
            assert_same(&adapter, &read);
        }
    }
}

/// Alternative tensor names and 16-bit types.
#[test]
fn other_names_and_types_are_read() {
    use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, TensorHeader, TensorType};
    // 1.5 and -2 are exact in each type; the rows of V are never reordered.
    let (a, b) = (vec![1.5f32; 64], vec![-2.0f32; 32]);
    type Encode = fn(f32) -> Vec<u8>;
    let types: [(TensorType, &str, Encode); 3] = [
        (TensorType::F32, "F32", |x| x.to_le_bytes().to_vec()),
        (TensorType::F16, "F16", |x| {
            half::f16::from_f32(x).to_le_bytes().to_vec()
        }),
        (TensorType::BF16, "BF16", |x| {
            half::bf16::from_f32(x).to_le_bytes().to_vec()
        }),
    ];
    for (kind, dtype, encode) in types {
        let bytes: Vec<u8> = a.iter().chain(&b).flat_map(|&x| encode(x)).collect();
        let a_bytes = bytes.len() * 2 / 3;
        let header = format!(
            r#"{{"base_model.model.model.layers.0.self_attn.v_proj.lora_A.default.weight":{{"dtype":"{dtype}","shape":[1,64],"data_offsets":[0,{a_bytes}]}},
                "base_model.model.model.layers.0.self_attn.v_proj.lora_B.default.weight":{{"dtype":"{dtype}","shape":[32,1],"data_offsets":[{a_bytes},{}]}}}}"#,
            bytes.len()
        );
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(&bytes);
        let config = br#"{"peft_type":"LORA","r":1,"lora_alpha":2}"#;
        let read = AdapterFile::from_peft(config, &file, None, &shape("llama")).unwrap();
        let target = TargetName {
            layer: 0,
            linear: LinearName::AttnV,
        };
        assert_eq!(
            (&read.tensors[&target].a, &read.tensors[&target].b),
            (&a, &b),
            "{dtype}"
        );

        // In a GGUF a missing alpha means a scale of 1.
        let metadata: Metadata = [
            ("general.type", "adapter"),
            ("general.architecture", "llama"),
            ("adapter.type", "lora"),
        ]
        .into_iter()
        .collect();
        let header = |half: &str, shape| TensorHeader {
            name: format!("blk.0.attn_v.weight.{half}"),
            shape,
            kind,
        };
        let table = [header("lora_a", vec![64, 1]), header("lora_b", vec![1, 32])];
        let mut writer = GgufWriter::begin(Vec::new(), &metadata, &table).unwrap();
        writer.tensor(&bytes[..a_bytes]).unwrap();
        writer.tensor(&bytes[a_bytes..]).unwrap();
        let read = AdapterFile::from_gguf(&Gguf::from_bytes(writer.finish().unwrap()).unwrap()).unwrap();
        assert_eq!(
            (&read.tensors[&target].a, &read.tensors[&target].b),
            (&a, &b),
            "{dtype}"
        );
        assert_eq!(read.scale(target), Some(1.0));
    }
}

#[test]
fn a_failed_write_leaves_the_existing_file_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("adapter.gguf");
    fs::write(&file, "before").unwrap();
    let result = write_file(&file, |out| {
        out.write_all(&[0; 100_000])?;
        Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull))
    });
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    // If the path is a folder, nothing is written.
    let message = adapter("llama")
        .write_gguf(folder.path(), &shape("llama"))
        .unwrap_err()
        .to_string();
    assert!(message.contains("cannot be written"), "{message}");
    let within = file.join("adapter");
    let message = adapter("llama")
        .write_peft(&within, &shape("llama"))
        .unwrap_err()
        .to_string();
    assert!(message.contains("cannot be written"), "{message}");
    assert!(path("adapters/llama").exists());
}

/// Earlier versions wrote the metrics as `scores`, and the GGUF key `hearth.passport`.
#[test]
fn manifests_of_earlier_versions_are_read() {
    let folder = path("v0/run/adapter");
    let old: serde_json::Value = serde_json::from_slice(&fs::read(folder.join("hearth.json")).unwrap()).unwrap();
    let adapter = AdapterFile::open(&folder, &shape("llama")).unwrap();
    let metrics = &adapter.manifest.as_ref().expect("a manifest").metrics;
    assert!(metrics.is_object() && *metrics == old["scores"], "{metrics}");

    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("adapter.gguf");
    adapter.write_gguf(&file, &shape("llama")).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let (new_key, old_key) = (b"hearth.manifest", b"hearth.passport");
    let offset = bytes
        .windows(new_key.len())
        .position(|window| window == new_key)
        .unwrap();
    bytes[offset..offset + old_key.len()].copy_from_slice(old_key);
    fs::write(&file, bytes).unwrap();
    let read = AdapterFile::open(&file, &shape("llama")).unwrap();
    assert_eq!(read.manifest, adapter.manifest);
}
