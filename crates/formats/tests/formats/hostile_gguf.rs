//! Files that lie: each is refused with one sentence that names the place, and none makes a panic or asks for much memory.

use hearth_formats::chat_template::ChatTemplate;
use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, Strings, TensorHeader, TensorType, Value};
use hearth_formats::tokenizer::{Special, Tokenizer};
use proptest::prelude::*;

/// Builds a header by hand, so that it can say what no writer would.
#[derive(Default)]
struct Raw(Vec<u8>);

impl Raw {
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

    /// A metadata key with a 32-bit number.
    fn key(self, key: &str, value: u32) -> Self {
        self.text(key).u32(4).u32(value)
    }

    fn tensor(self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Self {
        let listed = self.text(name).u32(shape.len() as u32);
        shape
            .iter()
            .fold(listed, |raw, &dimension| raw.u64(dimension))
            .u32(kind)
            .u64(offset)
    }

    /// Ends the header and adds so many bytes of data.
    fn data(mut self, len: usize) -> Self {
        self.0.resize(self.0.len().next_multiple_of(32) + len, 0);
        self
    }
}

#[test]
fn each_lie_is_named() {
    let one = |name: &str, shape: &[u64], kind, offset| Raw::header(3, 1, 0).tensor(name, shape, kind, offset).data(64);
    let cases: Vec<(&str, Raw, &str)> = vec![
        ("empty", Raw::default(), "no GGUF file"),
        ("short", Raw::default().bytes(b"GG"), "no GGUF file"),
        ("magic", Raw::default().bytes(b"PK\x03\x04 and more"), "no GGUF file"),
        ("magic alone", Raw::default().bytes(b"GGUF"), "cut off"),
        ("version 1", Raw::header(1, 0, 0), "version 1"),
        ("version 4", Raw::header(4, 0, 0), "version 4"),
        ("big-endian", Raw::header(3u32.swap_bytes(), 0, 0), "big-endian"),
        ("many keys", Raw::header(3, 0, u64::MAX), "metadata keys"),
        ("many tensors", Raw::header(3, u64::MAX, 0), "tensor table"),
        (
            "many tensors that overflow",
            Raw::header(3, u64::MAX / 32 + 1, 0),
            "tensor table",
        ),
        (
            "long key",
            Raw::header(3, 0, 1).u64(u64::MAX).bytes(&[0; 64]),
            "cut off",
        ),
        (
            "key not UTF-8",
            Raw::header(3, 0, 1).u64(2).bytes(b"\xff\xfe").u32(4).u32(0),
            "UTF-8",
        ),
        (
            "value not UTF-8",
            Raw::header(3, 0, 1).text("a.b").u32(8).u64(1).bytes(b"\xff"),
            "'a.b'",
        ),
        (
            "key twice",
            Raw::header(3, 0, 2).key("a", 1).key("a", 2),
            "'a' is invalid: it is there twice",
        ),
        (
            "value type",
            Raw::header(3, 0, 1).text("a").u32(13).u32(0),
            "value type 13",
        ),
        (
            "boolean",
            Raw::header(3, 0, 1).text("a").u32(7).bytes(&[2, 0, 0, 0]),
            "0 or 1, not 2",
        ),
        (
            "array of arrays",
            Raw::header(3, 0, 1).text("a").u32(9).u32(9).u64(1).u32(4).u64(0),
            "array of arrays",
        ),
        (
            "long array",
            Raw::header(3, 0, 1).text("a").u32(9).u32(12).u64(1 << 61).u64(0),
            "'a'",
        ),
        (
            "long array of texts",
            Raw::header(3, 0, 1).text("a").u32(9).u32(8).u64(1 << 40).u64(0),
            "'a'",
        ),
        (
            "alignment 0",
            Raw::header(3, 0, 1).key("general.alignment", 0),
            "power of two",
        ),
        (
            "alignment 48",
            Raw::header(3, 0, 1).key("general.alignment", 48),
            "power of two",
        ),
        (
            "alignment a text",
            Raw::header(3, 0, 1).text("general.alignment").u32(8).text("32"),
            "should be a whole number",
        ),
        ("no name", one("", &[4], 0, 0), "0 bytes"),
        ("no dimensions", one("t", &[], 0, 0), "0 dimensions"),
        ("five dimensions", one("t", &[1; 5], 0, 0), "5 dimensions"),
        (
            "dimensions overflow",
            one("t", &[1 << 32, 1 << 32], 0, 0),
            "more elements",
        ),
        ("bytes overflow", one("t", &[u64::MAX / 2], 28, 0), "more elements"),
        ("too long", one("t", &[17], 0, 0), "beyond the end"),
        ("far away", one("t", &[4], 0, u64::MAX - 31), "beyond the end"),
        ("misaligned", one("t", &[4], 0, 16), "no multiple of the alignment"),
        ("half a block", one("t", &[48], 2, 0), "no multiple of the 32"),
        (
            "half a super-block",
            one("t", &[128, 2], 12, 0),
            "no multiple of the 256",
        ),
        ("unknown type", one("t", &[4], 99, 0), "type id 99 is unknown"),
        ("removed type", one("t", &[32], 31, 0), "Q4_0_4_4 (id 31) was removed"),
        (
            "tensor twice",
            Raw::header(3, 2, 0)
                .tensor("t", &[4], 0, 0)
                .tensor("t", &[4], 0, 32)
                .data(64),
            "'t' is invalid: it is there twice",
        ),
        (
            "overlap",
            Raw::header(3, 2, 0)
                .tensor("a", &[12], 0, 0)
                .tensor("b", &[4], 0, 32)
                .data(64),
            "overlaps that of 'a'",
        ),
        (
            "part of many",
            Raw::header(3, 0, 2).key("split.no", 3).key("split.count", 2),
            "no part 3 of 2",
        ),
    ];
    for (name, raw, expected) in cases {
        let said = match Gguf::from_bytes(raw.0) {
            Ok(_) => panic!("{name}: was accepted"),
            Err(error) => error.to_string(),
        };
        assert!(said.contains(expected), "{name}: {said}");
        assert!(
            said.starts_with("GGUF in memory: ") && said.ends_with('.'),
            "{name}: {said}"
        );
    }
}

#[test]
fn what_is_not_a_file() {
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
    let said = Gguf::open(&empty).unwrap_err().to_string();
    assert!(said.contains("empty.gguf") && said.contains("GGUF"), "{said}");
}

/// A small file with a bit of everything, vocabulary and template included.
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

/// Uses all of a file that was accepted, as which it says; what it says must hold together.
fn use_all(bytes: Vec<u8>) -> Accepted {
    let Ok(gguf) = Gguf::from_bytes(bytes) else {
        return Accepted::Not;
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

/// How far a file was accepted.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Accepted {
    Not,
    AsFile,
    WithTokenizer,
}

/// What the tests below do to a file ends on every side: else they would prove nothing.
#[test]
fn single_flipped_bits_lead_to_every_end() {
    assert_eq!(use_all(sample()), Accepted::WithTokenizer);
    let mut ends = [0; 3];
    for at in 0..sample().len() {
        let mut bytes = sample();
        bytes[at] ^= 1;
        ends[use_all(bytes) as usize] += 1;
    }
    assert!(ends.iter().all(|count| *count > 20), "{ends:?}");
}

/// One thing done to a file.
#[derive(Debug, Clone)]
enum Damage {
    Truncate(prop::sample::Index),
    Flip(prop::sample::Index, u8),
    /// Eight bytes become a number that is dangerous as a count, a length or an offset.
    Splice(prop::sample::Index, u64),
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
        (any::<prop::sample::Index>(), 0u8..8).prop_map(|(place, bit)| Damage::Flip(place, bit)),
        (any::<prop::sample::Index>(), dangerous).prop_map(|(place, number)| Damage::Splice(place, number)),
        (any::<prop::sample::Index>(), 1usize..20).prop_map(|(place, len)| Damage::Remove(place, len)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_refused_or_whole(damages in prop::collection::vec(damage(), 1..4)) {
        let mut bytes = sample();
        for damage in damages {
            if bytes.is_empty() {
                break;
            }
            match damage {
                Damage::Truncate(len) => bytes.truncate(len.index(bytes.len())),
                Damage::Flip(place, bit) => {
                    let place = place.index(bytes.len());
                    bytes[place] ^= 1 << bit;
                }
                Damage::Splice(place, number) => {
                    let place = place.index(bytes.len());
                    for (byte, new) in bytes[place..].iter_mut().zip(number.to_le_bytes()) {
                        *byte = new;
                    }
                }
                Damage::Remove(place, len) => {
                    let place = place.index(bytes.len());
                    bytes.drain(place..(place + len).min(bytes.len()));
                }
            }
        }
        use_all(bytes);
    }

    #[test]
    fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = b"GGUF\x03\x00\x00\x00".to_vec();
        bytes.extend(&noise);
        // A file that says it holds nothing is one.
        let holds_nothing = noise.starts_with(&[0; 16]);
        prop_assert_eq!(use_all(bytes) != Accepted::Not, holds_nothing);
    }
}
