//! Tests answers with thoughts, with the worker's real protocol.

use crate::common::*;
use hearth_protocol::{
    Event, FinishReason, GenerateRequest, LogitBias, Message, Part, Prompt, Role, TextKind, text_of, thinking_of,
};
use tempfile::TempDir;

/// Tokens of the markers in the vocabulary, or none, so that the markers are letters.
const TOKENS: &[&str] = &["<think>", "</think>"];
const LETTERS: &[&str] = &[];

/// Ids of the tokens of the markers.
const MARKER_IDS: [u32; 2] = [257, 258];

/// Ends of a prompt.
const OPEN: &str = "<think>";
const CLOSED: &str = "<think>\n\n</think>";
const PLAIN: &str = "";

/// The kinds of an answer's texts, without consecutive duplicates.
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
fn a_thought_that_the_template_begins_is_separated_from_the_answer() {
    const BODY: &str = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("thinks.gguf");
    for (opening, kind) in [("\n<think>\n", TextKind::Thinking), ("", TextKind::Text)] {
        write_model(
            &path,
            &format!("{BODY}{{% if add_generation_prompt %}}{opening}{{% endif %}}"),
        );
        let mut worker = Worker::load(path.clone(), 100);
        let chat = Prompt::Chat(vec![message(Role::User, "Once upon a time")]);
        let thought = worker.answer(generate(chat, 12));
        assert_eq!(kinds(&thought), [kind], "{opening:?}");
        // An answer to the same text without a template is not split.
        let plain = worker.answer(generate(raw(&format!("Once upon a time{opening}")), 12));
        assert_eq!(kinds(&plain), [TextKind::Text]);
        assert_eq!((summary(&thought).tokens, summary(&plain).tokens), (12, 12));
        worker.close();
    }
}

/// Starts a worker with a model that thinks. Its prompts end with `end`.
fn start_worker(folder: &TempDir, tokens: &[&str], end: &str) -> Worker {
    // The line breaks push the rest of the prompt out of the penalty's window.
    let line_breaks = "\n".repeat(40);
    let template = format!(
        "{{% for m in messages %}}{{{{ m.content.split('</think>')[-1] }}}}{{% endfor %}}\
         {{% if add_generation_prompt %}}{end}{line_breaks}{{% endif %}}"
    );
    let path = folder.path().join("thinks.gguf");
    write_model_with(&path, &template, tokens);
    Worker::load(path, 512)
}

/// Parses a line into tokens: characters, with `{` and `}` as the tokens of the markers.
fn tokens(line: &str) -> Vec<String> {
    let token = |character: char| match character {
        '{' => "<think>".to_owned(),
        '}' => "</think>".to_owned(),
        other => other.to_string(),
    };
    line.chars().map(token).collect()
}

/// A request whose answer is these tokens, which must be distinct. Sampled tokens are penalized, so
/// the tokens are sampled in the order of their biases.
fn forced(prompt: Prompt, tokens: &[String], max_tokens: usize) -> GenerateRequest {
    let mut request = generate(prompt, max_tokens as u32);
    request.sampling.repetition_penalty = 2.0;
    request.sampling.repeat_last_n = 12;
    let biases = tokens.iter().enumerate().map(|(index, token)| LogitBias::Text {
        text: token.clone(),
        bias: Some(1000.0 - 10.0 * index as f32),
    });
    request.sampling.logit_bias.extend(biases);
    request
}

fn question() -> Vec<Message> {
    vec![message(Role::User, "Once")]
}

/// Formats the parts of an answer, with thoughts in `{}`.
fn line(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Thinking { text } => format!("{{{text}}}"),
        Part::Text { text } => text.clone(),
        other => panic!("{other:?}"),
    };
    parts.iter().map(text).collect()
}

/// An answer and its expected parts.
struct Case {
    /// Tokens of the markers in the vocabulary.
    markers: &'static [&'static str],
    /// The end of the prompt.
    end: &'static str,
    /// See [`tokens`].
    answer: &'static str,
    /// See [`line`].
    expected: &'static str,
}

const fn case(
    markers: &'static [&'static str],
    end: &'static str,
    answer: &'static str,
    expected: &'static str,
) -> Case {
    Case {
        markers,
        end,
        answer,
        expected,
    }
}

const CASES: [Case; 12] = [
    case(TOKENS, PLAIN, "{a}b", "{a}b"),
    case(TOKENS, PLAIN, "{}b", "b"),
    case(TOKENS, PLAIN, "{ab", "{ab}"),
    case(TOKENS, OPEN, "a}b", "{a}b"),
    // The model ends a thought without a beginning.
    case(TOKENS, CLOSED, "a c}b", "{a c}b"),
    case(TOKENS, CLOSED, "}b", "b"),
    case(LETTERS, CLOSED, "a</think>b", "{a}b"),
    // The model spells the markers with other tokens.
    case(TOKENS, PLAIN, "<think>a", "<think>a"),
    case(TOKENS, CLOSED, "a</think>b", "a</think>b"),
    case(TOKENS, CLOSED, "</think>b", "</think>b"),
    case(TOKENS, OPEN, "a</think>b}c", "{a</think>b}c"),
    case(LETTERS, OPEN, "a</think>b", "{a}b"),
];

