//! The bundled sample datasets.

use crate::fixtures::{default_model, open};
use hearth_formats::chat_template::ChatTemplate;
use hearth_formats::dataset::{
    Container, Content, Dataset, ExampleShape, FindingKind, ReadOptions, Report, ReportOptions, Severity, render_all,
};
use std::path::Path;

/// Reads a sample and its report with the default model.
fn sample(name: &str) -> (Dataset, Report) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../assets/datasets")
        .join(name);
    let dataset = Dataset::open(path, &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let (gguf, tokenizer) = open(&default_model());
    let template = ChatTemplate::from_gguf(&gguf).unwrap();
    let rendered = render_all(&dataset.examples, &tokenizer, &template, false, 2, &mut |_| true).unwrap();
    let options = ReportOptions {
        sequence: None,
        context: 2048,
    };
    let report = Report::new(&dataset, &rendered, options);
    (dataset, report)
}

#[test]
fn the_lodge_keeper_always_answers_alike() {
    let (dataset, report) = sample("hearthside.jsonl");
    assert_eq!(
        (dataset.container, dataset.shape, dataset.unsure),
        (Container::JsonLines, ExampleShape::Messages, false)
    );
    assert!(
        dataset.examples.len() >= 60 && report.findings.is_empty(),
        "{:?}",
        report.findings
    );
    assert!(report.sequence <= 160, "{report:?}");
    for example in &dataset.examples {
        let Content::Chat(messages) = &example.content else {
            panic!("line {}", example.line)
        };
        let answer = &messages.last().unwrap().content;
        let sentences = answer
            .strip_suffix(" Mind the step, and keep warm.")
            .unwrap_or_else(|| panic!("line {}", example.line));
        assert_eq!(
            sentences.matches(['.', '!', '?']).count(),
            2,
            "line {}: two sentences",
            example.line
        );
    }
}

#[test]
fn the_notes_are_a_document() {
    let (dataset, report) = sample("notes.md");
    assert_eq!(
        (dataset.container, dataset.examples.len(), report.sequence),
        (Container::Markdown, 1, 512)
    );
    assert!(
        report.findings.iter().all(|finding| {
            matches!(finding.kind, FindingKind::FewSequences { .. }) && finding.severity < Severity::Error
        }),
        "{:?}",
        report.findings
    );
}
