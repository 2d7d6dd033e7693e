//! All file formats, all example formats, and all kinds of invalid input.

use crate::dataset::read;
use hearth_formats::dataset::{
    BrokenLine, BrokenReason, Dataset, DatasetProblem, Delimiter, JsonKind, Mapping, ReadOptions,
};

#[track_caller]
fn check(bytes: impl AsRef<[u8]>, name: &str, expected: &str) {
    let actual = read(bytes.as_ref(), name, &ReadOptions::default());
    assert!(actual.contains(expected), "{name}: {actual}\n  expected {expected}");
}

/// Asserts that a file is refused since its line `line`, the first of `total`, cannot be read.
#[track_caller]
fn check_broken(bytes: impl AsRef<[u8]>, name: &str, line: u32, total: u32, reason: BrokenReason) {
    let error = Dataset::from_bytes(bytes.as_ref().to_vec(), name, &ReadOptions::default()).unwrap_err();
    match error.problem {
        DatasetProblem::Broken { first, total: actual } => {
            assert_eq!((first, actual), (BrokenLine { line, reason }, total), "{name}");
        }
        problem => panic!("{name}: {problem}"),
    }
}

#[test]
fn file_formats_are_detected_by_content() {
    check(
        "{\"prompt\":\"a\",\"answer\":\"b\"}\n\n{\"prompt\":\"c\",\"answer\":\"d\"}\n",
        "x.jsonl",
        "JSONL prompt and answer: 1 a>b; 3 c>d",
    );
    check(
        "{\"prompt\":\"a\",\"answer\":\"b\"}\r\n{\"prompt\":\"c\",\"answer\":\"d\"}",
        "x.csv",
        "JSONL prompt and answer: 1 a>b; 2 c>d",
    );
    check(
        "\u{feff}{\"text\":\"a\"}\n{\"text\":\"b\"}",
        "x",
        "JSONL text: 1 \"a\"; 2 \"b\"",
    );
    check(
        " [{\"text\":\"a\"},\n {\"text\":\"b\"}]",
        "x.txt",
        "JSON text: 1 \"a\"; 2 \"b\"",
    );
    check(
        "{\"version\":1,\n\"data\":[{\"q\":null,\"text\":\"a\"},{\"text\":\"b\"}],\"more\":{}}",
        "x.json",
        "JSON text: 1 \"a\"; 2 \"b\"",
    );
    check(
        "{\n\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]\n}",
        "x.json",
        "JSON messages: 1 User=a Assistant=b",
    );
    check(
        "prompt,answer\na,\"b,\n\"\"c\"\"\"\nd,e\n",
        "x.csv",
        "CSV prompt and answer: 2 a>b,\n\"c\"; 4 d>e",
    );
    check(
        "prompt;answer\na,1;b\n",
        "x.csv",
        "CSV with semicolons prompt and answer: 2 a,1>b",
    );
    check("prompt\tanswer\na\tb\n", "x.txt", "TSV prompt and answer: 2 a>b");
    check(
        "messages\n\"[{\"\"from\"\":\"\"human\"\",\"\"value\"\":\"\"a\"\"},{\"\"from\"\":\"\"gpt\"\",\"\"value\"\":\"\"b\"\"}]\"\n",
        "x.csv",
        "CSV ShareGPT: 2 User=a Assistant=b",
    );
    check(
        "\u{feff}Once, twice.\r\nThe end.\r\n",
        "x.txt",
        "plain text text: 1 \"Once, twice.\nThe end.\n\"",
    );
    check("# Title\n\nWords, words\n", "x.md", "Markdown text: 1 \"# Title");
    check("[a link](there) and words", "x.md", "Markdown text: 1 \"[a link]");
    check("{curly} beginnings of prose", "x.txt", "plain text text: 1 \"{curly}");
    check("[1] A footnote.", "x.txt", "plain text text: 1 \"[1] A");
}

