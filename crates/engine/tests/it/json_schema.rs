//! Tests answers that follow a JSON schema, with the worker's real protocol. The model is random,
//! so its answers without a schema are noise.

use crate::common::*;
use hearth_protocol::{
    DraftChoice, Event, FinishReason, GenerateRequest, LoadRequest, LogitBias, Message, Part, ProblemCode, Prompt,
    Request, Role, SamplingParams, TextKind,
};
use serde_json::Value;
use std::time::{Duration, Instant};

/// A schema whose values are all short.
#[derive(Clone, Copy)]
struct Case {
    schema: &'static str,
    /// Whether a value follows the schema.
    is_valid: fn(&Value) -> bool,
}

const ENUM: Case = Case {
    schema: r#"{"enum": ["red", "green", 7]}"#,
    is_valid: |value| *value == "red" || *value == "green" || *value == 7,
};

const OBJECT: Case = Case {
    schema: r#"{"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 150},
        "name": {"type": "string", "maxLength": 4}}, "required": ["age", "name"], "additionalProperties": false}"#,
    is_valid: |value| {
        value["age"].as_u64().is_some_and(|age| age <= 150)
            && value["name"].as_str().is_some_and(|name| name.chars().count() <= 4)
            && value.as_object().is_some_and(|object| object.len() == 2)
    },
};

const CASES: [Case; 6] = [
    ENUM,
    Case {
        schema: r#"{"type": "boolean"}"#,
        is_valid: Value::is_boolean,
    },
    OBJECT,
    Case {
        schema: r#"{"type": "array", "items": {"type": "integer", "minimum": -9, "maximum": 9},
            "minItems": 2, "maxItems": 3}"#,
        is_valid: |value| {
            value.as_array().is_some_and(|items| {
                (2..=3).contains(&items.len()) && items.iter().all(|item| item.as_i64().is_some_and(|n| n.abs() < 10))
            })
        },
    },
    Case {
        schema: r##"{"$ref": "#/$defs/pair", "$defs": {"pair": {"type": "object", "properties": {"a": {"const": null}},
            "required": ["a"], "additionalProperties": false}}}"##,
        is_valid: |value| value.as_object().is_some_and(|object| object["a"].is_null()),
    },
    Case {
        schema: r#"{"oneOf": [{"type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,3}$"}, {"type": "null"}]}"#,
        is_valid: |value| value.is_null() || value.as_str().is_some_and(|code| code.as_bytes()[2] == b'-'),
    },
];

/// A request whose answer follows a schema.
fn schema_request(schema: &str, max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        json_schema: Some(schema.to_owned()),
        ..generate(raw("Once upon a time"), max_tokens)
    }
}

fn sampled(seed: u64) -> SamplingParams {
    SamplingParams {
        temperature: 1.5,
        top_k: 0,
        seed: Some(seed),
        ..SamplingParams::default()
    }
}

fn biases(texts: &[&str], bias: f32) -> Vec<LogitBias> {
    let logit_bias = |text: &&str| LogitBias::Text {
        text: (*text).to_owned(),
        bias: Some(bias),
    };
    texts.iter().map(logit_bias).collect()
}

/// Parses an answer.
fn value(events: &[Event]) -> Value {
    let json = text(events);
    assert_eq!(summary(events).finish_reason, FinishReason::Stop, "{json:?}");
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json:?}: {error}"))
}

#[test]
fn every_answer_follows_its_schema() {
    let mut worker = Worker::load_llama(512);
    let noise = worker.answer(generate(raw("Once upon a time"), 40));
    assert!(serde_json::from_str::<Value>(&text(&noise)).is_err());
    for Case { schema, is_valid } in CASES {
        for seed in 0..12 {
            let mut request = schema_request(schema, 400);
            // The first answer is greedy.
            if seed > 0 {
                request.sampling = sampled(seed);
            }
            let value = value(&worker.answer(request));
            assert!(is_valid(&value), "{schema}: {value}");
        }
    }
}

#[test]
fn several_answers_at_once_follow_a_schema_each() {
    let mut worker = Worker::load_llama(512);
    let ids: Vec<_> = (0..18)
        .map(|number| {
            let mut request = schema_request(CASES[number % CASES.len()].schema, 400);
            request.sampling = sampled(number as u64);
            worker.send(Request::Generate(request))
        })
        .collect();
    for (number, id) in ids.into_iter().enumerate() {
        let value = value(&worker.events(id));
        assert!((CASES[number % CASES.len()].is_valid)(&value), "{value}");
    }
}

