//! Hostile files that would exhaust memory, time or the stack: `hearth` works, or exits with code 1
//! and one sentence. It has limits of 20 seconds of CPU time and 3 GiB of memory; exceeding them
//! kills it by a signal, which fails the test.

#[path = "../../../crates/formats/tests/limits/parquet_bytes.rs"]
#[allow(dead_code, reason = "shared with the tests of the readers, which use all of it")]
mod parquet_bytes;
#[path = "../../../crates/formats/tests/limits/raw.rs"]
mod raw;

use hearth_formats::gguf::{Gguf, GgufWriter, Metadata, Strings, TensorHeader};
use hearth_tests::hearth::{Ended, call};
use hearth_tests::paths::{executable, root};
use raw::Raw;
use serde_json::json;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const GIB: u64 = 1 << 30;

/// `hearth` with limits: seconds of CPU time, and KiB of data.
fn limited(arguments: &[&str]) -> Command {
    let script = format!("ulimit -t 20 && ulimit -d {} && exec \"$0\" \"$@\"", 3 * GIB / 1024);
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(executable("hearth")).args(arguments);
    command
}

fn hearth(arguments: &[&str]) -> Ended {
    call(&mut limited(arguments))
}

fn llama() -> PathBuf {
    root().join("tests/fixtures/models/llama.gguf")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// Asserts success, or exit code 1 and a sentence.
#[track_caller]
fn assert_success_or_error(ended: &Ended, name: &str) {
    if ended.code != Some(0) {
        assert!(ended.error_line().ends_with(['.', ')']), "{name}: {ended:?}");
    }
}

/// Headers, and the lengths of their sparse files.
fn headers() -> Vec<(&'static str, Raw, u64)> {
    let text_of = |len: u64| Raw::header(0, 1).text("a").u32(8).u64(len);
    vec![
        ("array", Raw::header(0, 1).array("a", 0, 256 * GIB), 257 * GIB),
        ("texts", Raw::header(0, 1).array("a", 8, 1 << 34), 257 * GIB),
        ("overflow", Raw::header(0, 1).array("a", 12, u64::MAX / 4), 257 * GIB),
        ("key", Raw::header(0, 1).u64(GIB), 2 * GIB),
        ("text", text_of(GIB), 2 * GIB),
        ("name", Raw::header(1, 0).u64(GIB), 2 * GIB),
        ("tensors", Raw::header(1 << 60, 0), 2 * GIB),
        ("keys", Raw::header(0, 1 << 60), 2 * GIB),
        ("empty", Raw(Vec::new()), 0),
    ]
}

/// A folder with a file for each header, and a model truncated in its header.
fn models() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, header, len) in headers() {
        let path = folder.path().join(format!("{name}.gguf"));
        fs::write(&path, header.0).expect("it is written");
        let file = File::options().write(true).open(&path).expect("it is there");
        file.set_len(len).expect("the file system has sparse files");
    }
    let whole = fs::read(llama()).expect("a fixture");
    fs::write(folder.path().join("cut.gguf"), &whole[..whole.len() / 3]).expect("it is written");
    folder
}

#[test]
fn headers_are_refused_in_a_sentence() {
    let folder = models();
    for entry in fs::read_dir(folder.path()).expect("a folder") {
        let path = entry.expect("an entry").path();
        for command in [
            &["plan", text(&path)][..],
            &["tokenize", text(&path), "words"],
            &["run", text(&path), "words", "-n", "1"],
            &["train", text(&path), text(&path), "--out", text(&path.join("out"))],
            &["run", text(&llama()), "words", "-n", "1", "--adapter", text(&path)],
        ] {
            let ended = hearth(command);
            let error = ended.error_line();
            assert!(error.ends_with('.') && error.len() < 1000, "{command:?}: {error}");
        }
    }
}

#[test]
fn models_that_cannot_be_read_are_listed_with_the_reason() {
    let folder = models();
    fs::copy(llama(), folder.path().join("whole.gguf")).expect("it is copied");
    let listed = call(limited(&["list"]).env("HEARTH_MODELS", folder.path()));
    assert_eq!(listed.code, Some(0), "{listed:?}");
    for entry in fs::read_dir(folder.path()).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("test names are UTF-8").trim_end_matches(".gguf");
        let mut lines = listed.stdout.lines();
        let names_model = |line: &&str| line.split_whitespace().next() == Some(name);
        let detail = lines
            .by_ref()
            .find(names_model)
            .and_then(|_| lines.next())
            .map(str::trim);
        let detail = detail.unwrap_or_else(|| panic!("{name} is not listed: {listed:?}"));
        let is_refused = detail.starts_with("unusable: ") && detail.ends_with('.');
        assert_eq!(is_refused, name != "whole", "{name}: {detail}");
    }
}

