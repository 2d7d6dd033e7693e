//! Any bytes as a file: refused, or whole. Start from the fixtures: `cargo +nightly fuzz run gguf tests/fixtures/tokenizer`.
#![no_main]

use hearth_formats::chat_template::ChatTemplate;
use hearth_formats::gguf::{Gguf, GgufHeader};
use hearth_formats::tokenizer::{Special, Tokenizer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // A file that the system said was longer, as one that is cut while it is read.
    let cut = GgufHeader::from_reader(bytes, u64::MAX);
    drop(cut);
    let Ok(gguf) = Gguf::from_bytes(bytes.to_vec()) else {
        return;
    };
    for info in gguf.tensors() {
        let tensor = gguf.tensor(&info.name).expect("a tensor of the table");
        assert_eq!(tensor.bytes().len(), info.byte_len);
    }
    if let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) {
        let ids = tokenizer.encode("Any text: 12 <|im_end|>\n", Special::Text);
        assert!(
            ids.iter()
                .all(|&id| (id as usize) < tokenizer.vocab_size() && !tokenizer.is_end_of_generation(id))
        );
        tokenizer.decode(&ids);
    }
    let _ = ChatTemplate::from_gguf(&gguf);
});
