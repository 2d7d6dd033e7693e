//! The suggestions of an empty conversation: the default model answers each of them well, with its
//! default settings, on every instruction set of the machine.

use hearth_kernels::Isa;
use hearth_tests::hearth::call;
use hearth_tests::paths::{executable, model, root};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

const SEEDS: [&str; 3] = ["1", "2", "3"];

/// More tokens than a good answer has.
const MAX_TOKENS: &str = "400";

fn read_json(path: &str) -> Value {
    let text = fs::read_to_string(root().join(path)).expect("the file can be read");
    serde_json::from_str(&text).expect("the file is JSON")
}

#[test]
fn the_default_model_answers_every_suggestion_well() {
    let messages = read_json("ui/messages/en/chat.json");
    let suggestions = read_json("ui/src/lib/chat/suggestions.json");
    let suggestions = suggestions.as_array().expect("a list");
    assert_eq!(suggestions.len(), 4);
    let mut mistakes = Vec::new();
    for isa in Isa::available() {
        for suggestion in suggestions {
            let key = suggestion["message"].as_str().expect("a key");
            let question = messages[key].as_str().expect("a text");
            for seed in SEEDS {
                let answer = answer(question, seed, isa.name());
                if let Err(mistake) = check(&answer, &suggestion["expects"]) {
                    mistakes.push(format!("{question} ({}, seed {seed}): {mistake}: {answer}", isa.name()));
                }
            }
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn suggestions_are_english_in_every_language() {
    let suggestions = read_json("ui/src/lib/chat/suggestions.json");
    let [english, others @ ..] =
        ["en", "de", "es", "zh-CN"].map(|language| read_json(&format!("ui/messages/{language}/chat.json")));
    for suggestion in suggestions.as_array().expect("a list") {
        let key = suggestion["message"].as_str().expect("a key");
        assert!(others.iter().all(|messages| messages[key] == english[key]), "{key}");
    }
}

/// The JSON of an answer of the default model.
fn answer(question: &str, seed: &str, isa: &str) -> Value {
    let mut command = Command::new(executable("hearth"));
    command.arg("run").arg(model()).arg(question);
    command.args(["--seed", seed, "-n", MAX_TOKENS, "--json"]);
    call(command.env("HEARTH_ISA", isa)).json()
}

/// Compares an answer with the expectation of its suggestion.
fn check(answer: &Value, expects: &Value) -> Result<(), String> {
    if answer["finish_reason"] != "stop" {
        return Err("it did not end".to_owned());
    }
    let text = answer["text"].as_str().expect("a text");
    match expects["type"].as_str() {
        Some("contains") => {
            let texts = expects["texts"].as_array().expect("texts");
            let is_missing = |expected: &&Value| !expected.as_str().is_some_and(|expected| text.contains(expected));
            texts
                .iter()
                .find(is_missing)
                .map_or(Ok(()), |missing| Err(format!("without {missing}")))
        }
        Some("sentences") => {
            let count = sentences(text);
            let is_expected = expects["count"].as_u64() == Some(count as u64);
            is_expected.then_some(()).ok_or_else(|| format!("{count} sentences"))
        }
        Some("python") => check_python(text),
        other => panic!("unknown expectation {other:?}"),
    }
}

/// Number of sentences: of ends followed by a space or by the end of the text.
fn sentences(text: &str) -> usize {
    let is_end = |word: &&str| word.trim_end_matches(['"', '*', ')']).ends_with(['.', '!', '?']);
    text.split_whitespace().filter(is_end).count()
}

/// Whether the machine has Python. Without it, a message says that no function is parsed.
fn has_python() -> bool {
    static HAS_PYTHON: LazyLock<bool> = LazyLock::new(|| {
        let mut probe = Command::new("python3");
        let status = probe
            .args(["-c", ""])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let has_python = status.is_ok_and(|status| status.success());
        if !has_python {
            eprintln!("python3 does not run: only the existence of code blocks is checked");
        }
        has_python
    });
    *HAS_PYTHON
}

/// Checks that the answer has a code block with a function, which Python can parse. Without Python
/// on the machine, the function is not parsed.
fn check_python(text: &str) -> Result<(), String> {
    let block = text.split("```").nth(1).ok_or("no code block")?;
    let code = block.strip_prefix("python").ok_or("a code block of another language")?;
    if text.split("```").nth(2).is_none() {
        return Err("the code block is not closed".to_owned());
    }
    if !code.contains("def ") {
        return Err("no function".to_owned());
    }
    if !has_python() {
        return Ok(());
    }
    let mut parse = Command::new("python3");
    parse.args(["-c", "import ast, sys; ast.parse(sys.argv[1])", code]);
    let status = parse.stderr(Stdio::null()).status().expect("python3 runs");
    status
        .success()
        .then_some(())
        .ok_or_else(|| "Python cannot parse it".to_owned())
}

#[test]
fn the_checks_find_mistakes() {
    let answer = |text: &str| serde_json::json!({ "finish_reason": "stop", "text": text });
    let cases = [
        (r#"{"type": "contains", "texts": ["a", "b"]}"#, "b and a", "a"),
        (r#"{"type": "sentences", "count": 2}"#, "One, of this. Two!", "One."),
        (r#"{"type": "sentences", "count": 1}"#, "It is 3.5 long.", "One. Two."),
        (
            r#"{"type": "python"}"#,
            "```python\ndef f(a):\n    return a\n```",
            "def f(a):",
        ),
        (
            r#"{"type": "python"}"#,
            "Here:\n```python\ndef f(): pass\n``` Done.",
            "```python\ndef f(): pass",
        ),
    ];
    for (expects, good, bad) in cases {
        let expects: Value = serde_json::from_str(expects).expect("JSON");
        assert_eq!(check(&answer(good), &expects), Ok(()), "{good}");
        assert!(check(&answer(bad), &expects).is_err(), "{bad}");
    }
    let endless = serde_json::json!({ "finish_reason": "length", "text": "Paris" });
    let expects = serde_json::json!({ "type": "contains", "texts": ["Paris"] });
    assert!(check(&endless, &expects).is_err());
}