/// The fixture with another chat template.
fn with_template(folder: &Path, template: &str) -> PathBuf {
    with_metadata(folder, &|metadata| metadata.insert("tokenizer.chat_template", template))
}

/// The fixture with other metadata.
fn with_metadata(folder: &Path, change: &dyn Fn(&mut Metadata)) -> PathBuf {
    let model = Gguf::open(llama()).expect("a fixture");
    let mut metadata = model.metadata().clone();
    change(&mut metadata);
    let header = |info: &hearth_formats::gguf::TensorInfo| TensorHeader {
        name: info.name.clone(),
        shape: info.shape.clone(),
        kind: info.kind,
    };
    let headers: Vec<TensorHeader> = model.tensors().map(header).collect();
    let path = folder.join("model.gguf");
    let file = File::create(&path).expect("it is made");
    let mut out = GgufWriter::begin(file, &metadata, &headers).expect("it is written");
    for header in &headers {
        let tensor = model.tensor(&header.name).expect("it is there");
        out.tensor(tensor.bytes()).expect("it is written");
    }
    out.finish().expect("it is written");
    path
}

#[test]
fn templates_beyond_the_limits_are_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let doubled = "{% set ns = namespace(x=['a'], y='a') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}\
                   {% set ns.y = ns.y ~ ns.y %}{% endfor %}";
    for template in [
        "{{ []|slice(10**12)|list }}".to_owned(),
        "{{ '%1000000000000d'|format(1) }}".to_owned(),
        format!("{doubled}{{{{ ns.y }}}}"),
        format!("{doubled}{{{{ ns.x|join }}}}"),
        "{{ ".to_owned() + &"(".repeat(100_000) + "1" + &")".repeat(100_000) + " }}",
        "{% if true %}".repeat(100_000) + &"{% endif %}".repeat(100_000),
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(),
    ] {
        let model = with_template(folder.path(), &template);
        let excerpt: String = template.chars().take(80).collect();
        let ended = hearth(&["run", text(&model), "words", "-n", "1"]);
        assert!(ended.error_line().ends_with('.'), "{excerpt}: {ended:?}");
    }
    // An indent has its own limit, within which this template may succeed.
    let model = with_template(folder.path(), "{{ 'a\nb'|indent(10**18) }}");
    assert_success_or_error(&hearth(&["run", text(&model), "words", "-n", "1"]), "indent");
}

#[test]
fn a_vocabulary_of_long_special_tokens_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    const COUNT: usize = 20_000;
    let texts: Strings = (0..COUNT).map(|n| format!("{n:0>500}")).collect();
    let model = with_metadata(folder.path(), &|metadata| {
        metadata.insert("tokenizer.ggml.tokens", texts.clone());
        metadata.insert("tokenizer.ggml.merges", Strings::new());
        metadata.insert("tokenizer.ggml.scores", vec![0f32; COUNT]);
        metadata.insert("tokenizer.ggml.token_type", vec![4i32; COUNT]);
    });
    let ended = hearth(&["tokenize", text(&model), "words"]);
    assert!(ended.error_line().contains("special tokens have"), "{ended:?}");
}

/// A header may claim this many layers without having their tensors.
#[test]
fn a_model_of_4096_layers_is_planned_on_a_gpu() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = with_metadata(folder.path(), &|metadata| metadata.insert("llama.block_count", 4096u32));
    let ended = hearth(&["plan", text(&model), "--assume-gpu", "100000000", "--ctx", "131072"]);
    assert!(ended.stdout.contains("of 4097 layers"), "{ended:?}");
}

