//! Malformed and unsupported adapters: each is refused with one sentence that names the cause.

use crate::adapter::fixtures::{path, shape, shape_with_layers};
use hearth_formats::adapter::{AdapterFile, AdapterProblem, LoraTensors};
use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, TensorHeader, TensorType};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::sync::LazyLock;

/// The adapter of the tiny llama: configuration, tensors and GGUF.
pub static LLAMA: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    [
        "llama/adapter_config.json",
        "llama/adapter_model.safetensors",
        "llama.gguf",
    ]
    .map(|file| fs::read(path(&format!("adapters/{file}"))).unwrap())
});

/// Reads an adapter of the tiny llama.
fn read(config: &[u8], tensors: &[u8]) -> Result<AdapterFile, AdapterProblem> {
    AdapterFile::from_peft(config, tensors, None, &shape("llama"))
}

/// The adapter with changed settings.
fn with_settings(settings: Value) -> Result<AdapterFile, AdapterProblem> {
    let mut config: Value = serde_json::from_slice(&LLAMA[0]).unwrap();
    for (key, value) in settings.as_object().unwrap() {
        config[key] = value.clone();
    }
    read(&serde_json::to_vec(&config).unwrap(), &LLAMA[1])
}

/// The adapter with its safetensors header changed as text.
fn with_table(from: &str, to: &str) -> Result<AdapterFile, AdapterProblem> {
    read(&LLAMA[0], &table_changed(from, to))
}

/// The tensors with their header changed as text.
fn table_changed(from: &str, to: &str) -> Vec<u8> {
    let file = &LLAMA[1];
    let end = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let table = std::str::from_utf8(&file[8..end]).unwrap();
    assert!(table.contains(from), "{from} is not in {table}");
    let table = table.replacen(from, to, 1);
    let mut changed = (table.len() as u64).to_le_bytes().to_vec();
    changed.extend(table.as_bytes());
    changed.extend(&file[end..]);
    changed
}

/// The adapter with bytes replaced at an offset from the end of its tensors.
fn with_bytes(offset_from_end: usize, bytes: &[u8]) -> Result<AdapterFile, AdapterProblem> {
    let mut file = LLAMA[1].clone();
    let offset = file.len() - offset_from_end;
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
    read(&LLAMA[0], &file)
}

/// A GGUF adapter with one target whose matrices have these shapes.
fn gguf(weight: &str, a: [u64; 2], b: [u64; 2], metadata: &[(&str, &str)]) -> Result<AdapterFile, AdapterProblem> {
    let mut all: Metadata = [
        ("general.type", "adapter"),
        ("general.architecture", "llama"),
        ("adapter.type", "lora"),
    ]
    .into_iter()
    .collect();
    for &(key, value) in metadata {
        all.insert(key, value);
    }
    let header = |half: &str, shape: [u64; 2]| TensorHeader {
        name: format!("{weight}.{half}"),
        shape: shape.to_vec(),
        kind: TensorType::F32,
    };
    let table = [header("lora_a", a), header("lora_b", b)];
    let mut writer = GgufWriter::begin(Vec::new(), &all, &table).unwrap();
    for shape in [a, b] {
        writer.tensor(&vec![0; (shape[0] * shape[1] * 4) as usize]).unwrap();
    }
    let file = Gguf::from_bytes(writer.finish().unwrap()).unwrap();
    AdapterFile::from_gguf(&file).map_err(|error| error.problem)
}

/// A malformed adapter: description, result of reading it, expected message.
type Case = (&'static str, Result<AdapterFile, AdapterProblem>, &'static str);

#[track_caller]
fn assert_refused(cases: Vec<Case>) {
    for (name, result, expected) in cases {
        match result {
            Ok(_) => panic!("{name} was accepted"),
            Err(error) => {
                let message = error.to_string();
                assert!(message.contains(expected), "{name}: {message}");
                assert!(message.ends_with('.'), "{name}: {message}");
            }
        }
    }
}

