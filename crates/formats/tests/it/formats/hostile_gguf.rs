//! Malformed files: each is refused with one message that names the location, without a panic or a
//! large allocation.

use hearth_formats::chat_template::ChatTemplate;
use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, Strings, TensorHeader, TensorType, Value};
use hearth_formats::tokenizer::{Special, Tokenizer};
use proptest::prelude::*;

/// Builds a file byte by byte, to express headers that the writer refuses.
#[derive(Default)]
struct RawGguf(Vec<u8>);

impl RawGguf {
    fn header(version: u32, tensors: u64, keys: u64) -> Self {
        Self(b"GGUF".to_vec()).u32(version).u64(tensors).u64(keys)
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn text(self, text: &str) -> Self {
        self.u64(text.len() as u64).bytes(text.as_bytes())
    }

    /// A metadata key with a u32 value.
    fn key(self, key: &str, value: u32) -> Self {
        self.text(key).u32(4).u32(value)
    }

    fn tensor(self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Self {
        let header = self.text(name).u32(shape.len() as u32);
        shape
            .iter()
            .fold(header, |raw, &dimension| raw.u64(dimension))
            .u32(kind)
            .u64(offset)
    }

    /// Pads the header and appends `len` bytes of tensor data.
    fn data(mut self, len: usize) -> Self {
        self.0.resize(self.0.len().next_multiple_of(32) + len, 0);
        self
    }
}

/// Name, file and a part of the error message.
type Case = (&'static str, RawGguf, &'static str);

fn header_cases() -> Vec<Case> {
    vec![
        ("empty", RawGguf::default(), "the file is empty"),
        (
            "login page",
            RawGguf::default().bytes(b"\n<!doctype html><title>Log in</title>"),
            "this is a web page",
        ),
        ("short", RawGguf::default().bytes(b"GG"), "not a GGUF file"),
        (
            "magic",
            RawGguf::default().bytes(b"PK\x03\x04 and more"),
            "not a GGUF file",
        ),
        ("magic alone", RawGguf::default().bytes(b"GGUF"), "cut off"),
        ("version 1", RawGguf::header(1, 0, 0), "version 1"),
        ("version 4", RawGguf::header(4, 0, 0), "version 4"),
        ("big-endian", RawGguf::header(3u32.swap_bytes(), 0, 0), "big-endian"),
        ("many keys", RawGguf::header(3, 0, u64::MAX), "metadata keys"),
        ("many tensors", RawGguf::header(3, u64::MAX, 0), "tensor table"),
        (
            "many tensors that overflow",
            RawGguf::header(3, u64::MAX / 32 + 1, 0),
            "tensor table",
        ),
    ]
}

fn metadata_cases() -> Vec<Case> {
    vec![
        (
            "long key",
            RawGguf::header(3, 0, 1).u64(u64::MAX).bytes(&[0; 64]),
            "cut off",
        ),
        (
            "key not UTF-8",
            RawGguf::header(3, 0, 1).u64(2).bytes(b"\xff\xfe").u32(4).u32(0),
            "UTF-8",
        ),
        (
            "value not UTF-8",
            RawGguf::header(3, 0, 1).text("a.b").u32(8).u64(1).bytes(b"\xff"),
            "'a.b'",
        ),
        (
            "key twice",
            RawGguf::header(3, 0, 2).key("a", 1).key("a", 2),
            "'a' is invalid: it is present twice",
        ),
        (
            "value type",
            RawGguf::header(3, 0, 1).text("a").u32(13).u32(0),
            "value type 13",
        ),
        (
            "boolean",
            RawGguf::header(3, 0, 1).text("a").u32(7).bytes(&[2, 0, 0, 0]),
            "0 or 1, not 2",
        ),
        (
            "array of arrays",
            RawGguf::header(3, 0, 1).text("a").u32(9).u32(9).u64(1).u32(4).u64(0),
            "array of arrays",
        ),
        (
            "long array",
            RawGguf::header(3, 0, 1).text("a").u32(9).u32(12).u64(1 << 61).u64(0),
            "'a'",
        ),
        (
            "long array of texts",
            RawGguf::header(3, 0, 1).text("a").u32(9).u32(8).u64(1 << 40).u64(0),
            "'a'",
        ),
        (
            "alignment 0",
            RawGguf::header(3, 0, 1).key("general.alignment", 0),
            "power of two",
        ),
        (
            "alignment 48",
            RawGguf::header(3, 0, 1).key("general.alignment", 48),
            "power of two",
        ),
        (
            "alignment a text",
            RawGguf::header(3, 0, 1).text("general.alignment").u32(8).text("32"),
            "should be a non-negative integer",
        ),
        (
            "part of many",
            RawGguf::header(3, 0, 2).key("split.no", 3).key("split.count", 2),
            "part 3 (from 0) is out of range for 2 parts",
        ),
    ]
}

fn tensor_cases() -> Vec<Case> {
    let single =
        |name: &str, shape: &[u64], kind, offset| RawGguf::header(3, 1, 0).tensor(name, shape, kind, offset).data(64);
    vec![
        ("no name", single("", &[4], 0, 0), "empty name"),
        ("no dimensions", single("t", &[], 0, 0), "0 dimensions"),
        ("five dimensions", single("t", &[1; 5], 0, 0), "5 dimensions"),
        (
            "dimensions overflow",
            single("t", &[1 << 32, 1 << 32], 0, 0),
            "too many elements",
        ),
        (
            "bytes overflow",
            single("t", &[u64::MAX / 2], 28, 0),
            "too many elements",
        ),
        ("too long", single("t", &[17], 0, 0), "the file is incomplete"),
        (
            "the last of two too long",
            RawGguf::header(3, 2, 0)
                .tensor("b", &[4], 0, 32)
                .tensor("a", &[4], 0, 0)
                .data(47),
            "last tensor, 'b', reaches beyond the end of the file, to byte 144",
        ),
        ("far away", single("t", &[4], 0, u64::MAX - 31), "beyond the end"),
        (
            "misaligned",
            single("t", &[4], 0, 16),
            "not a multiple of the alignment",
        ),
        ("half a block", single("t", &[48], 2, 0), "not a multiple of the 32"),
        (
            "half a super-block",
            single("t", &[128, 2], 12, 0),
            "not a multiple of the 256",
        ),
        ("unknown type", single("t", &[4], 99, 0), "type id 99 is unknown"),
        (
            "removed type",
            single("t", &[32], 31, 0),
            "Q4_0_4_4 (id 31) was removed",
        ),
        (
            "tensor twice",
            RawGguf::header(3, 2, 0)
                .tensor("t", &[4], 0, 0)
                .tensor("t", &[4], 0, 32)
                .data(64),
            "'t' is invalid: it is present twice",
        ),
        (
            "overlap",
            RawGguf::header(3, 2, 0)
                .tensor("a", &[12], 0, 0)
                .tensor("b", &[4], 0, 32)
                .data(64),
            "overlaps that of 'a'",
        ),
    ]
}

#[test]
fn malformed_files_are_refused_with_the_location() {
    for (name, raw, expected) in [header_cases(), metadata_cases(), tensor_cases()].into_iter().flatten() {
        let error = match Gguf::from_bytes(raw.0) {
            Ok(_) => panic!("{name}: was accepted"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(expected), "{name}: {error}");
        assert!(
            error.starts_with("GGUF in memory: ") && error.ends_with('.'),
            "{name}: {error}"
        );
    }
}

#[test]
fn missing_and_empty_files_and_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.gguf");
    assert!(Gguf::open(&missing).unwrap_err().to_string().contains("missing.gguf"));
    assert!(
        Gguf::open(folder.path())
            .unwrap_err()
            .to_string()
            .contains("cannot be read")
    );
    let empty = folder.path().join("empty.gguf");
    std::fs::write(&empty, []).unwrap();
    let error = Gguf::open(&empty).unwrap_err().to_string();
    assert!(error.contains("empty.gguf: the file is empty"), "{error}");
}

/// A small file with all kinds of content, including a vocabulary and a template.
fn sample() -> Vec<u8> {
    let tokens: Strings = (b'!'..=b'~')
        .map(|byte| (byte as char).to_string())
        .chain(["Ġ".into(), "ab".into(), "<|end|>".into()])
        .collect();
    let types: Vec<i32> = (0..tokens.len())
        .map(|id| if id + 1 == tokens.len() { 3 } else { 1 })
        .collect();
    let mut metadata: Metadata = [
        ("general.architecture", Value::from("llama")),
        ("general.file_type", Value::from(3u32)),
        ("a.u8", Value::from(1u8)),
        ("a.f64", Value::from(0.5f64)),
        ("a.flags", Value::from(vec![true, false])),
        ("a.wide", Value::from(vec![1u64, 2, 3])),
        ("tokenizer.ggml.model", Value::from("gpt2")),
        ("tokenizer.ggml.pre", Value::from("gpt-2")),
        ("tokenizer.ggml.eos_token_id", Value::from(tokens.len() as u32 - 1)),
        (
            "tokenizer.chat_template",
            Value::from("{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}"),
        ),
    ]
    .into_iter()
    .collect();
    metadata.insert("tokenizer.ggml.tokens", tokens);
    metadata.insert("tokenizer.ggml.token_type", types);
    metadata.insert("tokenizer.ggml.merges", Strings::from_iter(["a b"]));
    let tensors = [
        ("one", vec![8, 2], TensorType::F32),
        ("two", vec![32, 3], TensorType::Q4_1),
        ("three", vec![5], TensorType::F16),
    ]
    .map(|(name, shape, kind)| TensorHeader {
        name: name.into(),
        shape,
        kind,
    });
    let mut writer = GgufWriter::begin(Vec::new(), &metadata, &tensors).unwrap();
    for len in [64, 60, 10] {
        writer.tensor(&(0..len).collect::<Vec<u8>>()).unwrap();
    }
    writer.finish().unwrap()
}

/// Uses everything in an accepted file and checks its consistency. Returns how far it was accepted.
fn exercise(bytes: Vec<u8>) -> Accepted {
    let Ok(gguf) = Gguf::from_bytes(bytes) else {
        return Accepted::No;
    };
    for info in gguf.tensors() {
        let tensor = gguf.tensor(&info.name).expect("listed");
        assert_eq!(tensor.bytes().len(), info.byte_len);
        assert_eq!(
            info.elements() / info.kind.block_elements() * info.kind.block_bytes(),
            info.byte_len as u64
        );
        gguf.release(info);
    }
    let _ = (
        gguf.architecture(),
        gguf.quantization(),
        gguf.parameter_count(),
        gguf.file_size(),
    );
    for (key, _) in gguf.metadata().iter() {
        let _ = (
            gguf.u32(key),
            gguf.f32(key),
            gguf.str(key),
            gguf.strings(key),
            gguf.i32s(key),
            gguf.u32s(key),
            gguf.f32s(key),
        );
    }
    let _ = ChatTemplate::from_gguf(&gguf);
    let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) else {
        return Accepted::AsFile;
    };
    let ids = tokenizer.encode("ab <|end|> 12", Special::Text);
    assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
    let _ = tokenizer.decode(&ids);
    Accepted::WithTokenizer
}

/// The last step that accepted a file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Accepted {
    No,
    AsFile,
    WithTokenizer,
}