#[test]
fn a_draft_changes_no_answer() {
    let mut plain = Worker::load_llama(512);
    let path = model();
    for draft in [
        DraftChoice::Ngram,
        DraftChoice::FirstLayers { layers: Some(1) },
        DraftChoice::Model { path },
    ] {
        let mut worker = Worker::start();
        let request = LoadRequest {
            draft,
            draft_tokens: Some(4),
            ..load(model(), 512)
        };
        assert!(matches!(worker.call(Request::Load(request)), Event::Loaded(_)));
        let mut accepted = 0;
        for (number, Case { schema, .. }) in CASES.into_iter().enumerate() {
            for seed in [0, 1, 2] {
                let mut request = schema_request(schema, 400);
                if seed > 0 {
                    request.sampling = sampled(seed + number as u64);
                }
                let with_draft = worker.answer(request.clone());
                assert_eq!(text(&with_draft), text(&plain.answer(request)));
                accepted += summary(&with_draft).draft.map_or(0, |draft| draft.accepted);
            }
        }
        assert!(accepted > 0);
    }
}

/// Without a limit on white space, this model would write only white space.
#[test]
fn white_space_is_limited() {
    let mut worker = Worker::load_llama(1024);
    let mut request = schema_request(OBJECT.schema, 900);
    request.sampling.logit_bias = biases(&[" ", "\n", "\t", "\r"], 500.0);
    let answer = worker.answer(request);
    assert!((OBJECT.is_valid)(&value(&answer)));
    assert!(text(&answer).contains('\n'), "the bias has an effect");
}

