//! Merged files equal the base plus its adapter.

use crate::nvfp4_pair;
use hearth_formats::adapter::{
    AdapterFile, AdapterManifest, BaseId, BaseShape, DataId, LinearName, LoraTensors, MERGED_KEY, TargetName,
};
use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, TensorHeader, TensorType, Value};
use hearth_kernels::Quant;
use hearth_train::{MergeError, QuantRecipe, merge};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(file)
}

fn model(name: &str) -> Gguf {
    Gguf::open(fixture(&format!("models/{name}.gguf"))).unwrap()
}

fn adapter(name: &str) -> AdapterFile {
    let base = BaseShape::from_gguf(&model(name)).unwrap();
    AdapterFile::open(&fixture(&format!("adapters/{name}")), &base).unwrap()
}

/// The merged model, written to a temporary file and read into memory.
fn merged(base: &Gguf, adapter: &AdapterFile, recipe: QuantRecipe) -> Result<Gguf, MergeError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("merged.gguf");
    merge(base, adapter, recipe, "taught", &path, &mut |_| {
        ControlFlow::Continue(())
    })?;
    Ok(Gguf::from_bytes(fs::read(&path).unwrap()).unwrap())
}

/// A tensor in f32.
fn floats(gguf: &Gguf, name: &str) -> Vec<f32> {
    let tensor = gguf.tensor(name).unwrap();
    let mut values = vec![0.0; tensor.info.elements() as usize];
    let quant = Quant::from_name(tensor.info.kind.name()).unwrap();
    quant.dequantize_row(tensor.bytes(), &mut values).unwrap();
    values
}

/// The name and shape of a vector or matrix.
struct Shape {
    name: String,
    cols: u64,
    rows: u64,
}

fn shape(name: impl Into<String>, cols: u64, rows: u64) -> Shape {
    let name = name.into();
    Shape { name, cols, rows }
}

/// A file with F32 tensors of these shapes. `value` gives each value from the tensor's name and the
/// value's index.
fn gguf_with(metadata: &Metadata, shapes: &[Shape], value: impl Fn(&str, usize) -> f32) -> Gguf {
    let headers: Vec<_> = shapes
        .iter()
        .map(|shape| TensorHeader {
            name: shape.name.clone(),
            shape: if shape.rows == 1 {
                vec![shape.cols]
            } else {
                vec![shape.cols, shape.rows]
            },
            kind: TensorType::F32,
        })
        .collect();
    let mut writer = GgufWriter::begin(Vec::new(), metadata, &headers).unwrap();
    for shape in shapes {
        let values = (0..(shape.cols * shape.rows) as usize).map(|index| value(&shape.name, index));
        writer
            .tensor(&values.flat_map(f32::to_le_bytes).collect::<Vec<_>>())
            .unwrap();
    }
    Gguf::from_bytes(writer.finish().unwrap()).unwrap()
}

/// The metadata of a model that is 256 wide.
fn model_metadata(architecture: &str, layers: u32) -> Metadata {
    let mut metadata: Metadata = [("general.architecture", architecture)].into_iter().collect();
    for (key, value) in [
        ("embedding_length", 256),
        ("feed_forward_length", 256),
        ("block_count", layers),
        ("attention.head_count", 4),
    ] {
        metadata.insert(format!("{architecture}.{key}"), value);
    }
    metadata
}

/// A llama that has only these tensors.
fn partial_llama(layers: u32, shapes: &[Shape], value: impl Fn(&str, usize) -> f32) -> Gguf {
    let mut metadata = model_metadata("llama", layers);
    metadata.insert("general.name", "partial");
    gguf_with(&metadata, shapes, value)
}

const V0: TargetName = TargetName {
    layer: 0,
    linear: LinearName::AttnV,
};

/// The shape of [`V0`]'s weight.
fn v0_shape() -> Shape {
    shape(V0.weight(), 256, 256)
}

/// An adapter of rank 1 that adds `delta` to every weight of [`V0`].
fn constant_adapter(delta: f32) -> AdapterFile {
    let lora = LoraTensors {
        a: vec![0.5; 256],
        b: vec![delta; 256],
        rank: 1,
        inputs: 256,
        outputs: 256,
        alpha: 2.0,
    };
    AdapterFile {
        path: PathBuf::new(),
        architecture: "llama".to_owned(),
        base_name: None,
        rslora: false,
        tensors: [(V0, lora)].into_iter().collect(),
        manifest: None,
        unmatched: Vec::new(),
    }
}

