//! Property tests: arbitrary bytes and conversations.

use crate::dataset::masks::{MODELS, example, targets};
use crate::dataset::parquet_files::{PAIRS, written};
use crate::dataset::says;
use hearth_formats::chat_template::Role;
use hearth_formats::dataset::{Content, Dataset, ReadOptions, Report, ReportOptions, previews, render, render_all};
use parquet::basic::Compression;
use proptest::prelude::*;

/// Reads, tokenizes and previews a dataset. Returns the number of tokenized examples.
fn prepare(bytes: &[u8], name: &str) -> usize {
    let mut tokenized = 0;
    for skip_broken in [false, true] {
        let options = ReadOptions {
            mapping: None,
            skip_broken,
        };
        let Ok(dataset) = Dataset::from_bytes(bytes.to_vec(), name, &options) else {
            continue;
        };
        assert!(!dataset.examples.is_empty() && (skip_broken || dataset.broken_total == 0));
        let model = &MODELS[0];
        let rendered = render_all(
            &dataset.examples,
            &model.tokenizer,
            &model.template,
            false,
            1,
            &mut |_| true,
        )
        .unwrap();
        let report = Report::new(
            &dataset,
            &rendered,
            ReportOptions {
                sequence: None,
                context: 64,
            },
        );
        previews(
            &dataset.examples,
            &rendered,
            &model.tokenizer,
            &model.template,
            report.sequence,
            3,
        );
        for rendered in rendered.into_iter().flatten() {
            tokenized += 1;
            assert!(
                rendered
                    .chunks(report.sequence)
                    .iter()
                    .all(|chunk| chunk.ids.len() <= report.sequence as usize)
            );
        }
    }
    tokenized
}

/// Each intact file is accepted under some name; otherwise the tests below would prove nothing.
#[test]
fn intact_files_are_accepted() {
    for (number, file) in files().iter().enumerate() {
        let counts = NAMES.map(|name| prepare(file, name));
        assert!(counts.iter().any(|count| *count > 0), "file {number}: {counts:?}");
    }
}

/// Typical files.
fn files() -> Vec<Vec<u8>> {
    let turns = br#"[{"role":"user","content":"a"},{"from":"gpt","value":"b\u00e9"}]"#;
    vec![
        [br#"{"messages":"#, &turns[..], b"}\n{\"messages\":", turns, b"}\n"].concat(),
        [br#"{"data":[{"conversations":"#, &turns[..], br#"},{"conversations":"#, turns, b"}]}"].concat(),
        b"[{\"instruction\":\"a\",\"input\":2.5,\"output\":null,\"history\":[[\"a\",\"b\"]]},{\"instruction\":\"b\",\"output\":true}]".to_vec(),
        b"prompt;answer\n\"a;\n\"\"b\"\"\";c\nd;caf\xc3\xa9\n".to_vec(),
        b"# A title\r\n\r\nand words \xf0\x9f\x9c\xb2\n".to_vec(),
        written(PAIRS, Compression::SNAPPY, &[(&["a", "c"], &[], &[]), (&["b"], &[1, 0], &[])]),
    ]
}

const NAMES: [&str; 7] = ["x.jsonl", "x.json", "x.csv", "x.tsv", "x.txt", "x.md", "x"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        name in prop::sample::select(&NAMES[..]),
    ) {
        prepare(&bytes, name);
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "[\\[\\]{}\":,;\\\\a-c\n\t \
        é]{0,60}", name in prop::sample::select(&NAMES[..])) {
        prepare(text.as_bytes(), name);
    }

    #[test]
    fn corrupt_files_do_not_panic(
        file in prop::sample::select(files()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(), cut in any::<bool>(), name in prop::sample::select(&NAMES[..]),
    ) {
        let mut bytes = file;
        for (index, byte) in changes {
            let offset = index.index(bytes.len());
            bytes[offset] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        prepare(&bytes, name);
    }

    /// For any conversation the target tokens are the answers, each with its end-of-turn token.
    #[test]
    fn targets_are_exactly_the_answers(turns in prop::collection::vec("([a-c<|>\n \
        .é👩]|<\\|im_end\\|>|</s>|\\[/INST\\]){0,12}", 2..7)) {
        let messages: Vec<_> = turns.iter().enumerate()
            .map(|(index, text)| says(if index % 2 == 0 { Role::User } else { Role::Assistant }, text)).collect();
        for (model, end) in MODELS.iter().zip(["<|im_end|>", "<end_of_turn>", "</s>", "<|im_end|>"]) {
            let chat = example(Content::Chat(messages.clone()));
            let rendered = render(&chat, &model.tokenizer, &model.template, false).unwrap();
            let plain = |text: &str| text.replace("<think>\n\n</think>", "").trim().to_owned();
            let targets = targets(&rendered, &model.tokenizer);
            let actual: Vec<String> = targets.iter().map(|run| plain(run.strip_suffix(end).unwrap())).collect();
            let answers = messages.iter().filter(|m| m.role == Role::Assistant);
            let answers: Vec<String> = answers.map(|m| plain(&m.content)).collect();
            if rendered.last_answer_only {
                prop_assert_eq!(&actual[..], &answers[answers.len() - 1..]);
            } else {
                prop_assert_eq!(actual, answers);
            }
        }
    }
}
