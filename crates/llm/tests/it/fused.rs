//! Files with fused queries, keys and values compute what files with separate ones compute.

use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader, TensorInfo};
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{LoadOptions, Model, Session};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// The parts of a fused tensor.
const PARTS: [&str; 3] = ["attn_q", "attn_k", "attn_v"];

/// A copy of a model with the rows of queries, keys and values in one weight, and their biases, if
/// `fuses_biases`, in one bias.
fn fused(base: &Gguf, fuses_biases: bool) -> Vec<u8> {
    let (mut headers, mut contents) = (Vec::<TensorHeader>::new(), Vec::<Vec<u8>>::new());
    for info in base.tensors() {
        let part = PARTS
            .iter()
            .find(|part| info.name.contains(&format!(".{part}.")))
            .filter(|_| fuses_biases || info.name.ends_with(".weight"));
        let bytes_of = |part: &str, other: &str| {
            let tensor = base.tensor(&info.name.replace(part, other)).expect("the part");
            (tensor.info.shape.last().copied().expect("a size"), tensor.bytes())
        };
        let (mut shape, mut bytes, mut name) = (info.shape.clone(), Vec::new(), info.name.clone());
        match part {
            None => bytes.extend(base.tensor(&info.name).expect("the tensor").bytes()),
            Some(&"attn_q") => {
                let parts = PARTS.map(|other| bytes_of("attn_q", other));
                *shape.last_mut().expect("a size") = parts.iter().map(|(rows, _)| rows).sum();
                parts.iter().for_each(|(_, part)| bytes.extend(*part));
                name = name.replace("attn_q", "attn_qkv");
            }
            Some(_) => continue,
        }
        contents.push(bytes);
        headers.push(TensorHeader {
            name,
            shape,
            kind: info.kind,
        });
    }
    let mut writer = GgufWriter::begin(Vec::new(), base.metadata(), &headers).expect("a header");
    for bytes in contents {
        writer.tensor(&bytes).expect("a tensor");
    }
    writer.finish().expect("a file")
}

/// The logits of a model with packed weights in a folder, if any.
fn logits(path: &Path, packed_in: Option<&Path>) -> Vec<f32> {
    let options = LoadOptions {
        packed_in: packed_in.map(Path::to_owned),
        ..LoadOptions::default()
    };
    let gguf = Gguf::open(path).expect("the model opens");
    let model = Model::load(&gguf, &options, &mut |_| ControlFlow::Continue(())).expect("it loads");
    let model = Arc::new(model);
    let logits = [MatmulPrecision::F32, MatmulPrecision::Int8Activations].map(|precision| {
        let session = Session::new(model.clone(), 16).expect("a session");
        let mut session = session.with_precision(precision);
        session.extend(&[10, 20, 30, 40, 50]).expect("it runs")
    });
    logits.concat()
}

#[test]
fn fused_rows_have_the_same_bits() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    // Qwen 2 has biases, Qwen 3 norms of Q and K.
    for (name, fuses_biases) in [("llama", true), ("qwen2", true), ("qwen2", false), ("qwen3", true)] {
        let path = models.join(name).with_extension("gguf");
        let folder = tempfile::tempdir().expect("a folder");
        let copy = folder.path().join("fused.gguf");
        fs::write(&copy, fused(&Gguf::open(&path).expect("it opens"), fuses_biases)).expect("it is written");
        let expected = logits(&path, None);
        let packed_in = folder.path().join("packed");
        // The second load with a folder maps what the first one wrote.
        for packed_in in [None, Some(&*packed_in), Some(&*packed_in)] {
            assert!(logits(&copy, packed_in) == expected, "{name} {packed_in:?}");
        }
    }
}

/// A copy of a model in f32 with another shape of one tensor, whose values are repeated.
fn reshaped(base: &Gguf, name: &str, shape: &[u64]) -> Gguf {
    let header = |info: &TensorInfo| TensorHeader {
        name: info.name.clone(),
        shape: if info.name == name {
            shape.to_vec()
        } else {
            info.shape.clone()
        },
        kind: info.kind,
    };
    let headers: Vec<_> = base.tensors().map(header).collect();
    let mut writer = GgufWriter::begin(Vec::new(), base.metadata(), &headers).expect("a header");
    for header in &headers {
        let bytes = base.tensor(&header.name).expect("the tensor").bytes();
        let length = 4 * header.shape.iter().product::<u64>() as usize;
        let bytes: Vec<u8> = bytes.iter().copied().cycle().take(length).collect();
        writer.tensor(&bytes).expect("a tensor");
    }
    Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens")
}

#[test]
fn tensors_of_other_sizes_are_refused() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    // Queries of 60 rows, keys and values of 20; gate and up of 76 each; 10 pairs.
    let base = Gguf::open(models.join("phi3-2.gguf")).expect("the fixture opens");
    for (name, needed, shapes) in [
        (
            "blk.1.attn_qkv.weight",
            "[60, 100]",
            &[&[60, 99][..], &[60, 101], &[60, 80], &[100, 60], &[59, 100], &[60]][..],
        ),
        (
            "blk.1.ffn_up.weight",
            "[60, 152]",
            &[&[60, 76], &[60, 151], &[60, 153], &[60, 76, 2]],
        ),
        ("blk.1.attn_output.weight", "[60, 60]", &[&[60, 100]]),
        ("rope_factors_long.weight", "[10]", &[&[9], &[11], &[20]]),
        ("rope_factors_short.weight", "[10]", &[&[9], &[11], &[1, 10]]),
    ] {
        for shape in shapes {
            for context in [256, 257] {
                let options = LoadOptions {
                    context: Some(context),
                    ..LoadOptions::default()
                };
                let result = Model::load(&reshaped(&base, name, shape), &options, &mut |_| {
                    ControlFlow::Continue(())
                });
                let message = result.err().expect("it is refused").to_string();
                let expected = format!("'{name}' has the shape {shape:?}, but must have {needed}");
                assert!(message.contains(&expected), "{message}");
            }
        }
    }
}