/// With HEARTH_EXPORTS=FOLDER the merged files are also written to that folder.
/// `tests/fixtures/adapters/check.py` compares their logits with transformers'.
#[test]
fn merging_adds_the_scaled_lora_product_and_changes_nothing_else() {
    for name in ["llama", "qwen2"] {
        let (base, adapter) = (model(name), adapter(name));
        let merged = merged(&base, &adapter, QuantRecipe::Same).unwrap();
        for info in base.tensors() {
            let target = TargetName::from_weight(&info.name);
            let Some((target, lora)) = target.and_then(|target| Some((target, adapter.tensors.get(&target)?))) else {
                assert_eq!(
                    base.tensor(&info.name).unwrap().bytes(),
                    merged.tensor(&info.name).unwrap().bytes()
                );
                continue;
            };
            let scale = f64::from(adapter.scale(target).unwrap());
            let (before, after) = (floats(&base, &info.name), floats(&merged, &info.name));
            for (index, (before, after)) in before.iter().zip(&after).enumerate() {
                let (row, col) = (index / lora.inputs, index % lora.inputs);
                let product: f64 = (0..lora.rank)
                    .map(|k| f64::from(lora.b[row * lora.rank + k]) * f64::from(lora.a[k * lora.inputs + col]))
                    .sum();
                let expected = f64::from(*before) + scale * product;
                assert!((f64::from(*after) - expected).abs() < 1e-6, "{target} {row} {col}");
            }
        }
        for key in ["general.name", "general.finetune"] {
            assert_eq!(merged.str(key).unwrap(), Some("taught"));
        }
        assert_eq!(
            merged.str("general.base_model.0.name").unwrap(),
            Some(format!("tiny random {name}").as_str())
        );
        let changed_keys = [
            "general.name",
            "general.finetune",
            "general.base_model.count",
            "general.base_model.0.name",
        ];
        for (key, value) in base.metadata().iter().filter(|(key, _)| !changed_keys.contains(key)) {
            assert_eq!(merged.metadata().get(key), Some(value));
        }
        if let Some(folder) = std::env::var_os("HEARTH_EXPORTS") {
            let path = Path::new(&folder).join(format!("{name}.merged.gguf"));
            merge(&base, &adapter, QuantRecipe::Same, "taught", &path, &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap();
        }
    }
}

/// A weight in f32, with its tensor scale applied.
fn scaled_floats(gguf: &Gguf, name: &str) -> Vec<f32> {
    let scale_name = name.replace(".weight", ".scale");
    let scale = gguf.tensor(&scale_name).map_or(1.0, |_| floats(gguf, &scale_name)[0]);
    floats(gguf, name).into_iter().map(|weight| weight * scale).collect()
}

/// The manifest of an adapter for a model.
fn manifest(base: &Gguf, seed: u64) -> AdapterManifest {
    AdapterManifest {
        hearth: "0.0.0".to_owned(),
        base: BaseId::from_gguf(base).unwrap(),
        template_sha256: None,
        system_prompt: None,
        data: DataId {
            name: "tales.jsonl".to_owned(),
            sha256: "00".to_owned(),
        },
        settings: serde_json::Value::Null,
        seed,
        metrics: serde_json::Value::Null,
        created: "2026-11-30T00:00:00Z".to_owned(),
    }
}

#[test]
fn a_merged_file_names_the_adapters_in_it() {
    let mut adapter = adapter("llama");
    let ids_in = |model: &Gguf| -> Vec<String> {
        let ids = model.strings(MERGED_KEY).unwrap();
        ids.map(|ids| ids.iter().map(str::to_owned).collect())
            .unwrap_or_default()
    };
    let mut base = merged(&model("llama"), &adapter, QuantRecipe::Same).unwrap();
    assert!(ids_in(&base).is_empty(), "an adapter of another program has no id");
    let mut expected = Vec::new();
    for seed in [1, 2] {
        let manifest = manifest(&base, seed);
        expected.push(manifest.id());
        adapter.manifest = Some(manifest);
        base = merged(&base, &adapter, QuantRecipe::Same).unwrap();
        assert_eq!(ids_in(&base), expected);
    }
    assert_ne!(expected[0], expected[1]);
}

#[test]
fn an_invalid_list_of_merged_adapters_is_replaced() {
    let base = model("llama");
    let mut metadata = base.metadata().clone();
    metadata.insert(MERGED_KEY, 1u32);
    let headers: Vec<_> = base
        .tensors()
        .map(|info| TensorHeader {
            name: info.name.clone(),
            shape: info.shape.clone(),
            kind: info.kind,
        })
        .collect();
    let mut writer = GgufWriter::begin(Vec::new(), &metadata, &headers).unwrap();
    for header in &headers {
        writer.tensor(base.tensor(&header.name).unwrap().bytes()).unwrap();
    }
    let base = Gguf::from_bytes(writer.finish().unwrap()).unwrap();
    let manifest = manifest(&base, 1);
    let id = manifest.id();
    let adapter = AdapterFile {
        manifest: Some(manifest),
        ..adapter("llama")
    };
    let merged = merged(&base, &adapter, QuantRecipe::Same).unwrap();
    let ids: Vec<_> = merged.strings(MERGED_KEY).unwrap().unwrap().iter().collect();
    assert_eq!(ids, [id]);
}

fn tensor_names(gguf: &Gguf) -> Vec<String> {
    gguf.tensors().map(|info| info.name.clone()).collect()
}

#[test]
fn a_weights_scale_is_multiplied_into_it() {
    let shapes = [v0_shape(), shape(format!("{V0}.scale"), 1, 1)];
    let merged_with = |scale: f32| {
        let value = |name: &str, _: usize| if name.ends_with("scale") { scale } else { 1.0 };
        let base = partial_llama(1, &shapes, value);
        merged(&base, &constant_adapter(3.0), QuantRecipe::Same)
    };
    for scale in [4.0, 0.0] {
        let merged = merged_with(scale).unwrap();
        assert_eq!(tensor_names(&merged), [V0.weight()]);
        assert!(
            floats(&merged, &V0.weight())
                .iter()
                .all(|weight| *weight == scale + 3.0)
        );
    }
    let error = merged_with(f32::NAN).unwrap_err().to_string();
    assert!(error.contains("'blk.0.attn_v.scale' is corrupt"), "{error}");
}

#[test]
fn a_merge_from_nvfp4_applies_tensor_scales() {
    let adapter = adapter("llama");
    for quant in [Quant::F32, Quant::F16, Quant::Q8_0, Quant::MXFP4] {
        let [scaled, folded] =
            nvfp4_pair::files().map(|base| merged(&base, &adapter, QuantRecipe::All(quant)).unwrap());
        assert_eq!(tensor_names(&scaled), tensor_names(&folded), "{quant}");
        for info in folded.tensors() {
            let [scaled, folded] = [&scaled, &folded].map(|gguf| gguf.tensor(&info.name).unwrap());
            assert_eq!(scaled.info.kind, folded.info.kind, "{quant}: {}", info.name);
            assert_eq!(scaled.bytes(), folded.bytes(), "{quant}: {}", info.name);
        }
    }
}

#[test]
fn a_merge_from_nvfp4_into_nvfp4_recomputes_tensor_scales() {
    let [scaled, folded] = nvfp4_pair::files();
    let mut adapter = adapter("llama");
    // V0 is copied, since it has no update.
    adapter.tensors.retain(|target, _| *target != V0);
    let exact = merged(&folded, &adapter, QuantRecipe::Same).unwrap();
    for recipe in [QuantRecipe::Same, QuantRecipe::All(Quant::NVFP4)] {
        let merged = merged(&scaled, &adapter, recipe).unwrap();
        for linear in LinearName::ALL {
            let target = TargetName {
                layer: 0,
                linear: *linear,
            };
            let (weight, scale) = (target.weight(), format!("{target}.scale"));
            let is_copied = *linear == V0.linear;
            for name in [&weight, &scale] {
                let [after, before] = [&merged, &scaled].map(|gguf| gguf.tensor(name).unwrap().bytes());
                assert_eq!(after == before, is_copied, "{name}");
            }
            assert_eq!(floats(&merged, &format!("{target}.input_scale")), [17.0]);
            let expected = floats(&exact, &weight);
            let max = expected.iter().fold(0.0_f32, |max, weight| max.max(weight.abs()));
            if !is_copied {
                assert_eq!(floats(&merged, &scale), [max / (6.0 * 448.0)], "{target}");
            }
            let error = relative_rms_error(&scaled_floats(&merged, &weight), &expected);
            assert!(error < 0.12, "{target}: {error}");
        }
    }
}

/// Root mean square of the differences, relative to the root mean square of `expected`.
fn relative_rms_error(actual: &[f32], expected: &[f32]) -> f32 {
    let sum_of_squares = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>();
    let differences = sum_of_squares(&mut actual.iter().zip(expected).map(|(a, b)| a - b));
    (differences / sum_of_squares(&mut expected.iter().copied())).sqrt()
}

/// The updates of fused linears are in their rows of the fused weight, also in another type.
#[test]
fn fused_weights_are_merged_by_rows() {
    let shapes = [
        shape("token_embd.weight", 256, 8),
        shape("output.weight", 256, 8),
        shape("blk.0.attn_qkv.weight", 256, 768),
        shape("blk.0.ffn_up.weight", 256, 512),
    ];
    let base = gguf_with(&model_metadata("phi3", 1), &shapes, |_, index| (index % 97) as f32);
    let mut adapter = constant_adapter(0.25);
    adapter.architecture = "phi3".to_owned();
    let gate = TargetName {
        layer: 0,
        linear: LinearName::FfnGate,
    };
    adapter
        .tensors
        .extend([(gate, constant_adapter(0.5).tensors[&V0].clone())]);
    let same = merged(&base, &adapter, QuantRecipe::Same).unwrap();
    for (name, rows, delta) in [
        ("blk.0.attn_qkv.weight", 512..768, 0.25),
        ("blk.0.ffn_up.weight", 0..256, 0.5),
    ] {
        let (before, after) = (floats(&base, name), floats(&same, name));
        for (index, (before, after)) in before.iter().zip(&after).enumerate() {
            let expected = if rows.contains(&(index / 256)) {
                before + delta
            } else {
                *before
            };
            assert_eq!(*after, expected, "{name} {index}");
        }
    }
    let q4_k_m = merged(&base, &adapter, QuantRecipe::from_name("Q4_K_M").unwrap()).unwrap();
    let kind = |name: &str| q4_k_m.info(name).unwrap().kind;
    assert_eq!(kind("blk.0.attn_qkv.weight"), TensorType::Q5_K);
    assert_eq!(kind("blk.0.ffn_up.weight"), TensorType::Q4_K);
}

/// llama.cpp applies no other scales, and refuses files with tensors that it does not read.
#[test]
fn only_linears_whose_scales_are_read_get_them() {
    for (architecture, has_ffn_scales) in [("llama", true), ("qwen2", false), ("qwen3", true), ("gemma3", false)] {
        let linears = LinearName::ALL.iter().map(|linear| format!("blk.0.{linear}.weight"));
        let mut shapes: Vec<_> = linears.map(|name| shape(name, 256, 256)).collect();
        shapes.push(shape("token_embd.weight", 256, 8));
        shapes.push(shape("output.weight", 256, 8));
        shapes.push(shape("blk.0.ffn_up.bias", 256, 1));
        let metadata = model_metadata(architecture, 1);
        let base = gguf_with(&metadata, &shapes, |_, index| (index % 97) as f32);
        let mut adapter = constant_adapter(0.25);
        adapter.architecture = architecture.to_owned();
        let merged = merged(&base, &adapter, QuantRecipe::All(Quant::NVFP4)).unwrap();
        let scales: Vec<_> = tensor_names(&merged)
            .into_iter()
            .filter(|name| name.ends_with("scale"))
            .collect();
        let mut expected = vec!["attn_q", "attn_k", "attn_v", "attn_output"];
        if has_ffn_scales {
            expected.extend(["ffn_gate", "ffn_down"]);
        }
        let expected: Vec<_> = expected.iter().map(|name| format!("blk.0.{name}.scale")).collect();
        assert_eq!(scales, expected, "{architecture}");
    }
}

#[test]
fn types_follow_the_recipe_and_fall_back_for_short_rows() {
    let in_all_layers = |linear: &'static str, cols, rows| {
        (0..8).map(move |layer| shape(format!("blk.{layer}.{linear}.weight"), cols, rows))
    };
    let shapes: Vec<_> = [
        shape("token_embd.weight", 256, 8),
        shape("output.weight", 256, 8),
        shape("output_norm.weight", 256, 1),
    ]
    .into_iter()
    .chain(in_all_layers("attn_v", 256, 256))
    .chain(in_all_layers("attn_output", 256, 2))
    .chain(in_all_layers("ffn_up", 96, 2))
    .chain(in_all_layers("ffn_down", 32, 2))
    .chain(in_all_layers("ffn_gate", 48, 2))
    .collect();
    let base = partial_llama(8, &shapes, |_, index| (index % 7) as f32 - 3.0);
    let kinds = |recipe: &str| -> Vec<(String, &'static str)> {
        let recipe = QuantRecipe::from_name(recipe).unwrap();
        let merged = merged(&base, &constant_adapter(0.25), recipe).unwrap();
        merged
            .tensors()
            .map(|info| (info.name.clone(), info.kind.name()))
            .collect()
    };
    // Of 8 layers the first, the last, and every third between from layer 3 on.
    let layers_with_more_bits = [0, 3, 6, 7];
    for (name, kind) in kinds("Q4_K_M") {
        let layer = || name.split('.').nth(1).unwrap().parse().unwrap();
        let expected = match name.split('.').rev().nth(1).unwrap() {
            "token_embd" | "attn_output" => "Q4_K",
            "output" => "Q6_K",
            "output_norm" => "F32",
            "attn_v" => {
                if layers_with_more_bits.contains(&layer()) {
                    "Q6_K"
                } else {
                    "Q4_K"
                }
            }
            "ffn_up" => "Q5_0",
            "ffn_down" => {
                if layers_with_more_bits.contains(&layer()) {
                    "Q8_0"
                } else {
                    "Q5_0"
                }
            }
            "ffn_gate" => "F16",
            other => panic!("{other}"),
        };
        assert_eq!(kind, expected, "{name}");
    }
    for (name, kind) in kinds("q8_0") {
        let expected = match name.as_str() {
            "output_norm.weight" => "F32",
            name if name.contains("ffn_gate") => "F16",
            _ => "Q8_0",
        };
        assert_eq!(kind, expected, "{name}");
    }
    for (name, kind) in kinds("IQ4_XS") {
        let expected = match name.split('.').rev().nth(1).unwrap() {
            "output" => "Q6_K",
            "output_norm" => "F32",
            "ffn_up" | "ffn_down" => "IQ4_NL",
            "ffn_gate" => "F16",
            _ => "IQ4_XS",
        };
        assert_eq!(kind, expected, "{name}");
    }
    let q4_k_m = QuantRecipe::from_name("Q4_K_M").unwrap();
    let q4_k_m = merged(&base, &constant_adapter(0.25), q4_k_m).unwrap();
    assert_eq!(q4_k_m.quantization().as_str(), "Q4_K_M");
    assert_eq!(q4_k_m.u32("general.file_type").unwrap(), Some(15));
    // The weights of V0 are -3 to 3 plus 0.25, in 6 bits.
    let (weights, tolerance) = (floats(&q4_k_m, &V0.weight()), 6.0 / 63.0);
    assert!(
        weights
            .iter()
            .enumerate()
            .all(|(index, weight)| (weight - ((index % 7) as f32 - 2.75)).abs() < tolerance)
    );
    assert_eq!(QuantRecipe::from_name("Q4_K_XL"), None);
}

