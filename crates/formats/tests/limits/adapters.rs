//! Adapters with false or excessive sizes.

use crate::memory::{self, peak};
use hearth_formats::adapter::{AdapterFile, BaseShape, Fit};
use hearth_formats::gguf::{GgufFile, GgufWriter, Metadata, TensorHeader, TensorType};
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(file)
}

fn model() -> GgufFile {
    GgufFile::open(fixture("models/llama.gguf")).unwrap()
}

/// Copies the adapter of the tiny llama to a folder.
fn copy(folder: &Path) {
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(fixture("adapters/llama").join(file), folder.join(file)).unwrap();
    }
}

/// Asserts that opening and checking the adapter are refused with this message, in little memory.
fn refused(folder: &Path, expected: &str) {
    let base = BaseShape::from_gguf(&model()).unwrap();
    let opened = peak(|| AdapterFile::open(folder, &base).map(drop));
    let checked = peak(|| AdapterFile::check_file(folder, &model()).map(drop));
    for (result, bytes) in [opened, checked] {
        let message = result.expect_err(expected).to_string();
        assert!(message.contains(expected), "{message}");
        assert!(bytes < 64 << 20, "{expected}: took {bytes} bytes");
    }
}

#[test]
fn a_matching_adapter_passes_the_check() {
    let _alone = memory::alone();
    let model = model();
    let fit = AdapterFile::check_file(&fixture("adapters/llama"), &model).unwrap();
    assert_eq!(fit, Fit::SizesOnly);
    assert_eq!(
        AdapterFile::check_file(&fixture("adapters/llama.gguf"), &model).unwrap(),
        Fit::SizesOnly
    );
}

#[test]
fn a_configuration_beyond_its_limits_is_refused() {
    let _alone = memory::alone();
    let folder = tempfile::tempdir().unwrap();
    copy(folder.path());
    let config = folder.path().join("adapter_config.json");
    let write = |text: &str| fs::write(&config, text).unwrap();
    write(&format!(
        "{{\"peft_type\": \"LORA\", \"x\": \"{}\"}}",
        "x".repeat(2 << 20)
    ));
    refused(folder.path(), "adapter_config.json: it is larger than 1048576 bytes");
    write(&format!("{{\"x\": {}", "[".repeat(500_000)));
    refused(
        folder.path(),
        "adapter_config.json is corrupt: recursion limit exceeded",
    );
    let patterns: serde_json::Map<_, _> = (0..5000).map(|n| (format!("m{n}"), json!(4))).collect();
    write(&json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "rank_pattern": patterns}).to_string());
    refused(folder.path(), "it has 5000 patterns");
    write(&json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "rank_pattern": {"(?:x{900}){900}": 4}}).to_string());
    refused(folder.path(), "is not supported in patterns");
    // A class has kilobytes before it is compiled.
    write(&json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "rank_pattern": {r"\w".repeat(2048): 4}}).to_string());
    refused(folder.path(), "is not supported in patterns");
    write(&json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "rank_pattern": {r"\w".repeat(2049): 4}}).to_string());
    refused(
        folder.path(),
        "more than 4,096 bytes, which is not supported in patterns",
    );
}

/// Comparisons that take long: the number of patterns times the number of targets is limited.
#[test]
fn patterns_for_too_many_targets_are_refused() {
    let _alone = memory::alone();
    let folder = tempfile::tempdir().unwrap();
    let patterns: serde_json::Map<_, _> = (0..2048).map(|n| (format!("m{n}"), json!(4))).collect();
    let config = json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "rank_pattern": patterns});
    fs::write(folder.path().join("adapter_config.json"), config.to_string()).unwrap();
    let write = |layers: usize| {
        let names = (0..layers).map(|layer| format!("model.layers.{layer}.self_attn.q_proj.lora_A.weight"));
        let table: serde_json::Map<_, _> = names
            .enumerate()
            .map(|(index, name)| {
                let info = json!({"dtype": "F32", "shape": [1, 1], "data_offsets": [4 * index, 4 * index + 4]});
                (name, info)
            })
            .collect();
        let table = serde_json::Value::Object(table).to_string();
        let mut file = File::create(folder.path().join("adapter_model.safetensors")).unwrap();
        file.write_all(&(table.len() as u64).to_le_bytes()).unwrap();
        file.write_all(table.as_bytes()).unwrap();
        file.set_len((8 + table.len() + 4 * layers) as u64).unwrap();
    };
    write(2048);
    refused(folder.path(), "its lora_B is missing");
    write(2049);
    refused(
        folder.path(),
        "2048 patterns in rank_pattern and alpha_pattern for 2049 target modules",
    );
}