#[test]
fn invalid_configurations_are_refused() {
    assert_refused(vec![
        ("no json", read(b"{", &LLAMA[1]), "adapter_config.json is corrupt"),
        ("no object", read(b"[1]", &LLAMA[1]), "adapter_config.json is corrupt"),
        ("no type", read(b"{}", &LLAMA[1]), "peft_type"),
        ("IA3", with_settings(json!({"peft_type": "IA3"})), "PEFT type 'IA3'"),
        ("DoRA", with_settings(json!({"use_dora": true})), "DoRA"),
        ("bias", with_settings(json!({"bias": "lora_only"})), "biases"),
        (
            "a module",
            with_settings(json!({"modules_to_save": ["score", "lm_head"]})),
            "replaces whole modules (modules_to_save): 'lm_head'.",
        ),
        (
            "modules a number",
            with_settings(json!({"modules_to_save": 1})),
            "replaces whole modules (modules_to_save).",
        ),
        (
            "Conv1D",
            with_settings(json!({"fan_in_fan_out": true})),
            "fan_in_fan_out",
        ),
        (
            "rank",
            with_settings(json!({"r": 8})),
            "its lora_A has rank 4, its lora_B rank 4, and adapter_config.json says 8",
        ),
        (
            "rank a text",
            with_settings(json!({"r": "4"})),
            "adapter_config.json is corrupt",
        ),
        (
            "pattern",
            with_settings(json!({"rank_pattern": {"(": 4}})),
            "the pattern '(' in rank_pattern is no valid regular expression (unclosed group)",
        ),
    ]);
}

#[test]
fn an_unsupported_pattern_is_not_reported_as_corrupt() {
    for (setting, pattern, expected) in [
        (
            "alpha_pattern",
            "(?!v)q_proj",
            "has a look-ahead, which is not supported",
        ),
        (
            "rank_pattern",
            r"(q|k)_\1",
            "has a back-reference, which is not supported",
        ),
        ("rank_pattern", "(?:x{900}){900}", "which is not supported"),
        ("alpha_pattern", "[", "no valid regular expression"),
    ] {
        let error = with_settings(json!({ setting: { pattern: 4 } }))
            .unwrap_err()
            .to_string();
        let quoted_pattern = format!("'{pattern}' in {setting}");
        assert!(error.contains(&quoted_pattern) && error.contains(expected), "{error}");
        assert!(!error.contains("corrupt") && !error.contains("ownload"), "{error}");
    }
}

