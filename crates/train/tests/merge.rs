//! Merged files equal the base plus its adapter.

use hearth_formats::adapter::{AdapterFile, BaseShape, LinearName, LoraTensors, TargetName};
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

/// Merges into a temporary file, opens it and deletes the file.
fn merged(base: &Gguf, adapter: &AdapterFile, mix: QuantRecipe) -> Result<Gguf, MergeError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("merged.gguf");
    merge(base, adapter, mix, "taught", &file, &mut |_| ControlFlow::Continue(()))?;
    Ok(Gguf::from_bytes(fs::read(&file).unwrap()).unwrap())
}

/// A tensor in f32.
fn floats(gguf: &Gguf, name: &str) -> Vec<f32> {
    let tensor = gguf.tensor(name).unwrap();
    let mut values = vec![0.0; tensor.info.elements() as usize];
    let quant = Quant::from_name(tensor.info.kind.name()).unwrap();
    quant.dequantize_row(tensor.bytes(), &mut values).unwrap();
    values
}

/// Metadata, then tensors: name, row length, rows, and the value at each index.
fn written(metadata: &Metadata, tensors: &[(String, u64, u64)], number: impl Fn(&str, usize) -> f32) -> Gguf {
    let table: Vec<_> = tensors
        .iter()
        .map(|(name, cols, rows)| TensorHeader {
            name: name.clone(),
            shape: if *rows == 1 { vec![*cols] } else { vec![*cols, *rows] },
            kind: TensorType::F32,
        })
        .collect();
    let mut writer = GgufWriter::begin(Vec::new(), metadata, &table).unwrap();
    for (name, cols, rows) in tensors {
        let values = (0..(cols * rows) as usize).map(|place| number(name, place));
        writer
            .tensor(&values.flat_map(f32::to_le_bytes).collect::<Vec<_>>())
            .unwrap();
    }
    Gguf::from_bytes(writer.finish().unwrap()).unwrap()
}

/// A llama of `layers` layers with only some of its weights, 256 wide.
fn sketch(layers: u32, tensors: &[(String, u64, u64)], number: impl Fn(&str, usize) -> f32) -> Gguf {
    let mut metadata: Metadata = [("general.architecture", "llama"), ("general.name", "sketch")]
        .into_iter()
        .collect();
    for (key, value) in [
        ("embedding_length", 256),
        ("feed_forward_length", 256),
        ("block_count", layers),
        ("attention.head_count", 4),
    ] {
        metadata.insert(format!("llama.{key}"), value);
    }
    written(&metadata, tensors, number)
}

const V0: TargetName = TargetName {
    layer: 0,
    linear: LinearName::AttnV,
};

/// An adapter of rank 1 that adds `delta` to every weight of the first layer's value projection.
fn even(delta: f32) -> AdapterFile {
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
    }
}

/// With HEARTH_EXPORTS=FOLDER the files go there for tests/fixtures/adapters/check.py, which
/// compares their logits with transformers'.
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
            for (place, (before, after)) in before.iter().zip(&after).enumerate() {
                let (row, col) = (place / lora.inputs, place % lora.inputs);
                let product: f64 = (0..lora.rank)
                    .map(|k| f64::from(lora.b[row * lora.rank + k]) * f64::from(lora.a[k * lora.inputs + col]))
                    .sum();
                let expected = f64::from(*before) + scale * product;
                assert!((f64::from(*after) - expected).abs() < 1e-6, "{target} {row} {col}");
            }
        }
        assert_eq!(
            merged.str("general.name").unwrap(),
            Some(format!("tiny random {name} taught").as_str())
        );
        assert_eq!(merged.str("general.finetune").unwrap(), Some("taught"));
        let named = [
            "general.name",
            "general.finetune",
            "general.base_model.count",
            "general.base_model.0.name",
        ];
        for (key, value) in base.metadata().iter().filter(|(key, _)| !named.contains(key)) {
            assert_eq!(merged.metadata().get(key), Some(value));
        }
        if let Some(folder) = std::env::var_os("HEARTH_EXPORTS") {
            let file = Path::new(&folder).join(format!("{name}.merged.gguf"));
            merge(&base, &adapter, QuantRecipe::Same, "taught", &file, &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap();
        }
    }
}

/// The weight's own scale multiplies the product alone, so after merging `scale * weight` must have
/// grown by just the delta.
#[test]
fn the_delta_is_divided_by_the_weights_scale() {
    let tensors = [(V0.weight(), 256, 256), (format!("{V0}.scale"), 1, 1)];
    let number = |scale: f32| move |name: &str, _: usize| if name.ends_with("scale") { scale } else { 1.0 };
    let merged_weight = floats(
        &merged(&sketch(1, &tensors, number(4.0)), &even(3.0), QuantRecipe::Same).unwrap(),
        &V0.weight(),
    );
    assert!(merged_weight.iter().all(|weight| weight * 4.0 == 1.0 * 4.0 + 3.0));
    let error = merged(&sketch(1, &tensors, number(0.0)), &even(3.0), QuantRecipe::Same)
        .unwrap_err()
        .to_string();
    assert!(error.contains("'blk.0.attn_v.scale' is corrupt"), "{error}");
}