#[test]
fn a_continued_answer_goes_on_with_its_schema() {
    const TEMPLATE: &str = "{% for m in messages %}{{ m.content }}{% endfor %}";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    write_model(&path, TEMPLATE);
    let mut worker = Worker::load(path, 512);
    let user = || message(Role::User, "Once upon a time");
    let request = |prompt, tokens| GenerateRequest {
        json_schema: Some(OBJECT.schema.to_owned()),
        ..generate(prompt, tokens)
    };
    let expected = worker.answer(request(Prompt::Chat(vec![user()]), 400));
    value(&expected);
    let continued = |text: &str, ids: &[u32]| Prompt::Continue {
        messages: vec![user(), Message::of_text(Role::Assistant, text)],
        ids: ids.to_vec(),
    };
    for length in 1..summary(&expected).tokens {
        let start = worker.answer(request(Prompt::Chat(vec![user()]), length));
        let rest = worker.answer(request(continued(&text(&start), &summary(&start).ids), 400));
        assert_eq!(summary(&rest).ids, summary(&expected).ids, "after {length}");
    }
    // The existing text is from the user; then it is not JSON.
    let mut rest = text(&worker.answer(request(continued(r#"{"age": 12"#, &[]), 400)));
    rest.insert_str(0, r#"{"age": 12"#);
    let value: Value = serde_json::from_str(&rest).unwrap_or_else(|error| panic!("{rest:?}: {error}"));
    assert_eq!(value["age"].as_u64().map(|age| age / 10 == 12 || age == 12), Some(true));
    let refused = worker.answer(request(continued("Sure!", &[]), 400));
    let (code, sentence) = failed(&refused);
    assert_eq!(code, ProblemCode::BadRequest);
    assert!(sentence.contains("so far"), "{sentence}");
}

#[test]
fn only_the_answer_after_a_thought_follows_the_schema() {
    const TEMPLATE: &str = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}\
                            {% if add_generation_prompt %}<think>\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n{% endif %}";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("thinks.gguf");
    write_model(&path, TEMPLATE);
    let mut worker = Worker::load(path, 512);
    let mut request = schema_request(OBJECT.schema, 400);
    request.prompt = Prompt::Chat(vec![message(Role::User, "Once upon a time")]);
    // Each sampled character is penalized, so the characters are sampled in this order and end the
    // thought. The line breaks of the template push the characters of its opening marker out of the
    // penalty's window.
    request.sampling.repetition_penalty = 1.5;
    request.sampling.repeat_last_n = 8;
    for (index, character) in ["<", "/", "t", "h", "i", "n", "k", ">"].iter().enumerate() {
        let bias = 1000.0 - 10.0 * index as f32;
        request.sampling.logit_bias.extend(biases(&[*character], bias));
    }
    let events = worker.answer(request);
    let text_of_kind = |expected: TextKind| -> String {
        let pieces = events.iter().filter_map(|event| match event {
            Event::Text { kind, text, .. } if *kind == expected => Some(text.as_str()),
            _ => None,
        });
        pieces.collect()
    };
    let json = text_of_kind(TextKind::Text);
    let value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json:?}: {error}"));
    assert!((OBJECT.is_valid)(&value), "{json}");
    assert_eq!(summary(&events).finish_reason, FinishReason::Stop);
    // The thought is empty.
    assert_eq!(text_of_kind(TextKind::Thinking), "");

    // A continued answer with a thought and the beginning of the JSON.
    let thought = Part::Thinking { text: "Hm.".to_owned() };
    let beginning = Part::Text { text: "{".to_owned() };
    let answer = Message {
        role: Role::Assistant,
        parts: vec![thought, beginning],
    };
    let mut request = schema_request(OBJECT.schema, 400);
    request.prompt = Prompt::Continue {
        messages: vec![message(Role::User, "Once upon a time"), answer],
        ids: Vec::new(),
    };
    let rest = format!("{{{}", text(&worker.answer(request)));
    let value = serde_json::from_str(&rest).unwrap_or_else(|error| panic!("{rest:?}: {error}"));
    assert!((OBJECT.is_valid)(&value), "{rest}");
}

/// Schemas with a pattern that cannot be used, and the expected part of the error.
const BAD_PATTERNS: [(&str, &str); 7] = [
    (
        r#"{"type": "string", "pattern": "("}"#,
        "its pattern '(' cannot be used: unclosed group. Change",
    ),
    (
        r#"{"properties": {"a": {"type": "string", "pattern": "^(?!x)\\d/$"}}, "required": ["a"]}"#,
        r"its pattern '^(?!x)\d/$' cannot be used: look-around",
    ),
    (
        r#"{"type": "string", "pattern": "^(a|b)\\1$"}"#,
        r"its pattern '^(a|b)\1$' cannot be used: backreferences",
    ),
    (
        r#"{"type": "string", "pattern": "^\\w+\\b \\w+$"}"#,
        r"its pattern '^\w+\b \w+$' cannot be used: it has an assertion such as a word boundary",
    ),
    (
        r#"{"type": "object", "patternProperties": {"[": {"type": "string"}}}"#,
        "its pattern '[' cannot be used: unclosed character class",
    ),
    (
        r#"{"items": {"type": "string", "pattern": "^\\p{Nothing}$"}}"#,
        r"its pattern '^\p{Nothing}$' cannot be used: Unicode property not found",
    ),
    // The fields of a constant are not patterns.
    (
        r#"{"anyOf": [{"const": {"pattern": "["}}, {"type": "string", "pattern": "a{2,1}"}]}"#,
        "its pattern 'a{2,1}' cannot be used: ",
    ),
];

#[test]
fn invalid_schemas_are_refused_quickly_and_the_worker_continues() {
    let mut worker = Worker::load_llama(128);
    let deep = format!("{}1{}", "{\"items\":".repeat(5000), "}".repeat(5000));
    let nested = (0..100).fold("{}".to_owned(), |inner, _| format!("{{\"items\":{inner}}}"));
    let long = format!(r#"{{"description": "{}"}}"#, "a".repeat(70_000));
    let bomb = r#"{"type": "string", "pattern": "^((a{1,500}){1,500}){1,500}b$"}"#;
    let endless = r##"{"$ref": "#"}"##;
    let remote = r#"{"$ref": "https://example.com/schema.json"}"#;
    let many = format!(
        r#"{{"enum": [{}]}}"#,
        (0..6000).map(|n| n.to_string()).collect::<Vec<_>>().join(",")
    );
    let bad: [(&str, &str); 9] = [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        (&deep, "not valid JSON"),
        (&long, "65536"),
        (r#"{"type": "strang"}"#, "not supported"),
        (r#"{"type": "string", "pattern": "("}"#, "not supported"),
        (remote, "not supported"),
        (
            r#"{"allOf": [{"type": "string"}, {"type": "integer"}]}"#,
            "not supported",
        ),
    ];
    for (schema, expected) in bad.into_iter().chain(BAD_PATTERNS) {
        let events = worker.answer(schema_request(schema, 5));
        let (code, sentence) = failed(&events);
        assert_eq!(code, ProblemCode::BadRequest, "{sentence}");
        assert!(sentence.contains(expected), "{sentence}");
        assert!(sentence.len() < 500 && !sentence.contains('\n'), "{sentence}");
    }
    // These schemas may be refused or not, but within seconds.
    for schema in [bomb, endless, &nested, &many] {
        let start = Instant::now();
        worker.answer(schema_request(schema, 5));
        assert!(start.elapsed() < Duration::from_secs(20), "{:.80}", schema);
    }
    assert!((ENUM.is_valid)(&value(
        &worker.answer(schema_request(ENUM.schema, 100))
    )));
}
