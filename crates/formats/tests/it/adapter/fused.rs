//! Adapters of fused linears: one A and one B in a file, an A and its rows of B for each linear in
//! memory.

use crate::adapter::fixtures::shape as shape_of_fixture;
use hearth_formats::adapter::{AdapterFile, AdapterHeader, AdapterProblem, BaseShape, Fit, LinearName, TargetName};
use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, TensorHeader, TensorType};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const WIDTH: usize = 60;
const RANK: usize = 30;

/// Modules of PEFT with their outputs and inputs: queries of 60 rows, keys and values of 20.
const MODULES: [(&str, usize, usize); 4] = [
    ("self_attn.qkv_proj", 100, WIDTH),
    ("self_attn.o_proj", WIDTH, WIDTH),
    ("mlp.gate_up_proj", 152, WIDTH),
    ("mlp.down_proj", WIDTH, 76),
];

/// A GGUF file with zeros.
fn gguf(metadata: &Metadata, tensors: &[(String, Vec<u64>)]) -> Vec<u8> {
    let header = |(name, shape): &(String, Vec<u64>)| TensorHeader {
        name: name.clone(),
        shape: shape.clone(),
        kind: TensorType::F32,
    };
    let headers: Vec<_> = tensors.iter().map(header).collect();
    let mut writer = GgufWriter::begin(Vec::new(), metadata, &headers).unwrap();
    for (_, shape) in tensors {
        let elements = shape.iter().product::<u64>() as usize;
        writer.tensor(&vec![0; 4 * elements]).unwrap();
    }
    writer.finish().unwrap()
}

/// A model of two layers with multi-query attention, whose keys have fewer rows than [`RANK`].
fn phi3() -> Gguf {
    let mut metadata: Metadata = [("general.architecture", "phi3")].into_iter().collect();
    for (key, value) in [
        ("block_count", 2u32),
        ("embedding_length", WIDTH as u32),
        ("feed_forward_length", 76),
        ("attention.head_count", 3),
        ("attention.head_count_kv", 1),
    ] {
        metadata.insert(format!("phi3.{key}"), value);
    }
    let mut tensors = vec![("token_embd.weight".to_owned(), vec![60, 8])];
    for layer in 0..2 {
        for (name, shape) in [
            ("attn_qkv", [60, 100]),
            ("attn_output", [60, 60]),
            ("ffn_up", [60, 152]),
            ("ffn_down", [76, 60]),
        ] {
            tensors.push((format!("blk.{layer}.{name}.weight"), shape.to_vec()));
        }
    }
    Gguf::from_bytes(gguf(&metadata, &tensors)).unwrap()
}

fn base() -> BaseShape {
    BaseShape::from_gguf(&phi3()).unwrap()
}

/// Distinct values.
fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 37 + seed * 11) % 997) as f32 / 64.0 - 7.0)
        .collect()
}