#[test]
fn a_safetensors_header_beyond_its_limits_is_refused() {
    let _alone = memory::alone();
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8});
    fs::write(folder.path().join("adapter_config.json"), config.to_string()).unwrap();
    let tensors = folder.path().join("adapter_model.safetensors");
    let sparse = |table: &[u8], claimed: u64, len: u64| {
        let mut file = File::create(&tensors).unwrap();
        file.write_all(&claimed.to_le_bytes()).unwrap();
        file.write_all(table).unwrap();
        file.set_len(len).unwrap();
    };
    let table_of = |name: &str, shape: [u64; 2], end: u64| {
        let info = json!({"dtype": "F32", "shape": shape, "data_offsets": [0, end]});
        json!({ name: info }).to_string().into_bytes()
    };
    sparse(b"{", 64 << 20, 65 << 20);
    refused(folder.path(), "its header has 67108864 bytes");
    let deep = format!("{{\"x\": {}", "[".repeat(500_000)).into_bytes();
    sparse(&deep, deep.len() as u64, deep.len() as u64 + 8);
    refused(folder.path(), "adapter_model.safetensors is corrupt");
    #[cfg(unix)]
    {
        // 256 GiB of zeros in a sparse file.
        let len = 256u64 << 30;
        let name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
        let table = table_of(name, [len / 256, 64], len);
        sparse(&table, table.len() as u64, 8 + table.len() as u64 + len);
        refused(folder.path(), "its lora_B is missing");
        let b = name.replace("lora_A", "lora_B");
        let pair = json!({
            name: {"dtype": "F32", "shape": [len / 512, 64], "data_offsets": [0, len / 2]},
            b: {"dtype": "F32", "shape": [64, len / 512], "data_offsets": [len / 2, len]},
        });
        let table = pair.to_string().into_bytes();
        sparse(&table, table.len() as u64, 8 + table.len() as u64 + len);
        refused(folder.path(), "its lora_A has rank");
    }
}

/// A GGUF adapter with a mismatched shape is refused by its tensor table, before its values are
/// read.
#[cfg(unix)]
#[test]
fn a_sparse_adapter_of_512_gib_is_refused_by_its_table() {
    let _alone = memory::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adapter.gguf");
    let metadata: Metadata = [
        ("general.type", "adapter"),
        ("general.architecture", "llama"),
        ("adapter.type", "lora"),
    ]
    .into_iter()
    .collect();
    let size = 1u64 << 18;
    let table = ["lora_a", "lora_b"].map(|half| TensorHeader {
        name: format!("blk.0.attn_q.weight.{half}"),
        shape: vec![size, size],
        kind: TensorType::F32,
    });
    let mut file = File::create(&path).unwrap();
    drop(GgufWriter::begin(&mut file, &metadata, &table).unwrap());
    file.set_len((512 << 30) + (1 << 20)).unwrap();
    refused(
        &path,
        "its matrices for blk.0.attn_q are for 262144 x 262144, but this model's weight is 64 x 64",
    );
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_in_the_folder_are_refused_at_once() {
    let _alone = memory::alone();
    for file in ["adapter_config.json", "adapter_model.safetensors", "hearth.json"] {
        let folder = tempfile::tempdir().unwrap();
        copy(folder.path());
        let path = folder.path().join(file);
        let _ = fs::remove_file(&path);
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        refused(folder.path(), &format!("{file}: it is a pipe, a socket or a device"));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        refused(folder.path(), &format!("{file}: it is a pipe, a socket or a device"));
    }
}
