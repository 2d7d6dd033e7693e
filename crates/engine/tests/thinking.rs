//! Answers of a model whose chat template begins a thought, over the worker's real protocol.

mod common;

use common::*;
use hearth_formats::gguf::{Gguf, GgufWriter, TensorHeader};
use hearth_protocol::{Event, Prompt, Role, TextKind};
use std::fs::File;
use std::path::Path;

/// The fixture `llama` with a chat template.
fn write_model(path: &Path, template: &str) {
    let gguf = Gguf::open(model()).expect("the fixture opens");
    let header = |info: &hearth_formats::gguf::TensorInfo| TensorHeader {
        name: info.name.clone(),
        shape: info.shape.clone(),
        kind: info.kind,
    };
    let headers: Vec<_> = gguf.tensors().map(header).collect();
    let mut metadata = gguf.metadata().clone();
    metadata.insert("tokenizer.chat_template", template);
    let file = File::create(path).expect("a file");
    let mut writer = GgufWriter::begin(file, &metadata, &headers).expect("a header");
    for header in &headers {
        let bytes = gguf.tensor(&header.name).expect("it is there").bytes().to_vec();
        writer.tensor(&bytes).expect("it is written");
    }
    writer.finish().expect("it is whole");
}

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
