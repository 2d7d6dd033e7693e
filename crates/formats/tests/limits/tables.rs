//! JSON and CSV: many columns, large values, endless rows, and cancellation.

use crate::{MIB, memory, read, refused};
use hearth_formats::dataset::{Dataset, DatasetProblem, ExampleShape, ReadOptions};
use std::fmt::Write;

#[test]
fn an_object_of_many_keys_takes_linear_time() {
    let _alone = memory::alone();
    let mut object = String::from("{\"text\":\"a\"");
    for key in 0..99_000 {
        write!(object, ",\"key number {key:05}\":\"x\"").unwrap();
    }
    object.push('}');
    for (text, name) in [(object.clone(), "x.json"), (format!("{object}\n{object}\n"), "x.jsonl")] {
        let (dataset, _) = read(text.into_bytes(), name);
        let dataset = dataset.unwrap();
        assert_eq!((dataset.shape, dataset.columns.len()), (ExampleShape::Text, 99_001));
    }
}

#[test]
fn a_table_of_many_columns_takes_linear_time() {
    let _alone = memory::alone();
    let mut table = String::from("prompt,answer");
    for column in 0..20_000 {
        write!(table, ",c{column}").unwrap();
    }
    for row in 0..300 {
        write!(table, "\n{row},b{}", ",".repeat(20_000)).unwrap();
    }
    let (dataset, peak_bytes) = read(table.into_bytes(), "x.csv");
    let dataset = dataset.unwrap();
    assert_eq!((dataset.examples.len(), dataset.columns.len()), (300, 20_002));
    assert!(peak_bytes < 800 * MIB, "it took {} MiB", peak_bytes / MIB);
}

#[test]
fn too_many_columns_are_refused() {
    let _alone = memory::alone();
    let names: Vec<String> = (0..100_001).map(|column| column.to_string()).collect();
    let expected = "more than 100000 columns";
    refused(
        format!("{}\n", names.join(",")).into_bytes(),
        "x.csv",
        expected,
        200 * MIB,
    );
    let mut lines = String::new();
    for line in names.chunks(1000) {
        let fields: Vec<String> = line.iter().map(|name| format!("\"{name}\":1")).collect();
        writeln!(lines, "{{{}}}", fields.join(",")).unwrap();
    }
    refused(lines.into_bytes(), "x.jsonl", expected, 200 * MIB);
}

#[test]
fn a_long_column_name_is_not_copied_for_every_row() {
    let _alone = memory::alone();
    let table = format!("text,{}\n{}", "n".repeat(4 * MIB), "a,b\n".repeat(1000));
    let (dataset, peak_bytes) = read(table.into_bytes(), "x.csv");
    assert_eq!(dataset.unwrap().examples.len(), 1000);
    assert!(peak_bytes < 100 * MIB, "it took {} MiB", peak_bytes / MIB);
}

#[test]
fn values_much_larger_in_memory_than_as_text_are_refused() {
    let _alone = memory::alone();
    let expected = "TooMuchMemory { mib: 256 }";
    let empty_lists = format!("{{\"text\":\"a\",\"x\":[{}[]]}}\n", "[],".repeat(15 * MIB));
    refused(empty_lists.into_bytes(), "x.jsonl", expected, 600 * MIB);
    let objects = format!("{{\"text\":\"a\",\"x\":[{}{{}}]}}\n", "{\"\":0},".repeat(4 * MIB));
    refused(objects.clone().into_bytes(), "x.jsonl", expected, 600 * MIB);
    refused(
        format!("[{objects}]").into_bytes(),
        "x.json",
        "values that take too much memory",
        600 * MIB,
    );
    // A conversation as JSON in a table.
    let conversation = format!(
        "messages\n\"[{{\"\"role\"\":\"\"user\"\",\"\"content\"\":\"\"a\"\"}}{}]\"\n",
        ",{\"\"\"\":0}".repeat(4 * MIB)
    );
    refused(conversation.into_bytes(), "x.csv", expected, 600 * MIB);
}

#[test]
fn few_large_rows_are_buffered_for_detection() {
    let _alone = memory::alone();
    let line = format!("{{\"text\":\"a\",\"x\":[{}0]}}\n", "0,".repeat(MIB));
    let (dataset, peak_bytes) = read(line.repeat(60).into_bytes(), "x.jsonl");
    assert_eq!(dataset.unwrap().examples.len(), 60);
    assert!(peak_bytes < 800 * MIB, "it took {} MiB", peak_bytes / MIB);
}

#[test]
fn error_messages_stay_short() {
    let _alone = memory::alone();
    let role = "w".repeat(8 * MIB);
    let good = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}\n";
    let bad = format!("{{\"messages\":[{{\"role\":\"{role}\",\"content\":\"a\"}}]}}\n");
    let text = format!("{good}{}", bad.repeat(20));
    let (result, peak_bytes) = read(text.into_bytes(), "x.jsonl");
    let message = result.map(|_| ()).unwrap_err();
    assert!(
        message.len() < 600 && message.contains("UnknownRole { turn: 1, role: \"www"),
        "{}",
        message.len()
    );
    assert!(peak_bytes < 400 * MIB, "it took {} MiB", peak_bytes / MIB);
}

#[test]
fn an_unclosed_quote_is_reported_with_its_line() {
    let _alone = memory::alone();
    let text = format!("prompt,answer\na,b\nc,\"{}", "x\n".repeat(60 * MIB));
    refused(
        text.into_bytes(),
        "x.csv",
        "the row that begins at line 3 is longer than 64 MiB",
        400 * MIB,
    );
}

#[test]
fn an_endless_element_is_refused() {
    let _alone = memory::alone();
    let text = format!("[{{\"text\":\"{}", "x".repeat(120 * MIB));
    refused(text.into_bytes(), "x.json", "more than 64 MiB of text", 400 * MIB);
}

#[test]
fn a_document_takes_little_more_memory_than_its_text() {
    let _alone = memory::alone();
    let text = "A line that ends as on Windows.\r\n".repeat(3 * MIB);
    let length = text.len();
    let (dataset, peak_bytes) = read(text.into_bytes(), "x.txt");
    assert_eq!(dataset.unwrap().examples.len(), 1);
    assert!(
        peak_bytes < length + length / 4 + MIB,
        "it took {} MiB of {}",
        peak_bytes / MIB,
        length / MIB
    );
}

#[test]
fn reading_can_be_cancelled() {
    let _alone = memory::alone();
    let json = "{\"text\":\"a line\"}\n".repeat(MIB);
    let files = [
        (json.clone(), "x.jsonl"),
        (format!("[{}{{\"text\":\"b\"}}]", json.replace('\n', ",")), "x.json"),
        (format!("text,b\n{}", "a,b\n".repeat(MIB)), "x.csv"),
        ("a line\n".repeat(2 * MIB), "x.txt"),
    ];
    for (text, name) in files {
        let ((cancelled, calls), _) = memory::watched(move || {
            let mut calls = 0;
            let mut should_continue = || {
                calls += 1;
                calls < 3
            };
            let result =
                Dataset::from_bytes_cancellable(text.into_bytes(), name, &ReadOptions::default(), &mut should_continue);
            let cancelled = result.is_err_and(|error| matches!(error.problem, DatasetProblem::Cancelled));
            (cancelled, calls)
        });
        assert!(cancelled, "{name}");
        assert_eq!(calls, 3, "{name}");
    }
}