/// The tensors of a PEFT folder with these modules in two layers, by name.
fn peft_tensors(modules: &[(&str, usize, usize)]) -> BTreeMap<String, ([usize; 2], Vec<f32>)> {
    let mut tensors = BTreeMap::new();
    for layer in 0..2 {
        for (module, outputs, inputs) in modules {
            let name = |half: &str| format!("base_model.model.model.layers.{layer}.{module}.{half}.weight");
            let seed = tensors.len();
            tensors.insert(name("lora_A"), ([RANK, *inputs], values(RANK * inputs, seed)));
            tensors.insert(name("lora_B"), ([*outputs, RANK], values(outputs * RANK, seed + 1)));
        }
    }
    tensors
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn serialized(tensors: &BTreeMap<String, ([usize; 2], Vec<f32>)>) -> Vec<u8> {
    let bytes: Vec<_> = tensors
        .iter()
        .map(|(name, (shape, values))| (name, shape, bytes(values)))
        .collect();
    let views = bytes
        .iter()
        .map(|(name, shape, bytes)| (*name, TensorView::new(Dtype::F32, shape.to_vec(), bytes).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

/// Reads modules for a base.
fn read(modules: &[(&str, usize, usize)], base: &BaseShape) -> Result<AdapterFile, AdapterProblem> {
    let names: Vec<&str> = modules
        .iter()
        .map(|(module, ..)| module.split_once('.').unwrap().1)
        .collect();
    let config = json!({"peft_type": "LORA", "r": RANK, "lora_alpha": 45.0, "target_modules": names});
    let tensors = serialized(&peft_tensors(modules));
    AdapterFile::from_peft(config.to_string().as_bytes(), &tensors, None, base)
}

fn adapter() -> AdapterFile {
    read(&MODULES, &base()).unwrap()
}

fn target(layer: usize, linear: LinearName) -> TargetName {
    TargetName { layer, linear }
}

#[test]
fn linears_share_a_and_have_their_rows_of_b() {
    let adapter = adapter();
    assert_eq!(adapter.tensors.len(), 2 * LinearName::ALL.len());
    let tensors = peft_tensors(&MODULES);
    let b = &tensors["base_model.model.model.layers.1.self_attn.qkv_proj.lora_B.weight"].1;
    for (linear, rows) in [
        (LinearName::AttnQ, 0..60),
        (LinearName::AttnK, 60..80),
        (LinearName::AttnV, 80..100),
    ] {
        let lora = &adapter.tensors[&target(1, linear)];
        assert_eq!((lora.inputs, lora.outputs, lora.alpha), (WIDTH, rows.len(), 45.0));
        assert_eq!(lora.b, b[rows.start * RANK..rows.end * RANK], "{linear}");
        assert_eq!(lora.a, adapter.tensors[&target(1, LinearName::AttnQ)].a);
    }
    assert_eq!(adapter.check_base(&phi3()).unwrap(), Fit::SizesOnly);
}

#[test]
fn peft_folders_are_written_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    adapter().write_peft(folder.path(), &base()).unwrap();
    let file = fs::read(folder.path().join("adapter_model.safetensors")).unwrap();
    let written = SafeTensors::deserialize(&file).unwrap();
    let expected = peft_tensors(&MODULES);
    assert_eq!(written.len(), expected.len());
    for (name, (shape, values)) in &expected {
        let tensor = written.tensor(name).unwrap();
        assert_eq!((tensor.shape(), tensor.data()), (&shape[..], &*bytes(values)), "{name}");
    }
    let config: Value = serde_json::from_slice(&fs::read(folder.path().join("adapter_config.json")).unwrap()).unwrap();
    let mut names: Vec<&str> = config["target_modules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["down_proj", "gate_up_proj", "o_proj", "qkv_proj"]);
    let read = AdapterFile::open(folder.path(), &base()).unwrap();
    assert_eq!(read.tensors, adapter().tensors);
    assert!(read.unmatched.is_empty(), "{:?}", read.unmatched);
}

#[test]
fn gguf_files_have_the_names_of_llama_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adapter.gguf");
    adapter().write_gguf(&path, &base()).unwrap();
    let file = Gguf::open(&path).unwrap();
    let mut names: Vec<&str> = file.tensors().map(|info| info.name.as_str()).collect();
    names.retain(|name| name.starts_with("blk.0.") && name.ends_with("lora_b"));
    names.sort_unstable();
    let expected = ["attn_output", "attn_qkv", "ffn_down", "ffn_up"].map(|name| format!("blk.0.{name}.weight.lora_b"));
    assert_eq!(names, expected);
    assert_eq!(
        file.info("blk.1.ffn_up.weight.lora_b").unwrap().shape,
        [RANK as u64, 152]
    );
    let read = AdapterFile::open(&path, &base()).unwrap();
    assert_eq!(read.tensors, adapter().tensors);
    let message = AdapterFile::from_gguf(&file).unwrap_err().to_string();
    assert!(message.contains("without its base model"), "{message}");
}

#[test]
fn headers_fit_models_with_these_modules() {
    let folder = tempfile::tempdir().unwrap();
    let (peft, gguf) = (folder.path().join("peft"), folder.path().join("a.gguf"));
    adapter().write_peft(&peft, &base()).unwrap();
    adapter().write_gguf(&gguf, &base()).unwrap();
    let header = |path: &Path| AdapterHeader::open(path).unwrap();
    for path in [&peft, &gguf] {
        let header = header(path);
        let names: Vec<&str> = header.linears.iter().map(|linear| linear.name.as_str()).collect();
        assert_eq!(names, ["attn_output", "ffn_down", "attn_qkv", "ffn_gate_up"]);
        assert!(header.is_whole && header.fits(&base()).is_ok());
    }
    // A model of equal sizes that transformers does not fuse.
    let separate = BaseShape {
        architecture: "qwen2".to_owned(),
        ..base()
    };
    assert!(header(&peft).fits(&separate).is_err());
    assert!(read(&MODULES, &separate).is_err());
}

/// The elements of the scaled product of a linear, and the sums of the magnitudes of their terms.
fn product(adapter: &AdapterFile, target: TargetName) -> Vec<[f64; 2]> {
    let (lora, scale) = (&adapter.tensors[&target], f64::from(adapter.scale(target).unwrap()));
    let element = |index: usize| {
        let (row, column) = (index / lora.inputs, index % lora.inputs);
        let term = |k| scale * f64::from(lora.b[row * lora.rank + k]) * f64::from(lora.a[k * lora.inputs + column]);
        let terms = (0..lora.rank).map(term);
        terms.fold([0.0, 0.0], |[sum, magnitude], term| {
            [sum + term, magnitude + term.abs()]
        })
    };
    (0..lora.outputs * lora.inputs).map(element).collect()
}

/// Parts with other As, ranks and alphas, as of a file with separate linears, or without a part.
#[test]
fn parts_of_several_adapters_are_block_diagonal() {
    let mut adapter = adapter();
    for (linear, rank) in [(LinearName::AttnQ, 2), (LinearName::AttnK, 3)] {
        let lora = adapter.tensors.get_mut(&target(0, linear)).unwrap();
        lora.a = values(rank * lora.inputs, rank);
        lora.b = values(rank * lora.outputs, rank + 9);
        (lora.rank, lora.alpha) = (rank, 4.0);
    }
    for linear in [LinearName::AttnV, LinearName::FfnUp] {
        adapter.tensors.remove(&target(0, linear)).unwrap();
    }
    for rslora in [false, true] {
        adapter.rslora = rslora;
        let folder = tempfile::tempdir().unwrap();
        let (peft, gguf) = (folder.path().join("peft"), folder.path().join("a.gguf"));
        adapter.write_peft(&peft, &base()).unwrap();
        adapter.write_gguf(&gguf, &base()).unwrap();
        for path in [peft, gguf] {
            let read = AdapterFile::open(&path, &base()).unwrap();
            assert_eq!(read.tensors[&target(0, LinearName::AttnQ)].rank, 5);
            for linear in LinearName::ALL {
                let target = target(0, *linear);
                let actual = product(&read, target);
                if !adapter.tensors.contains_key(&target) {
                    assert!(actual.iter().all(|[sum, _]| *sum == 0.0), "{linear}");
                    continue;
                }
                // Scales and B are rounded at most eight times, each by half an epsilon.
                let is_near = |([actual, _], [expected, magnitude]): (&[f64; 2], &[f64; 2])| {
                    (actual - expected).abs() <= 4.0 * f64::from(f32::EPSILON) * magnitude
                };
                assert!(actual.iter().zip(&product(&adapter, target)).all(is_near), "{linear}");
            }
        }
    }
}

#[test]
fn names_of_other_models_and_targets_twice_are_refused() {
    // transformers has no such modules in these architectures.
    let separate = [("self_attn.q_proj", WIDTH, WIDTH)];
    let message = read(&separate, &base()).unwrap_err().to_string();
    assert!(
        message.contains("blk.0.attn_q, which this model does not have"),
        "{message}"
    );
    let message = read(&MODULES[..1], &shape_of_fixture("llama")).unwrap_err().to_string();
    assert!(
        message.contains("blk.0.attn_qkv, which this model does not have"),
        "{message}"
    );

    let file = |architecture: &str, weights: &[(&str, u64)]| {
        let metadata: Metadata = [
            ("general.type", "adapter"),
            ("general.architecture", architecture),
            ("adapter.type", "lora"),
        ]
        .into_iter()
        .collect();
        let halves = weights.iter().flat_map(|(weight, outputs)| {
            let name = |half: &str| format!("blk.0.{weight}.weight.{half}");
            [(name("lora_a"), vec![64, 2]), (name("lora_b"), vec![2, *outputs])]
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adapter.gguf");
        fs::write(&path, gguf(&metadata, &halves.collect::<Vec<_>>())).unwrap();
        AdapterFile::open(&path, &shape_of_fixture("llama"))
    };
    // In a GGUF, any architecture may have fused queries, keys and values: 64, 32 and 32 rows.
    let read = file("llama", &[("attn_qkv", 128)]).unwrap();
    let outputs = read.tensors.iter().map(|(target, lora)| (target.linear, lora.outputs));
    assert!(outputs.eq([
        (LinearName::AttnQ, 64),
        (LinearName::AttnK, 32),
        (LinearName::AttnV, 32)
    ]));
    let twice = file("llama", &[("attn_qkv", 128), ("attn_k", 32)]).unwrap_err();
    assert!(
        twice
            .to_string()
            .contains("blk.0.attn_k is corrupt: it is present twice"),
        "{twice}"
    );
    let short = file("llama", &[("attn_qkv", 120)]).unwrap_err();
    assert!(short.to_string().contains("this model's weight is 64 x 128"), "{short}");
}

#[test]
fn fused_matrices_that_do_not_fit_are_refused() {
    for (module, [outputs, inputs], expected) in [
        ("self_attn.qkv_proj", [80, WIDTH], "blk.0.attn_qkv are for 60 x 80"),
        ("self_attn.qkv_proj", [120, WIDTH], "blk.0.attn_qkv are for 60 x 120"),
        ("self_attn.qkv_proj", [100, 64], "blk.0.attn_qkv are for 64 x 100"),
        ("mlp.gate_up_proj", [76, WIDTH], "blk.0.ffn_gate_up are for 60 x 76"),
        ("mlp.gate_up_proj", [154, WIDTH], "blk.0.ffn_gate_up are for 60 x 154"),
    ] {
        let message = read(&[(module, outputs, inputs)], &base()).unwrap_err().to_string();
        let own = if module.ends_with("qkv_proj") {
            "60 x 100"
        } else {
            "60 x 152"
        };
        let expected = format!("{expected}, but this model's weight is {own}");
        assert!(message.contains(&expected), "{module} {outputs} {inputs}: {message}");
    }
    // A fused module and a part of it.
    for (part, outputs, name) in [
        ("self_attn.q_proj", WIDTH, "blk.0.attn_q"),
        ("mlp.gate_proj", 76, "blk.0.ffn_gate"),
        ("mlp.up_proj", 76, "blk.0.ffn_up"),
    ] {
        let modules = [&MODULES[..], &[(part, outputs, WIDTH)]].concat();
        let message = read(&modules, &base()).unwrap_err().to_string();
        assert!(
            message.contains(&format!("{name}, which this model does not have")),
            "{message}"
        );
    }
}

/// A fused linear has the matrices of several targets. All of them are checked before they are
/// joined: here the last one has more rows than the model's.
#[test]
fn adapters_for_other_shapes_are_not_written() {
    for linear in [LinearName::AttnK, LinearName::AttnV, LinearName::FfnUp] {
        let mut adapter = adapter();
        let lora = adapter.tensors.get_mut(&target(1, linear)).unwrap();
        lora.outputs += 4;
        lora.b = values(lora.rank * lora.outputs, 1);
        // Other As, whose Bs are joined as a block-diagonal matrix.
        lora.alpha = 4.0;
        let expected = format!("blk.1.{linear} are for 60 x {}", lora.outputs);
        let folder = tempfile::tempdir().unwrap();
        for result in [
            adapter.write_peft(&folder.path().join("peft"), &base()),
            adapter.write_gguf(&folder.path().join("a.gguf"), &base()),
        ] {
            let message = result.unwrap_err().to_string();
            assert!(message.contains(&expected), "{message}");
        }
    }
}