#[test]
fn every_type_can_be_merged_into() {
    // 0.003 is the amplitude of a sine with a standard deviation of 0.002.
    for amplitude in [1.0, 0.003, 0.0] {
        let value = |name: &str, index: usize| {
            if name.ends_with("norm.weight") {
                1.0
            } else {
                (index as f32 * 0.7).sin() * amplitude
            }
        };
        let base = partial_llama(1, &[v0_shape(), shape("output_norm.weight", 256, 1)], value);
        let adapter = constant_adapter(0.25 * amplitude);
        let exact = merged(&base, &adapter, QuantRecipe::All(Quant::F32)).unwrap();
        let exact = floats(&exact, &V0.weight());
        for quant in Quant::ALL {
            let merged = merged(&base, &adapter, QuantRecipe::All(quant)).unwrap();
            assert_eq!(merged.tensor(&V0.weight()).unwrap().info.kind.name(), quant.name());
            let file_type = merged.metadata().get("general.file_type").cloned();
            assert_eq!(file_type, Some(Value::from(quant.file_type())), "{quant}");
            let weights = scaled_floats(&merged, &V0.weight());
            if amplitude == 0.0 {
                assert_eq!(weights, exact, "{quant}");
                let scale = (quant == Quant::NVFP4).then(|| floats(&merged, &format!("{V0}.scale")));
                assert_eq!(scale.unwrap_or(vec![1.0]), [1.0]);
                continue;
            }
            // A sine in two bits has a relative error of a third.
            let limit = if quant == Quant::NVFP4 { 0.1 } else { 0.35 };
            let error = relative_rms_error(&weights, &exact);
            assert!(error < limit, "{quant} at {amplitude}: {error}");
        }
    }
}