#[test]
fn thoughts_are_recognized_by_marker_tokens_and_can_be_continued() {
    let folder = tempfile::tempdir().expect("a folder");
    for case in CASES {
        let Case {
            markers,
            end,
            answer,
            expected,
        } = case;
        let mut worker = start_worker(&folder, markers, end);
        let tokens = tokens(answer);
        let events = worker.answer(forced(Prompt::Chat(question()), &tokens, tokens.len()));
        assert_eq!(line(&parts(&[], &events)), expected, "{markers:?} {end:?} {answer:?}");
        let ids = summary(&events).ids.clone();
        assert_eq!(ids.len(), tokens.len());
        // Continued after any token, with known ids, the answer has the same parts.
        for length in 1..tokens.len() {
            let start = worker.answer(forced(Prompt::Chat(question()), &tokens, length));
            let so_far = parts(&[], &start);
            let message = Message {
                role: Role::Assistant,
                parts: so_far.clone(),
            };
            let prompt = Prompt::Continue {
                messages: [question(), vec![message]].concat(),
                ids: summary(&start).ids.clone(),
            };
            let rest = worker.answer(forced(prompt, &tokens, tokens.len() - length));
            assert_eq!(
                line(&parts(&so_far, &rest)),
                expected,
                "{end:?} {answer:?} after {length}"
            );
            assert_eq!(summary(&rest).ids, ids);
        }
        worker.close();
    }
}

#[test]
fn a_text_whose_tokens_are_unknown_keeps_the_letters_of_markers() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = |text: &str| Part::Text { text: text.to_owned() };
    let thought = |text: &str| Part::Thinking { text: text.to_owned() };
    /// The parts of an answer, and its expected tokens of markers.
    struct PartsCase {
        so_far: Vec<Part>,
        /// Tokens between the parts.
        between: usize,
        /// Tokens if the prompt ends in a thought.
        in_thought: usize,
    }
    let parts_case = |so_far, between, in_thought| PartsCase {
        so_far,
        between,
        in_thought,
    };
    for (markers, end) in [(TOKENS, CLOSED), (TOKENS, OPEN), (LETTERS, CLOSED), (TOKENS, PLAIN)] {
        let mut worker = start_worker(&folder, markers, end);
        for PartsCase {
            so_far,
            between,
            in_thought,
        } in [
            parts_case(vec![text("The tag </think> ends")], 0, 1),
            parts_case(vec![text("<think> and </think>")], 0, 1),
            parts_case(vec![thought("a"), text("b </think> c")], 2, 1),
            parts_case(vec![text("a"), thought("b"), text("c")], 2, 3),
        ] {
            let answer = Message {
                role: Role::Assistant,
                parts: so_far.clone(),
            };
            let messages = [question(), vec![answer]].concat();
            let ids = Vec::new();
            let tokens = tokens("xy");
            let events = worker.answer(forced(
                Prompt::Continue {
                    messages: messages.clone(),
                    ids,
                },
                &tokens,
                2,
            ));
            let expected = format!("{}xy", line(&so_far));
            assert_eq!(line(&parts(&so_far, &events)), expected, "{markers:?} {end:?}");
            let ids = &summary(&events).ids;
            let actual = ids.iter().filter(|id| MARKER_IDS.contains(*id)).count();
            let expected = if end == OPEN { in_thought } else { between };
            assert!(
                markers.is_empty() || actual == expected,
                "{actual} in {so_far:?} {end:?}"
            );
            // The text does not become a thought if the model continues with the marker's token.
            if !markers.is_empty() {
                let events = worker.answer(forced(
                    Prompt::Continue {
                        messages,
                        ids: Vec::new(),
                    },
                    &["</think>".to_owned()],
                    1,
                ));
                let expected = format!("{}</think>", line(&so_far));
                assert_eq!(line(&parts(&so_far, &events)), expected, "{end:?}");
            }
        }
        worker.close();
    }
}

#[test]
fn an_answer_of_json_has_the_letters_of_markers_in_its_strings() {
    const SCHEMA: &str = r#"{"const": "b</think>c<think>"}"#;
    let folder = tempfile::tempdir().expect("a folder");
    for (markers, end, first, thought) in [
        (TOKENS, CLOSED, "}{", ""),
        (TOKENS, PLAIN, "{}", ""),
        (LETTERS, CLOSED, "", ""),
        (LETTERS, PLAIN, "", ""),
        // A thought that quotes the letters.
        (TOKENS, OPEN, "a</think>d}", "a</think>d"),
        (LETTERS, OPEN, "a</think>", "a"),
    ] {
        let mut worker = start_worker(&folder, markers, end);
        let mut request = forced(Prompt::Chat(question()), &tokens(first), 200);
        request.json_schema = Some(SCHEMA.to_owned());
        let events = worker.answer(request);
        let parts = parts(&[], &events);
        assert_eq!(thinking_of(&parts), thought, "{markers:?} {end:?}");
        let json: String = serde_json::from_str(&text_of(&parts)).unwrap_or_else(|error| panic!("{parts:?}: {error}"));
        assert_eq!(json, "b</think>c<think>", "{markers:?} {end:?}");
        assert_eq!(summary(&events).finish_reason, FinishReason::Stop);
        worker.close();
    }
}

/// The text of an answer is complete in the next prompt, although the template splits texts at the
/// letters of a marker.
#[test]
fn an_answer_that_quotes_a_marker_is_whole_in_the_next_prompt() {
    let folder = tempfile::tempdir().expect("a folder");
    for markers in [TOKENS, LETTERS] {
        let mut worker = start_worker(&folder, markers, PLAIN);
        let mut prompt_tokens = |answer: &str| {
            let messages = [question(), vec![message(Role::Assistant, answer)], question()].concat();
            let events = worker.answer(generate(Prompt::Chat(messages), 1));
            summary(&events).prompt_tokens
        };
        let [empty, quoted, older] = ["", "a</think>b", "<think>a</think>b"].map(&mut prompt_tokens);
        // `a`, `<`, `/`, `th`, `in`, `k`, `>` and `b` are tokens.
        assert_eq!(quoted - empty, 8, "{markers:?}");
        // A thought in the text of an older answer becomes a field, which the template omits.
        assert_eq!(older - empty, 1, "{markers:?}");
        worker.close();
    }
}
