//! Arbitrary bytes as a GGUF file: its header, all tensors, the tokenizer and the chat template.

use crate::seeds::{self, Seed};
use hearth_formats::chat_template::ChatTemplate;
use hearth_formats::gguf::{Gguf, GgufHeader, TensorType};
use hearth_formats::tokenizer::{Special, Tokenizer};

pub fn run(bytes: &[u8]) -> bool {
    // A file that is truncated while it is read.
    drop(GgufHeader::from_reader(bytes, u64::MAX));
    let Ok(gguf) = Gguf::from_bytes(bytes.to_vec()) else {
        return false;
    };
    for info in gguf.tensors() {
        let tensor = gguf.tensor(&info.name).expect("a tensor of the table");
        assert_eq!(tensor.bytes().len(), info.byte_len);
    }
    if let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) {
        let ids = tokenizer.encode("Any text: 12 <|im_end|>\n", Special::Text);
        let is_text = |id: u32| (id as usize) < tokenizer.vocab_size() && !tokenizer.is_end_of_generation(id);
        assert!(ids.iter().all(|&id| is_text(id)));
        tokenizer.decode(&ids);
    }
    let _ = ChatTemplate::from_gguf(&gguf);
    true
}

pub fn seeds() -> Vec<Seed> {
    let mut inputs = seeds::files("tests/fixtures/tokenizer", ".gguf");
    inputs.push(Seed::new("tiny", seeds::model("llama", TensorType::Q4_0)));
    inputs
}