#[test]
fn a_failed_merge_leaves_the_existing_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("merged.gguf");
    fs::write(&path, "before").unwrap();
    let failure =
        |base: &Gguf, adapter: &AdapterFile, recipe: QuantRecipe, progress: &mut dyn FnMut(f32) -> ControlFlow<()>| {
            let error = merge(base, adapter, recipe, "taught", &path, progress)
                .unwrap_err()
                .to_string();
            assert_eq!(fs::read_to_string(&path).unwrap(), "before");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            error
        };
    let (base, mut calls) = (model("llama"), 0);
    let error = failure(&base, &adapter("llama"), QuantRecipe::Same, &mut |_| {
        calls += 1;
        if calls == 5 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(error.contains("cancelled"), "{error}");
    let uncancelled_failure = |base: &Gguf, adapter: &AdapterFile, recipe: QuantRecipe| {
        failure(base, adapter, recipe, &mut |_| ControlFlow::Continue(()))
    };
    let error = uncancelled_failure(&base, &adapter("qwen2"), QuantRecipe::Same);
    assert!(error.contains("architecture 'qwen2'"), "{error}");

    let large = partial_llama(1, &[v0_shape()], |_, _| 1e5);
    let error = uncancelled_failure(&large, &constant_adapter(1.0), QuantRecipe::All(Quant::F16));
    assert!(
        error.contains("'blk.0.attn_v.weight' cannot be stored as F16"),
        "{error}"
    );
    let headers = [TensorHeader {
        name: V0.weight(),
        shape: vec![256, 256],
        kind: TensorType::IQ3_S,
    }];
    let mut writer = GgufWriter::begin(Vec::new(), large.metadata(), &headers).unwrap();
    writer.tensor(&[0; 256 * 110]).unwrap();
    let unsupported = Gguf::from_bytes(writer.finish().unwrap()).unwrap();
    let error = uncancelled_failure(&unsupported, &constant_adapter(1.0), QuantRecipe::Same);
    assert!(
        error.contains("of the type IQ3_S, which Hearth cannot convert yet"),
        "{error}"
    );
}

#[test]
fn a_split_base_becomes_one_file() {
    let mut metadata = model_metadata("llama", 1);
    metadata.insert("general.name", "partial");
    for (key, value) in [("split.no", 0u16), ("split.count", 1)] {
        metadata.insert(key, Value::from(u32::from(value)));
    }
    let base = gguf_with(&metadata, &[v0_shape()], |_, _| 0.0);
    let merged = merged(&base, &constant_adapter(1.0), QuantRecipe::Same).unwrap();
    assert!(merged.metadata().iter().all(|(key, _)| !key.starts_with("split.")));
}

/// `Quant` of the kernels and `TensorType` of the formats have separate tables of names and sizes.
#[test]
fn the_tables_of_types_agree() {
    for quant in Quant::ALL {
        let kind = TensorType::from_id(quant.gguf_id()).unwrap();
        assert_eq!(kind.name(), quant.name());
        assert_eq!(kind.block_elements(), quant.block_elements() as u64, "{quant}");
        assert_eq!(kind.block_bytes(), quant.block_bytes() as u64, "{quant}");
        let metadata = [("general.file_type", quant.file_type())].into_iter().collect();
        let file = GgufWriter::begin(Vec::new(), &metadata, &[]).unwrap().finish().unwrap();
        let name = Gguf::from_bytes(file).unwrap().quantization().to_owned();
        // Q4_K without larger types for some tensors is named Q4_K_S.
        assert!(
            [format!("{quant}"), format!("{quant}_S")].contains(&name),
            "{quant}: {name}"
        );
    }
}