#[test]
fn types_follow_the_recipe_and_fall_back_for_short_rows() {
    let of_layers = |linear: &'static str, cols, rows| {
        (0..8).map(move |layer| (format!("blk.{layer}.{linear}.weight"), cols, rows))
    };
    let tensors: Vec<_> = [
        ("token_embd.weight", 256, 8),
        ("output.weight", 256, 8),
        ("output_norm.weight", 256, 1),
    ]
    .map(|(name, cols, rows)| (name.to_owned(), cols, rows))
    .into_iter()
    .chain(of_layers("attn_v", 256, 256))
    .chain(of_layers("attn_output", 256, 2))
    .chain(of_layers("ffn_up", 96, 2))
    .chain(of_layers("ffn_down", 32, 2))
    .chain(of_layers("ffn_gate", 48, 2))
    .collect();
    let base = sketch(8, &tensors, |_, place| (place % 7) as f32 - 3.0);
    let kinds = |mix: &str| -> Vec<(String, &'static str)> {
        let merged = merged(&base, &even(0.25), QuantRecipe::from_name(mix).unwrap()).unwrap();
        merged
            .tensors()
            .map(|info| (info.name.clone(), info.kind.name()))
            .collect()
    };
    // Of 8 layers the first and the last, and of those between every third from the fourth on.
    let more = [0, 3, 6, 7];
    for (name, kind) in kinds("Q4_K_M") {
        let layer = || name.split('.').nth(1).unwrap().parse().unwrap();
        let expected = match name.split('.').rev().nth(1).unwrap() {
            "token_embd" | "attn_output" => "Q4_K",
            "output" => "Q6_K",
            "output_norm" => "F32",
            "attn_v" => {
                if more.contains(&layer()) {
                    "Q6_K"
                } else {
                    "Q4_K"
                }
            }
            "ffn_up" => "Q5_0",
            "ffn_down" => {
                if more.contains(&layer()) {
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
    let q4 = merged(&base, &even(0.25), QuantRecipe::from_name("Q4_K_M").unwrap()).unwrap();
    assert_eq!(
        (q4.quantization().as_str(), q4.u32("general.file_type").unwrap()),
        ("Q4_K_M", Some(15))
    );
    // Values survive: steps of 1 from -3 to 3, a quarter higher, in 6 bits.
    let (weights, near) = (floats(&q4, &V0.weight()), 6.0 / 63.0);
    assert!(
        weights
            .iter()
            .enumerate()
            .all(|(place, weight)| (weight - ((place % 7) as f32 - 2.75)).abs() < near)
    );
    assert_eq!(QuantRecipe::from_name("Q4_K_XL"), None);
}

#[test]
fn every_type_can_be_merged_into() {
    let number = |name: &str, place: usize| match name.ends_with("norm.weight") {
        true => 1.0,
        false => (place as f32 * 0.7).sin(),
    };
    let base = sketch(
        1,
        &[(V0.weight(), 256, 256), ("output_norm.weight".to_owned(), 256, 1)],
        number,
    );
    for quant in Quant::ALL {
        let merged = merged(&base, &even(0.25), QuantRecipe::All(quant)).unwrap();
        assert_eq!(merged.tensor(&V0.weight()).unwrap().info.kind.name(), quant.name());
        let file_type = merged.metadata().get("general.file_type").cloned();
        assert_eq!(file_type, Some(Value::from(quant.file_type())), "{quant}");
        let weights = floats(&merged, &V0.weight());
        let error: f32 = (0..weights.len())
            .map(|place| (weights[place] - 0.25 - number("", place)).powi(2))
            .sum();
        // Two bits store a sine with a third of its amplitude as error.
        assert!((error / weights.len() as f32).sqrt() < 0.25, "{quant}: {error}");
    }
}

#[test]
fn a_failed_merge_leaves_the_existing_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("merged.gguf");
    fs::write(&file, "before").unwrap();
    let (base, mut steps) = (model("llama"), 0);
    let error_of = |base: &Gguf, adapter: &AdapterFile, mix, mut progress: Box<dyn FnMut(f32) -> ControlFlow<()>>| {
        let error = merge(base, adapter, mix, "taught", &file, &mut *progress)
            .unwrap_err()
            .to_string();
        assert_eq!(fs::read_to_string(&file).unwrap(), "before");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        error
    };
    let stop = Box::new(move |_| {
        steps += 1;
        if steps == 5 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(error_of(&base, &adapter("llama"), QuantRecipe::Same, stop).contains("cancelled"));
    let on = || Box::new(|_| ControlFlow::Continue(()));
    assert!(error_of(&base, &adapter("qwen2"), QuantRecipe::Same, on()).contains("architecture 'qwen2'"));

    let v = [(V0.weight(), 256, 256)];
    let large = sketch(1, &v, |_, _| 1e5);
    assert!(
        error_of(&large, &even(1.0), QuantRecipe::All(Quant::F16), on())
            .contains("'blk.0.attn_v.weight' cannot be stored as F16")
    );
    let kinds = [TensorHeader {
        name: V0.weight(),
        shape: vec![256, 256],
        kind: TensorType::IQ3_S,
    }];
    let mut writer = GgufWriter::begin(Vec::new(), large.metadata(), &kinds).unwrap();
    writer.tensor(&[0; 256 * 110]).unwrap();
    let codebook = Gguf::from_bytes(writer.finish().unwrap()).unwrap();
    assert!(
        error_of(&codebook, &even(1.0), QuantRecipe::Same, on())
            .contains("of the type IQ3_S, which Hearth cannot convert yet")
    );
}

#[test]
fn a_split_base_becomes_one_file() {
    let base = sketch(1, &[(V0.weight(), 256, 256)], |_, _| 0.0);
    let mut parted = base.metadata().clone();
    for (key, value) in [("split.no", 0u16), ("split.count", 1)] {
        parted.insert(key, Value::from(u32::from(value)));
    }
    let parted = written(&parted, &[(V0.weight(), 256, 256)], |_, _| 0.0);
    let merged = merged(&parted, &even(1.0), QuantRecipe::Same).unwrap();
    assert!(merged.metadata().iter().all(|(key, _)| !key.starts_with("split.")));
}
