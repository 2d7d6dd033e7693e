//! Any bytes, and any conversation.

use crate::masks::{KEEPING, example, learnt};
use crate::parquet_files::{PAIRS, written};
use crate::says;
use hearth_formats::chat_template::Role;
use hearth_formats::dataset::{Content, Dataset, ReadOptions, Report, ReportOptions, previews, render, render_all};
use parquet::basic::Compression;
use proptest::prelude::*;

/// Goes through everything that is done with a file before a run; the examples that a run would see.
fn through(bytes: &[u8], name: &str) -> usize {
    let mut seen = 0;
    for skip_broken in [false, true] {
        let options = ReadOptions {
            mapping: None,
            skip_broken,
        };
        let Ok(dataset) = Dataset::from_bytes(bytes.to_vec(), name, &options) else {
            continue;
        };
        assert!(!dataset.examples.is_empty() && (skip_broken || dataset.broken_total == 0));
        let model = &KEEPING[0];
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
            seen += 1;
            assert!(
                rendered
                    .chunks(report.sequence)
                    .iter()
                    .all(|chunk| chunk.ids.len() <= report.sequence as usize)
            );
        }
    }
    seen
}

/// Undamaged, each goes all the way under some name: else the tests below would prove nothing.
#[test]
fn whole_files_are_examples() {
    for (at, file) in files().iter().enumerate() {
        let seen = NAMES.map(|name| through(file, name));
        assert!(seen.iter().any(|seen| *seen > 0), "file {at}: {seen:?}");
    }
}

/// Files as people have them.
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
    fn any_bytes_are_examples_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), name in prop::sample::select(&NAMES[..])) {
        through(&bytes, name);
    }

    #[test]
    fn so_is_any_text(text in "[\\[\\]{}\":,;\\\\a-c\n\t é]{0,60}", name in prop::sample::select(&NAMES[..])) {
        through(text.as_bytes(), name);
    }

    #[test]
    fn so_is_any_damaged_file(
        file in prop::sample::select(files()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(), cut in any::<bool>(), name in prop::sample::select(&NAMES[..]),
    ) {
        let mut bytes = file;
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        through(&bytes, name);
    }

    /// Whatever is said, the learnt tokens are the answers, each with one token that ends it.
    #[test]
    fn what_is_learnt_is_what_the_model_says(turns in prop::collection::vec("([a-c<|>\n .é👩]|<\\|im_end\\|>|</s>|\\[/INST\\]){0,12}", 2..7)) {
        let messages: Vec<_> = turns.iter().enumerate()
            .map(|(place, text)| says(if place % 2 == 0 { Role::User } else { Role::Assistant }, text)).collect();
        for (model, end) in KEEPING.iter().zip(["<|im_end|>", "<end_of_turn>", "</s>", "<|im_end|>"]) {
            let rendered = render(&example(Content::Chat(messages.clone())), &model.tokenizer, &model.template, false).unwrap();
            let plain = |text: &str| text.replace("<think>\n\n</think>", "").trim().to_owned();
            let said: Vec<String> = learnt(&rendered, &model.tokenizer).iter().map(|run| plain(run.strip_suffix(end).unwrap())).collect();
            let answers: Vec<String> = messages.iter().filter(|m| m.role == Role::Assistant).map(|m| plain(&m.content)).collect();
            if rendered.last_answer_only {
                prop_assert_eq!(&said[..], &answers[answers.len() - 1..]);
            } else {
                prop_assert_eq!(said, answers);
            }
        }
    }
}
