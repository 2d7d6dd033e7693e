//! Quoted markers in a conversation, with a template that splits text at them and a vocabulary that
//! has them as a user-defined token.

use crate::fixtures::{open, vocabulary};
use hearth_formats::chat_template::{Chat, ChatTemplate, GenerationPrompt, Message, Role, TurnPiece, encode_turn};

const MARKER: &str = "<think>";
const BPE: [&str; 7] = ["gpt-2", "qwen2", "qwen35", "llama-bpe", "smollm", "default", "gemma4"];

#[test]
fn quoted_letters_are_neither_split_at_nor_a_token() {
    let message = |role, content: &str| Message {
        role,
        content: content.to_owned(),
    };
    let splitting = ChatTemplate::parse("{{ messages[0].content.split('<think>')[-1] }}", "", "").expect("a template");
    let wrapping = ChatTemplate::parse("<think>{{ messages[0].content }}<think>", "", "").expect("a template");
    for name in BPE {
        let (_, tokenizer) = open(&vocabulary(name));
        let is_marker = |id: &u32| tokenizer.token_text(*id) == Some(MARKER);
        let encoded = |template: &ChatTemplate, role, text: &str, letters: &[&str]| {
            let chat = Chat::from(&[message(role, text)][..]).with_quoted(letters);
            let ids = template
                .encode_chat(&tokenizer, &chat, GenerationPrompt::Add)
                .expect("tokens");
            let ids: Vec<u32> = ids.into_iter().filter(|id| Some(*id) != tokenizer.bos()).collect();
            (ids.iter().filter(|id| is_marker(id)).count(), tokenizer.decode(&ids))
        };
        for text in ["a<think>b", "<think>", "<<think>>", "<think><think>", "<thi"] {
            for role in [Role::User, Role::Assistant] {
                let quoted = encoded(&splitting, role, text, &["", MARKER]);
                assert_eq!(quoted, (0, text.to_owned()), "{name}: {text:?}");
                // The markers that the template itself writes are tokens.
                let quoted = encoded(&wrapping, role, text, &[MARKER]);
                assert_eq!(quoted, (2, format!("<think>{text}<think>")), "{name}: {text:?}");
            }
            let plain = encoded(&wrapping, Role::Assistant, text, &[]);
            assert_eq!(plain.0, 2 + text.matches(MARKER).count(), "{name}: {text:?}");
            assert_eq!(plain.1, format!("<think>{text}<think>"), "{name}: {text:?}");
        }
        let pieces = [TurnPiece::Form("<think>\n"), TurnPiece::Text("a <think> b")];
        let ids = encode_turn(&tokenizer, &pieces, &[MARKER.to_owned()]);
        assert_eq!(tokenizer.decode(&ids), "<think>\na <think> b", "{name}");
        assert_eq!(ids.iter().filter(|id| is_marker(id)).count(), 1, "{name}");
    }
}
