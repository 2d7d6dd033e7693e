//! Answers of a model whose chat template begins a thought, over the worker's real protocol.

use crate::common::*;
use hearth_protocol::{Event, Prompt, Role, TextKind};

/// The kinds of an answer's texts, without repetitions.
fn kinds(events: &[Event]) -> Vec<TextKind> {
    let mut kinds: Vec<TextKind> = events
        .iter()
        .filter_map(|event| match event {
            Event::Text { kind, .. } => Some(*kind),
            _ => None,
        })
        .collect();
    kinds.dedup();
    kinds
}

#[test]
fn a_thought_that_the_template_begins_is_told_from_the_answer() {
    const BODY: &str = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("thinks.gguf");
    for (opening, kind) in [("\n<think>\n", TextKind::Thinking), ("", TextKind::Text)] {
        write_model(
            &path,
            &format!("{BODY}{{% if add_generation_prompt %}}{opening}{{% endif %}}"),
        );
        let mut worker = Worker::with(path.clone(), 100);
        let chat = Prompt::Chat(vec![message(Role::User, "Once upon a time")]);
        let thought = worker.answer(generate(chat, 12));
        assert_eq!(kinds(&thought), [kind], "{opening:?}");
        // The same prompt without a template is not split.
        let plain = worker.answer(generate(raw(&format!("Once upon a time{opening}")), 12));
        assert_eq!(kinds(&plain), [TextKind::Text]);
        assert_eq!((finished(&thought).tokens, finished(&plain).tokens), (12, 12));
        worker.close();
    }
}
