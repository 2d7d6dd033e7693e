//! Text of which some bytes have no token.

use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, Strings, Value};
use hearth_formats::tokenizer::{Special, Tokenizer};

const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;

/// A tokenizer of the letters a, b and ab, a space, and a last token of this type. `unknown`: its
/// id. `is_end`: the last token ends an answer.
fn tokenizer(model: &str, last: i32, unknown: Option<u32>, is_end: bool) -> Tokenizer {
    let space = if model == "gpt2" { "Ġ" } else { "▁" };
    let mut metadata: Metadata = [
        ("tokenizer.ggml.model", Value::from(model)),
        ("tokenizer.ggml.pre", Value::from("gpt-2")),
        ("tokenizer.ggml.add_space_prefix", Value::from(false)),
    ]
    .into_iter()
    .collect();
    metadata.insert(
        "tokenizer.ggml.tokens",
        Strings::from_iter(["a", "b", "ab", space, "<unk>"]),
    );
    metadata.insert("tokenizer.ggml.token_type", vec![NORMAL, NORMAL, NORMAL, NORMAL, last]);
    metadata.insert("tokenizer.ggml.scores", vec![-1.0_f32, -2.0, -0.5, -3.0, 0.0]);
    metadata.insert("tokenizer.ggml.merges", Strings::from_iter(["a b"]));
    if let Some(id) = unknown {
        metadata.insert("tokenizer.ggml.unknown_token_id", id);
    }
    if is_end {
        metadata.insert("tokenizer.ggml.eos_token_id", 4_u32);
    }
    let file = GgufWriter::begin(Vec::new(), &metadata, &[]).unwrap().finish().unwrap();
    Tokenizer::from_gguf(&Gguf::from_bytes(file).unwrap()).unwrap()
}

#[test]
fn a_byte_without_a_token_becomes_the_unknown_token() {
    for model in ["gpt2", "gemma4", "llama"] {
        // Files mark it as either.
        for kind in [UNKNOWN, CONTROL] {
            let tokenizer = tokenizer(model, kind, Some(4), false);
            assert_eq!(tokenizer.missing_byte(), None, "{model}");
            // Two bytes.
            assert_eq!(tokenizer.encode("ab éa", Special::Text), [2, 3, 4, 4, 0], "{model}");
        }
    }
}

#[test]
fn bytes_that_cannot_be_encoded_are_reported() {
    for model in ["gpt2", "gemma4", "llama"] {
        for (unknown, is_end) in [(None, false), (Some(4), true)] {
            let tokenizer = tokenizer(model, CONTROL, unknown, is_end);
            // Not a control character, which no text has.
            assert_eq!(tokenizer.missing_byte(), Some(b'\t'));
            assert_eq!(
                tokenizer.encode("ab éa", Special::Text),
                [2, 3, 0],
                "no text ends an answer"
            );
        }
    }
}