#[test]
fn shards_of_a_model_share_the_limit_of_a_header() {
    const PARTS: u16 = 300;
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..PARTS {
        let part = |key: &str, value: u16| {
            [
                &(key.len() as u64).to_le_bytes(),
                key.as_bytes(),
                &[2, 0, 0, 0],
                &value.to_le_bytes(),
            ]
            .concat()
        };
        let mut header = Raw::header(0, 3);
        header.0.extend(part("split.no", number));
        header.0.extend(part("split.count", PARTS));
        // Empty strings, in a sparse file.
        let header = header.array("a", 8, 15 << 20);
        let path = folder.path().join(format!("m-{:05}-of-{PARTS:05}.gguf", number + 1));
        fs::write(&path, header.0).expect("it is written");
        let file = File::options().write(true).open(&path).expect("it is there");
        file.set_len(GIB).expect("the file system has sparse files");
    }
    let listed = call(limited(&["list"]).env("HEARTH_MODELS", folder.path()));
    assert!(listed.stdout.contains("in all parts together"), "{listed:?}");
}

/// A name and the bytes of each dataset.
fn datasets() -> Vec<(&'static str, Vec<u8>)> {
    let mut object = String::from("{\"text\":\"a\"");
    (0..50_000).for_each(|key| write!(object, ",\"key {key}\":\"x\"").expect("memory"));
    object.push('}');
    let mut table = String::from("text");
    (0..20_000).for_each(|column| write!(table, ",c{column}").expect("memory"));
    (0..300).for_each(|row| write!(table, "\n{row}{}", ",".repeat(20_000)).expect("memory"));
    let chat = |turns: usize, word: &str| {
        let messages: Vec<_> = (0..turns)
            .map(|turn| {
                let role = ["user", "assistant"][turn % 2];
                json!({ "role": role, "content": format!("{word} {turn}") })
            })
            .collect();
        json!({ "messages": messages }).to_string() + "\n"
    };
    let deep = "[".repeat(1_000_000);
    vec![
        ("keys.json", object.into_bytes()),
        ("columns.csv", table.into_bytes()),
        ("turns.jsonl", chat(2000, "turn").repeat(2).into_bytes()),
        // Located with one rendering, and beyond the budget of both methods.
        ("chats.jsonl", chat(300, "t").repeat(40).into_bytes()),
        ("long chats.jsonl", chat(600, "t").repeat(40).into_bytes()),
        ("deep.json", deep.into_bytes()),
        ("groups.parquet", parquet_bytes::many_groups()),
        ("nested.parquet", parquet_bytes::nested(100_000)),
        ("grows.parquet", parquet_bytes::grows(4700)),
        ("word.txt", vec![b'a'; 8 << 20]),
    ]
}

/// JSON schemas that are large, deep or costly to compile.
fn schemas() -> Vec<(&'static str, String)> {
    let nested = |depth: usize| (0..depth).fold("{}".to_owned(), |inner, _| format!("{{\"items\":{inner}}}"));
    let list = |item: &dyn Fn(usize) -> String, count: usize| (0..count).map(item).collect::<Vec<_>>().join(",");
    let texts = list(&|number| format!("\"{number:030}\""), 1900);
    let properties = list(
        &|number| format!("\"p{number}\":{{\"pattern\":\"^(a|b){{1,99}}$\"}}"),
        1500,
    );
    vec![
        ("deep", nested(50_000)),
        ("nested", nested(120)),
        (
            "bomb",
            r#"{"type": "string", "pattern": "^((a{1,500}){1,500}){1,500}b$"}"#.to_owned(),
        ),
        ("endless", r##"{"$ref": "#"}"##.to_owned()),
        ("texts", format!("{{\"enum\":[{texts}]}}")),
        ("properties", format!("{{\"properties\":{{{properties}}}}}")),
        ("long", format!("{{\"description\":\"{}\"}}", "a".repeat(64 << 20))),
    ]
}

#[test]
fn schemas_are_followed_or_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, schema) in schemas() {
        let path = folder.path().join(name);
        fs::write(&path, schema).expect("it is written");
        let ended = hearth(&[
            "run",
            text(&llama()),
            "Hello",
            "-n",
            "8",
            "--raw",
            "--json-schema-file",
            text(&path),
        ]);
        assert_success_or_error(&ended, name);
    }
}

#[test]
fn datasets_are_trained_on_or_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in datasets() {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("it is written");
        let out = folder.path().join("out");
        let ended = hearth(&[
            "train",
            text(&llama()),
            text(&path),
            "--out",
            text(&out),
            "--max-steps",
            "1",
            "--seq",
            "32",
            "--batch",
            "1",
            "--eval-split",
            "0",
        ]);
        assert_success_or_error(&ended, name);
        let _ = fs::remove_dir_all(&out);
    }
}
