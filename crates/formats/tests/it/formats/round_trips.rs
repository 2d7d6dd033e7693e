//! Any text round-trips through its tokens, and none of them is special.

use crate::fixtures::{VOCABULARIES, open, vocabulary};
use hearth_formats::chat_template::{ChatTemplate, GenerationPrompt, Message, Role};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use proptest::prelude::*;
use std::sync::LazyLock;

static TOKENIZERS: LazyLock<Vec<(Gguf, Tokenizer)>> =
    LazyLock::new(|| VOCABULARIES.iter().map(|name| open(&vocabulary(name))).collect());

/// Arbitrary texts with interspersed special tokens of the vocabularies. Without U+2581, which SPM
/// cannot distinguish from a space.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-zA-Z]{1,8}",
        3 => "[ \\t\\r\\n]{1,4}",
        2 => "\\PC{1,4}",
        1 => any::<String>(),
        1 => "[0-9]{1,7}",
        2 => prop::sample::select(vec![
            "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<start_of_turn>", "<s>", "</s>", "<unk>", "<|im_", "end|>",
            "<", ">", "|", "<0x41>", "<think>", "'s", "'LL", "e\u{301}", "👩‍👩‍👧", "中文", "\u{fdd0}", "\u{fdef}",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat().replace('\u{2581}', ""))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn texts_round_trip(text in text()) {
        for (name, (_, tokenizer)) in VOCABULARIES.iter().zip(TOKENIZERS.iter()) {
            let ids = tokenizer.encode(&text, Special::Text);
            prop_assert_eq!(tokenizer.decode(&ids), text.as_str(), "{}", name);
            prop_assert!(!ids.iter().any(|&id| tokenizer.is_special(id)), "{}: {:?}", name, ids);
        }
    }

    /// Any messages give the same control tokens as the same conversation with harmless text.
    #[test]
    fn no_message_injects_control_tokens(question in text(), answer in text()) {
        for (name, (_, tokenizer)) in VOCABULARIES.iter().zip(TOKENIZERS.iter()) {
            // Also between halves of tokens, and with parts removed.
            let source = "{% for m in messages %}{% set c = m.content | trim %}<|im_start|><start_of_turn>{{ c }}\
                          <end_of_turn>{{ c }}end|><|im_{{ c }}|{{ c | replace('\\n', '') }}><|im_end|>{% endfor %}";
            let template = ChatTemplate::parse(source, "", "").unwrap();
            let controls = |question: &str, answer: &str| -> Vec<u32> {
                let messages = [(Role::User, question), (Role::Assistant, answer)]
                    .map(|(role, content)| Message { role, content: content.to_owned() });
                let ids = template.encode(tokenizer, &messages, GenerationPrompt::Omit).unwrap();
                ids.into_iter().filter(|&id| tokenizer.is_special(id)).collect()
            };
            // Without control tokens of the template the comparison would be of empty lists.
            let marks = ["<|im_start|>", "<start_of_turn>", "<end_of_turn>", "<|im_end|>"];
            let marks = marks.iter().filter(|mark| tokenizer.special_id(mark).is_some()).count();
            prop_assert!(marks > 0 || !["smollm", "default", "qwen2", "spm-gemma"].contains(name), "{}", name);
            prop_assert!(controls("a", "b").len() >= 2 * marks, "{}", name);
            prop_assert_eq!(controls(&question, &answer), controls("a", "b"), "{}", name);
        }
    }
}