#[test]
fn invalid_safetensors_are_refused() {
    let v_b = "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight";
    let of_length = |len: u64| {
        let mut file = LLAMA[1].clone();
        file[..8].copy_from_slice(&len.to_le_bytes());
        read(&LLAMA[0], &file)
    };
    assert_refused(vec![
        (
            "tensors empty",
            read(&LLAMA[0], b""),
            "adapter_model.safetensors is incomplete",
        ),
        (
            "table beyond the file",
            of_length(u64::MAX),
            "adapter_model.safetensors is corrupt",
        ),
        ("table cut off", of_length(100), "adapter_model.safetensors is corrupt"),
        (
            "file cut off",
            read(&LLAMA[0], &LLAMA[1][..30_000]),
            "adapter_model.safetensors is incomplete",
        ),
        (
            "lying offsets",
            with_table("\"data_offsets\":[0,", "\"data_offsets\":[4,"),
            "adapter_model.safetensors is corrupt",
        ),
        (
            "lying shape",
            with_table("\"shape\":[4,", "\"shape\":[5,"),
            "adapter_model.safetensors is corrupt",
        ),
        (
            "shape that overflows",
            with_table("\"shape\":[4,", "\"shape\":[9223372036854775807,"),
            "adapter_model.safetensors is corrupt",
        ),
        ("integers", with_table("F32", "I32"), "as I32"),
        ("NaN", with_bytes(4, &f32::NAN.to_le_bytes()), "NaN or infinite"),
        (
            "infinite",
            with_bytes(400, &f32::INFINITY.to_le_bytes()),
            "NaN or infinite",
        ),
        (
            "B missing",
            with_table(v_b, &v_b.replace("layers.1", "layers.9")),
            "blk.1.attn_v is corrupt: its lora_B is missing",
        ),
        (
            "A twice",
            with_table(v_b, &v_b.replace("lora_B", "lora_A.default")),
            "it is present twice",
        ),
        (
            "embedding",
            with_table("model.model.layers.0.mlp.down_proj", "model.model.embed_tokens"),
            "targets 'model.embed_tokens'",
        ),
        (
            "a replaced module",
            read(
                &serde_json::to_vec(
                    &json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "modules_to_save": ["score"]}),
                )
                .unwrap(),
                &table_changed("model.model.layers.0.mlp.down_proj.lora_A.weight", "model.score.weight"),
            ),
            "replaces whole modules (modules_to_save): 'score'.",
        ),
        (
            "output",
            with_table("model.model.layers.0.mlp.down_proj", "model.lm_head"),
            "targets 'lm_head'",
        ),
        (
            "vision",
            with_table(
                "model.model.layers.0.mlp.down_proj",
                "model.model.vision_tower.layers.0.mlp.down_proj",
            ),
            "targets 'model.vision_tower.layers.0.mlp.down_proj'",
        ),
        ("layer 2", with_table("layers.1.", "layers.2."), "blk.1."),
    ]);
}

#[test]
fn invalid_ggufs_are_refused() {
    let good = |weight: &str| gguf(weight, [64, 4], [4, 64], &[]);
    assert_refused(vec![
        (
            "a model",
            Gguf::open(path("models/llama.gguf"))
                .map_err(Into::into)
                .and_then(|gguf| AdapterFile::from_gguf(&gguf).map_err(|error| error.problem)),
            "this is not an adapter",
        ),
        (
            "type",
            gguf("blk.0.attn_q.weight", [64, 4], [4, 64], &[("adapter.type", "control")]),
            "of the type 'control'",
        ),
        (
            "alpha a text",
            gguf("blk.0.attn_q.weight", [64, 4], [4, 64], &[("adapter.lora.alpha", "8")]),
            "'adapter.lora.alpha'",
        ),
        (
            "manifest",
            gguf("blk.0.attn_q.weight", [64, 4], [4, 64], &[("hearth.manifest", "{}")]),
            "manifest is corrupt",
        ),
        ("token_embd", good("token_embd.weight"), "targets 'token_embd.weight'"),
        ("output.weight", good("output.weight"), "targets 'output.weight'"),
        (
            "two names",
            good("blk.00.attn_q.weight"),
            "targets 'blk.00.attn_q.weight'",
        ),
        (
            "ranks differ",
            gguf("blk.0.attn_q.weight", [64, 4], [5, 64], &[]),
            "lora_a has rank 4, but its lora_b has rank 5",
        ),
        (
            "rank too large",
            gguf("blk.0.attn_k.weight", [64, 40], [40, 32], &[]),
            "its rank is 40, but the layer is 32 x 64",
        ),
        (
            "rank zero",
            gguf("blk.0.attn_k.weight", [64, 0], [0, 32], &[]),
            "its rank is 0",
        ),
    ]);
}

#[test]
fn missing_files_of_a_folder_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let message = || {
        AdapterFile::open(folder.path(), &shape("llama"))
            .unwrap_err()
            .to_string()
    };
    assert!(message().contains("no adapter_config.json"));
    fs::write(folder.path().join("adapter_config.json"), &LLAMA[0]).unwrap();
    assert!(message().contains("no adapter_model.safetensors"));
    fs::write(folder.path().join("adapter_model.bin"), "").unwrap();
    assert!(message().contains("a pickle file that can run code"));
    let missing_folder = AdapterFile::open(&folder.path().join("none"), &shape("llama"));
    let message = missing_folder.unwrap_err().to_string();
    assert_eq!(message.matches("none").count(), 1, "the file is named once: {message}");
}