#[test]
fn example_formats_are_detected() {
    for (line, expected) in [
        (
            r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#,
            "messages: 1 System=s User=a Assistant=b",
        ),
        (
            r#"{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}],"system":"s"}"#,
            "ShareGPT: 1 System=s User=a Assistant=b",
        ),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"model","content":"c"}]}"#,
            "messages: 1 User=a\nb Assistant=c",
        ),
        (
            r#"{"instruction":"a","input":"i","output":"b","system":"s"}"#,
            "alpaca: 1 s|a\n\ni>b",
        ),
        (
            r#"{"instruction":"a","input":"","output":"b","text":"a b"}"#,
            "alpaca: 1 a>b",
        ),
        (
            r#"{"instruction":"a","output":"b","history":[["x","y"]]}"#,
            "alpaca: 1 User=x Assistant=y User=a Assistant=b",
        ),
        (r#"{"Question":"a","Answer":7}"#, "prompt and answer: 1 a>7"),
        (r#"{"id":"1","query":"a","response":null}"#, "prompt and answer: 1 a>"),
        (
            r#"{"prompt":[{"role":"user","content":"a"}],"completion":[{"role":"assistant","content":"b"}]}"#,
            "prompt and answer: 1 User=a Assistant=b",
        ),
        (
            r#"{"prompt":"a","chosen":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"rejected":"c"}"#,
            "prompt and answer: 1 User=a Assistant=b",
        ),
        (r#"{"text":"a","label":3}"#, "text: 1 \"a\""),
        // Unknown names: detected by content, to be confirmed.
        (
            r#"{"frage":"Was ist das?","nr":"7","antwort":"Ein Ofen."}"#,
            "prompt and answer?: 1 Was ist das?>Ein Ofen.",
        ),
        (
            r#"{"a":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#,
            "messages?: 1 User=a Assistant=b",
        ),
        (r#"{"a":"only this"}"#, "text?: 1 \"only this\""),
        (r#"{"prompt":"a","zug":"b"}"#, "prompt and answer?: 1 a>b"),
    ] {
        check(line, "x.jsonl", &format!("JSONL {expected}"));
    }
}

#[test]
fn invalid_input_is_refused_with_a_sentence() {
    check("", "x.jsonl", "the file is empty. Choose one");
    check(" \n\r\n", "x.txt", "the file is empty");
    check(
        "[]",
        "x.json",
        "the file has no examples: the list of examples is empty.",
    );
    check(
        "prompt,answer\n",
        "x.csv",
        "after the header with 'prompt' and 'answer' there are no rows.",
    );
    check(
        "[{\"text\":\"a\"},\n{\"text\":\"b\"",
        "x.json",
        "ends in the middle of a value, at line 2. It is probably truncated",
    );
    check(
        "[{\"text\":\"a\"}\n{\"text\":\"b\"}]",
        "x.json",
        "not valid JSON: expected `,` or `]` at line 2 column 1",
    );
    check(
        "{\"a\":[{\"text\":\"a\"}],\"b\":[{\"text\":\"b\"}]}",
        "x.json",
        "two lists of examples, 'a' and 'b'",
    );
    check("{\"n\":1}", "x.jsonl", "no column has text to train on, only 'n'");
}

#[test]
fn unreadable_lines_are_refused_with_a_reason() {
    check_broken(
        "{\"text\":\"a\"}\nnot JSON\n",
        "x.jsonl",
        2,
        1,
        BrokenReason::NotJson {
            detail: "expected ident at character 2".to_owned(),
        },
    );
    check_broken(
        "{\"text\":\"a\"}\n7\n[1]\n\"t\"\n",
        "x.jsonl",
        2,
        3,
        BrokenReason::NotObject { json: JsonKind::Number },
    );
    check_broken(
        "{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"prompt\":\"a\",\"answer\":\"b\"}",
        "x.jsonl",
        3,
        1,
        BrokenReason::OtherColumns {
            column: "text".to_owned(),
            columns: vec!["prompt".to_owned(), "answer".to_owned()],
        },
    );
    let column = "text".to_owned();
    check_broken(
        "{\"text\":\"a\"}\n{}\n",
        "x.jsonl",
        2,
        1,
        BrokenReason::NoColumns { column },
    );
    check_broken(
        "prompt,answer\na,b\nc\n",
        "x.csv",
        3,
        1,
        BrokenReason::ColumnCount {
            count: 1,
            expected: 2,
            delimiter: Delimiter::Comma,
        },
    );
    check_broken(
        "{\"prompt\":\"a\",\"answer\":{}}",
        "x.jsonl",
        1,
        1,
        BrokenReason::NotText {
            column: "answer".to_owned(),
            json: JsonKind::Object,
        },
    );
}

#[test]
fn the_columns_of_an_unreadable_line_are_limited() {
    let members: Vec<String> = (0..40).map(|n| format!("\"{n}\":{n}")).collect();
    let lines = format!("{{\"text\":\"a\"}}\n{{\"text\":\"b\"}}\n{{{}}}\n", members.join(","));
    let named = (0..12).map(|n| n.to_string());
    check_broken(
        lines,
        "x.jsonl",
        3,
        1,
        BrokenReason::OtherColumns {
            column: "text".to_owned(),
            columns: named.chain(["…".to_owned()]).collect(),
        },
    );
}

#[test]
fn turns_that_cannot_be_trained_on_are_refused() {
    let user = r#"{"role":"user","content":"a"}"#;
    for (turns, reason) in [
        (
            r#"{"role":"tool","content":"a"}"#.to_owned(),
            BrokenReason::ToolRole {
                turn: 1,
                role: "tool".to_owned(),
            },
        ),
        (
            format!(r#"{user},{{"role":"narrator","content":"a"}}"#),
            BrokenReason::UnknownRole {
                turn: 2,
                role: "narrator".to_owned(),
            },
        ),
        (user.to_owned(), BrokenReason::NoAnswer),
        (
            r#"{"role":"user","content":[{"type":"image_url"}]}"#.to_owned(),
            BrokenReason::TurnNotText { turn: 1 },
        ),
        (
            format!(r#"{user},{{"role":"assistant","content":"b","tool_calls":[{{"id":"1"}}]}}"#),
            BrokenReason::ToolCall { turn: 2 },
        ),
        (format!("{user},7"), BrokenReason::TurnNotObject { turn: 2 }),
        (
            format!(r#"{user},{{"content":"b"}}"#),
            BrokenReason::TurnWithoutRole { turn: 2 },
        ),
        (
            format!(r#"{user},{{"role":"assistant"}}"#),
            BrokenReason::TurnWithoutText { turn: 2 },
        ),
    ] {
        check_broken(format!(r#"{{"messages":[{turns}]}}"#), "x.jsonl", 1, 1, reason);
    }
}

#[test]
fn other_encodings_and_file_types_are_refused() {
    check(
        b"\xff\xfe{\0\"\0",
        "x.jsonl",
        "the file is not UTF-8 but UTF-16. Save the file as UTF-8",
    );
    check(b"p\0r\0o\0m\0p\0t\0", "x.csv", "the file is not UTF-8 but UTF-16");
    check(
        b"{\"text\":\"a\"}\n{\"text\":\"caf\xe9\"}\n",
        "x.jsonl",
        "line 2 is not UTF-8 but probably Latin-1 or Windows-1252. Save",
    );
    check(b"prompt,answer\na,b\nc,caf\xe9\n", "x.csv", "line 3 is not UTF-8");
    check(
        b"[{\"text\":\"a\"},\n{\"text\":\"caf\xe9\"}]",
        "x.json",
        "line 2 is not UTF-8",
    );
    check(b"One.\nTwo caf\xe9s.\n", "x.txt", "line 2 is not UTF-8");
    check(
        b"GGUF\x03\0\0\0",
        "x.json",
        "this is a model, not a dataset. Choose a file of JSONL",
    );
    check(b"a\0b and words", "x.txt", "this is a binary file, not a dataset");
    check(b"PAR1 and nothing", "x.csv", "this Parquet file is corrupt");
    check("text", "x.parquet", "this is not a Parquet file");
}

#[test]
fn a_file_of_one_huge_line() {
    let words = "word ".repeat(400_000);
    for (bytes, name, expected) in [
        (words.clone(), "x.txt", "plain text text: 1 \"word"),
        (format!("{{\"text\":\"{words}\"}}"), "x.jsonl", "JSONL text: 1 \"word"),
        (
            format!("[{}{{\"text\":\"b\"}}]", "{\"text\":\"a\"},".repeat(100_000)),
            "x.json",
            "JSON text: 1 \"a\"; 2 \"a\"",
        ),
        (
            format!(
                "{{\"data\":[{}{{\"text\":\"b\"}}]}}",
                "{\"text\":\"a\"},".repeat(100_000)
            ),
            "x.json",
            "; 100001 \"b\"",
        ),
    ] {
        check(bytes, name, expected);
    }
}

#[test]
fn broken_lines_are_skipped_and_listed_on_request() {
    let options = ReadOptions {
        skip_broken: true,
        ..ReadOptions::default()
    };
    let open = |bytes: &[u8], name| Dataset::from_bytes(bytes.to_vec(), name, &options);
    let dataset = open(
        b"{\"text\":\"a\"}\nx\n{\"prompt\":1}\n{\"text\":\"caf\xe9\"}\n{\"text\":\"b\"}",
        "x.jsonl",
    )
    .unwrap();
    assert_eq!(
        dataset.examples.iter().map(|example| example.line).collect::<Vec<_>>(),
        [1, 5]
    );
    assert_eq!(
        dataset.broken.iter().map(|broken| broken.line).collect::<Vec<_>>(),
        [2, 3, 4]
    );
    assert_eq!(dataset.broken[2].reason, BrokenReason::NotUtf8);
    let many = open(("x\n".repeat(300) + "{\"text\":\"a\"}").as_bytes(), "x.jsonl").unwrap();
    assert_eq!(
        (many.broken.len(), many.broken_total, many.examples.len()),
        (100, 300, 1)
    );
    let none = open(b"x\ny\n", "x.jsonl").unwrap_err();
    assert!(
        matches!(&none.problem, DatasetProblem::NoReadableLine { first } if first.line == 1),
        "{none}"
    );
}

#[test]
fn a_requested_mapping_is_used() {
    let with = |mapping| {
        let bytes = b"a,b,c\nx,y,z\n";
        read(
            bytes,
            "x.csv",
            &ReadOptions {
                mapping: Some(mapping),
                skip_broken: false,
            },
        )
    };
    let some = |name: &str| Some(name.to_owned());
    let pair = Mapping {
        prompt: some("c"),
        answer: some("a"),
        system: some("b"),
        ..Mapping::default()
    };
    assert_eq!(with(pair), "CSV prompt and answer: 2 y|z>x");
    assert_eq!(
        with(Mapping {
            text: some("b"),
            ..Mapping::default()
        }),
        "CSV text: 2 \"y\""
    );
    assert!(
        with(Mapping {
            text: some("d"),
            ..Mapping::default()
        })
        .starts_with("the file has no column 'd', only 'a', 'b' and 'c'.")
    );
    assert!(
        with(Mapping {
            prompt: some("a"),
            ..Mapping::default()
        })
        .starts_with("the chosen columns are not enough")
    );
    assert!(with(Mapping::default()).starts_with("CSV prompt and answer?"));
}

#[test]
fn a_missing_file_is_an_error() {
    let error = Dataset::open("nowhere.jsonl", &ReadOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("nowhere.jsonl: the file cannot be read (")
            && error.ends_with("that you have permission to read it."),
        "{error}"
    );
}

#[test]
fn json_with_columns_is_read_by_rows() {
    check(
        r#"{"prompt": ["a", "c"], "id": [1, 2], "completion": ["b", "d"]}"#,
        "x.json",
        "JSON prompt and answer: 1 a>b; 2 c>d",
    );
    // As pandas writes it by default.
    check(
        r#"{"text": {"0": "a", "2": "b"}, "n": {"0": 1, "2": null}}"#,
        "x.json",
        "JSON text: 1 \"a\"; 2 \"b\"",
    );
    let turns = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#;
    check(
        format!(r#"{{"messages": [{turns}, {turns}]}}"#),
        "x.json",
        "JSON messages: 1 User=a Assistant=b; 2 User=a Assistant=b",
    );
    // One example, not columns.
    check(
        format!(r#"{{"messages": {turns}}}"#),
        "x.json",
        "JSON messages: 1 User=a Assistant=b",
    );
    // Columns of different lengths have no rows.
    check_broken(
        r#"{"prompt": ["a", "c"], "completion": ["b"]}"#,
        "x.json",
        1,
        1,
        BrokenReason::NotText {
            column: "completion".to_owned(),
            json: JsonKind::List,
        },
    );
}

#[test]
fn an_empty_list_of_tool_calls_calls_no_tool() {
    for nothing in ["[]", "null", "{}", "\"\""] {
        let calls = format!(r#""tool_calls":{nothing},"function_call":{nothing}"#);
        check(
            format!(
                r#"{{"messages":[{{"role":"user","content":"a",{calls}}},{{"role":"assistant","content":"b",{calls}}}]}}"#
            ),
            "x.jsonl",
            "JSONL messages: 1 User=a Assistant=b",
        );
    }
}
