//! Merged files equal the base plus its adapter.

use crate::nvfp4_pair;
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
        unmatched: Vec::new(),
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

/// A tensor in f32, times its own scale.
fn scaled_floats(gguf: &Gguf, name: &str) -> Vec<f32> {
    let scale = name.replace(".weight", ".scale");
    let scale = gguf.tensor(&scale).map_or(1.0, |_| floats(gguf, &scale)[0]);
    floats(gguf, name).into_iter().map(|weight| weight * scale).collect()
}

fn names(gguf: &Gguf) -> Vec<String> {
    gguf.tensors().map(|info| info.name.clone()).collect()
}

#[test]
fn a_weights_scale_is_multiplied_into_it() {
    let tensors = [(V0.weight(), 256, 256), (format!("{V0}.scale"), 1, 1)];
    let number = |scale: f32| move |name: &str, _: usize| if name.ends_with("scale") { scale } else { 1.0 };
    let merged_of = |scale| merged(&sketch(1, &tensors, number(scale)), &even(3.0), QuantRecipe::Same);
    for scale in [4.0, 0.0] {
        let merged = merged_of(scale).unwrap();
        assert_eq!(names(&merged), [V0.weight()]);
        assert!(
            floats(&merged, &V0.weight())
                .iter()
                .all(|weight| *weight == scale + 3.0)
        );
    }
    let error = merged_of(f32::NAN).unwrap_err().to_string();
    assert!(error.contains("'blk.0.attn_v.scale' is corrupt"), "{error}");
}

#[test]
fn a_merge_from_nvfp4_is_that_of_the_weights_with_their_scales() {
    let adapter = adapter("llama");
    for quant in [Quant::F32, Quant::F16, Quant::Q8_0, Quant::MXFP4] {
        let [scaled, folded] =
            nvfp4_pair::files().map(|base| merged(&base, &adapter, QuantRecipe::All(quant)).unwrap());
        assert_eq!(names(&scaled), names(&folded), "{quant}");
        for info in folded.tensors() {
            let [one, two] = [&scaled, &folded].map(|gguf| gguf.tensor(&info.name).unwrap());
            assert_eq!(
                (&one.info.kind, one.bytes()),
                (&two.info.kind, two.bytes()),
                "{quant}: {}",
                info.name
            );
        }
    }
}

#[test]
fn a_merge_of_nvfp4_into_nvfp4_has_scales_of_its_own() {
    let [scaled, folded] = nvfp4_pair::files();
    let mut adapter = adapter("llama");
    // Changes nothing outside of its targets.
    adapter.tensors.retain(|target, _| *target != V0);
    let exact = merged(&folded, &adapter, QuantRecipe::Same).unwrap();
    for mix in [QuantRecipe::Same, QuantRecipe::All(Quant::NVFP4)] {
        let merged = merged(&scaled, &adapter, mix).unwrap();
        for linear in LinearName::ALL {
            let target = TargetName {
                layer: 0,
                linear: *linear,
            };
            let (weight, scale) = (target.weight(), format!("{target}.scale"));
            let is_copied = *linear == V0.linear;
            for name in [&weight, &scale] {
                let [new, old] = [&merged, &scaled].map(|gguf| gguf.tensor(name).unwrap().bytes());
                assert_eq!(new == old, is_copied, "{name}");
            }
            assert_eq!(floats(&merged, &format!("{target}.input_scale")), [17.0]);
            let expected = floats(&exact, &weight);
            let largest = expected.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
            if !is_copied {
                assert_eq!(floats(&merged, &scale), [largest / (6.0 * 448.0)], "{target}");
            }
            let error = error(&scaled_floats(&merged, &weight), &expected);
            assert!(error < 0.12, "{target}: {error}");
        }
    }
}

/// Root mean square of the differences, relative to the root mean square of `expected`.
fn error(actual: &[f32], expected: &[f32]) -> f32 {
    let squares = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>();
    let differences = squares(&mut actual.iter().zip(expected).map(|(a, b)| a - b));
    (differences / squares(&mut expected.iter().copied())).sqrt()
}

/// llama.cpp applies no other scales, and refuses files with tensors that it does not read.
#[test]
fn only_linears_whose_scales_are_read_get_them() {
    for (architecture, has_ffn_scales) in [("llama", true), ("qwen2", false), ("qwen3", true), ("gemma3", false)] {
        let mut metadata: Metadata = [("general.architecture", architecture)].into_iter().collect();
        for (key, value) in [
            ("embedding_length", 256),
            ("feed_forward_length", 256),
            ("block_count", 1),
            ("attention.head_count", 4),
        ] {
            metadata.insert(format!("{architecture}.{key}"), value);
        }
        let linears = LinearName::ALL.iter().map(|linear| format!("blk.0.{linear}.weight"));
        let mut tensors: Vec<_> = linears.map(|name| (name, 256, 256)).collect();
        tensors.push(("token_embd.weight".to_owned(), 256, 8));
        tensors.push(("output.weight".to_owned(), 256, 8));
        tensors.push(("blk.0.ffn_up.bias".to_owned(), 256, 1));
        let base = written(&metadata, &tensors, |_, place| (place % 97) as f32);
        let mut adapter = even(0.25);
        adapter.architecture = architecture.to_owned();
        let merged = merged(&base, &adapter, QuantRecipe::All(Quant::NVFP4)).unwrap();
        let scales: Vec<_> = names(&merged)
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
    // 0.003 is the amplitude of weights with a standard deviation of 0.002.
    for amplitude in [1.0, 0.003, 0.0] {
        let number = |name: &str, place: usize| {
            if name.ends_with("norm.weight") {
                1.0
            } else {
                (place as f32 * 0.7).sin() * amplitude
            }
        };
        let base = sketch(
            1,
            &[(V0.weight(), 256, 256), ("output_norm.weight".to_owned(), 256, 1)],
            number,
        );
        let exact = floats(
            &merged(&base, &even(0.25 * amplitude), QuantRecipe::All(Quant::F32)).unwrap(),
            &V0.weight(),
        );
        for quant in Quant::ALL {
            let merged = merged(&base, &even(0.25 * amplitude), QuantRecipe::All(quant)).unwrap();
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
            // Two bits store a sine with a third of its amplitude as error.
            let (error, limit) = (error(&weights, &exact), if quant == Quant::NVFP4 { 0.1 } else { 0.35 });
            assert!(error < limit, "{quant} at {amplitude}: {error}");
        }
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

/// Types and their names are in two tables: one of the kernels, and one of all GGUF types.
#[test]
fn the_tables_of_types_agree() {
    for quant in Quant::ALL {
        let kind = TensorType::from_id(quant.gguf_id()).unwrap();
        let sizes = (quant.block_elements() as u64, quant.block_bytes() as u64);
        assert_eq!(
            (kind.name(), (kind.block_elements(), kind.block_bytes())),
            (quant.name(), sizes)
        );
        let metadata = [("general.file_type", quant.file_type())].into_iter().collect();
        let file = GgufWriter::begin(Vec::new(), &metadata, &[]).unwrap().finish().unwrap();
        let name = Gguf::from_bytes(file).unwrap().quantization().to_owned();
        // Q4_K_S is Q4_K without larger types for some tensors.
        assert!(
            [format!("{quant}"), format!("{quant}_S")].contains(&name),
            "{quant}: {name}"
        );
    }
}