/// Flipping single bits leads to each outcome, so the tests below cover all of them.
#[test]
fn single_flipped_bits_lead_to_every_outcome() {
    assert_eq!(exercise(sample()), Accepted::WithTokenizer);
    let mut outcomes = [0; 3];
    for offset in 0..sample().len() {
        let mut bytes = sample();
        bytes[offset] ^= 1;
        outcomes[exercise(bytes) as usize] += 1;
    }
    assert!(outcomes.iter().all(|count| *count > 20), "{outcomes:?}");
}

/// A modification of a file.
#[derive(Debug, Clone)]
enum Damage {
    Truncate(prop::sample::Index),
    Flip(prop::sample::Index, u8),
    /// Overwrites eight bytes with a value that is dangerous as a count, a length or an offset.
    Overwrite(prop::sample::Index, u64),
    Remove(prop::sample::Index, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let dangerous = prop_oneof![
        Just(u64::MAX),
        Just(1 << 63),
        Just(u64::MAX / 8),
        Just(u32::MAX.into()),
        Just(1 << 31),
        Just(0),
        0u64..300,
        any::<u64>(),
    ];
    prop_oneof![
        any::<prop::sample::Index>().prop_map(Damage::Truncate),
        (any::<prop::sample::Index>(), 0u8..8).prop_map(|(offset, bit)| Damage::Flip(offset, bit)),
        (any::<prop::sample::Index>(), dangerous).prop_map(|(offset, value)| Damage::Overwrite(offset, value)),
        (any::<prop::sample::Index>(), 1usize..20).prop_map(|(offset, len)| Damage::Remove(offset, len)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn corrupt_files_are_refused_or_consistent(damages in prop::collection::vec(damage(), 1..4)) {
        let mut bytes = sample();
        for damage in damages {
            if bytes.is_empty() {
                break;
            }
            match damage {
                Damage::Truncate(len) => bytes.truncate(len.index(bytes.len())),
                Damage::Flip(offset, bit) => {
                    let offset = offset.index(bytes.len());
                    bytes[offset] ^= 1 << bit;
                }
                Damage::Overwrite(offset, value) => {
                    let offset = offset.index(bytes.len());
                    for (byte, new) in bytes[offset..].iter_mut().zip(value.to_le_bytes()) {
                        *byte = new;
                    }
                }
                Damage::Remove(offset, len) => {
                    let offset = offset.index(bytes.len());
                    bytes.drain(offset..(offset + len).min(bytes.len()));
                }
            }
        }
        exercise(bytes);
    }

    #[test]
    fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = b"GGUF\x03\x00\x00\x00".to_vec();
        bytes.extend(&noise);
        // Counts of 0 make a valid empty file.
        let is_empty_file = noise.starts_with(&[0; 16]);
        prop_assert_eq!(exercise(bytes) != Accepted::No, is_empty_file);
    }
}
