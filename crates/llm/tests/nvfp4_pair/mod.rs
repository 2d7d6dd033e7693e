//! A model in NVFP4 with a scale per tensor, and the same model in F32.

use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, TensorHeader, TensorType};
use hearth_kernels::Quant;
use std::path::Path;

/// The tensors of a model file.
struct File {
    headers: Vec<TensorHeader>,
    contents: Vec<Vec<u8>>,
}

impl File {
    fn push(&mut self, name: String, shape: &[u64], kind: TensorType, bytes: Vec<u8>) {
        let shape = shape.to_vec();
        self.headers.push(TensorHeader { name, shape, kind });
        self.contents.push(bytes);
    }

    fn push_floats(&mut self, name: String, shape: &[u64], values: &[f32]) {
        self.push(
            name,
            shape,
            TensorType::F32,
            values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        );
    }

    fn gguf(self, metadata: &Metadata) -> Gguf {
        let mut writer = GgufWriter::begin(Vec::new(), metadata, &self.headers).expect("a header");
        for bytes in &self.contents {
            writer.tensor(bytes).expect("it is written");
        }
        Gguf::from_bytes(writer.finish().expect("a file")).expect("it opens")
    }
}

/// The fixture `llama` in NVFP4 with scales, input scales and biases, and the same model in F32
/// with the scales multiplied into the weights.
pub fn files() -> [Gguf; 2] {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf");
    let gguf = Gguf::open(fixture).expect("the fixture opens");
    let [mut scaled, mut folded] = [(); 2].map(|()| File {
        headers: Vec::new(),
        contents: Vec::new(),
    });
    for (i, info) in gguf.tensors().enumerate() {
        let bytes = gguf.tensor(&info.name).expect("a tensor").bytes().to_vec();
        let linear = info
            .name
            .strip_suffix(".weight")
            .filter(|_| info.name.starts_with("blk."));
        let Some(linear) = linear.filter(|_| info.shape.len() == 2) else {
            for file in [&mut scaled, &mut folded] {
                file.push(info.name.clone(), &info.shape, info.kind, bytes.clone());
            }
            continue;
        };
        // A scale of 1 would not be noticed if it was ignored.
        let scale = 0.25 + 0.125 * (i % 7) as f32;
        let values: Vec<f32> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|value| f32::from_le_bytes(*value))
            .collect();
        let divided: Vec<f32> = values.iter().map(|value| value / scale).collect();
        let mut blocks = vec![0; Quant::NVFP4.row_bytes(values.len()).expect("whole blocks")];
        Quant::NVFP4.quantize_row(&divided, &mut blocks).expect("it fits");
        let mut weights = vec![0.0; values.len()];
        Quant::NVFP4
            .dequantize_row(&blocks, &mut weights)
            .expect("whole blocks");
        weights.iter_mut().for_each(|weight| *weight *= scale);
        let outputs = info.shape[1];
        let bias: Vec<f32> = (0..outputs)
            .map(|row| (row as f32 * 0.7 + i as f32).sin() / 10.0)
            .collect();

        scaled.push(info.name.clone(), &info.shape, TensorType::NVFP4, blocks);
        scaled.push_floats(format!("{linear}.scale"), &[1], &[scale]);
        // For activations in NVFP4. Hearth does not apply it.
        scaled.push_floats(format!("{linear}.input_scale"), &[1], &[17.0]);
        scaled.push_floats(format!("{linear}.bias"), &[outputs], &bias);
        folded.push_floats(info.name.clone(), &info.shape, &weights);
        folded.push_floats(format!("{linear}.bias"), &[outputs], &bias);
    }
    [scaled, folded].map(|file| file.gguf(gguf.metadata()))
}