#[test]
fn a_configured_target_without_tensors_is_refused() {
    let base = shape_with_layers("llama", 3);
    let read = |tensors: &[u8]| {
        let config = br#"{"peft_type":"LORA","r":4,"lora_alpha":8,"target_modules":["q_proj"]}"#;
        let refused = AdapterFile::from_peft(config, tensors, None, &base);
        refused.unwrap_err().to_string()
    };
    let shallow = read(&LLAMA[1]);
    assert!(
        shallow.contains("all layers of a model with 2 layers, but this model has 3"),
        "{shallow}"
    );
    // Renames the first layer's tensors to the third's, so that the first is missing.
    let mut moved = LLAMA[1].clone();
    let name = b"layers.0.self_attn.q_proj";
    let offsets: Vec<_> = (0..moved.len())
        .filter(|&offset| moved[offset..].starts_with(name))
        .collect();
    for offset in offsets {
        moved[offset + 7] = b'2';
    }
    let corrupt = read(&moved);
    assert!(corrupt.contains("blk.0.attn_q"), "{corrupt}");
}

/// A file with some bytes changed, and possibly one removed.
pub fn corrupt(file: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((0..file.len(), any::<u8>()), 0..6);
    (changes, 0..file.len(), any::<bool>(), 0..2000usize).prop_map(|(changes, offset, removes_byte, header_len)| {
        let mut bytes = file.to_vec();
        for (offset, byte) in changes {
            // Half of them in the header.
            let offset = if byte % 2 == 0 {
                offset % header_len.max(1)
            } else {
                offset
            };
            bytes[offset] = byte;
        }
        if removes_byte {
            bytes.remove(offset);
        }
        bytes
    })
}

/// Whether an accepted adapter is valid: lengths match the shape, and all values are finite.
fn is_sound(adapter: &AdapterFile) -> bool {
    let is_valid = |lora: &LoraTensors| {
        let is_finite = lora.a.iter().chain(&lora.b).all(|value| value.is_finite());
        is_finite && lora.a.len() == lora.rank * lora.inputs && lora.b.len() == lora.rank * lora.outputs
    };
    !adapter.tensors.is_empty() && adapter.tensors.values().all(is_valid)
}

/// The intact files are accepted; otherwise the test below would prove nothing.
#[test]
fn intact_files_are_accepted() {
    let peft = AdapterFile::from_peft(&LLAMA[0], &LLAMA[1], None, &shape("llama")).expect("a folder of PEFT's");
    let gguf = Gguf::from_bytes(LLAMA[2].clone()).expect("a GGUF");
    let gguf = AdapterFile::from_gguf(&gguf).expect("an adapter");
    for adapter in [peft, gguf] {
        assert!(is_sound(&adapter));
        adapter
            .check_base(&crate::adapter::fixtures::model("llama"))
            .expect("its model");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn corrupt_files_are_refused_or_valid(
        config in corrupt(&LLAMA[0]),
        tensors in corrupt(&LLAMA[1]),
        file in corrupt(&LLAMA[2]),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let base = shape("llama");
        for (config, tensors) in [(&LLAMA[0], &tensors), (&config, &LLAMA[1]), (&noise, &tensors), (&config, &noise)] {
            let actual = AdapterFile::from_peft(config, tensors, None, &base);
            prop_assert!(actual.as_ref().map_or(true, is_sound), "{:?}", actual);
        }
        let _ = AdapterFile::from_peft(&LLAMA[0], &LLAMA[1], Some(&noise), &base);
        if let Ok(gguf) = Gguf::from_bytes(file)
            && let Ok(adapter) = AdapterFile::from_gguf(&gguf)
        {
            prop_assert!(is_sound(&adapter), "{:?}", adapter);
            let _ = adapter.check_base(&crate::adapter::fixtures::model("llama"));
        }
    }
}
