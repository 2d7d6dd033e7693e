//! Answers of a model whose chat template begins a thought, over the worker's real protocol.

use crate::common::*;
use hearth_protocol::{
    Event, FinishReason, GenerateRequest, LogitBias, Message, Part, Prompt, Role, TextKind, text_of, thinking_of,
};
use tempfile::TempDir;

/// The markers as tokens, and as letters.
const TOKENS: &[&str] = &["<think>", "</think>"];
const LETTERS: &[&str] = &[];

/// The ids of the tokens.
const MARKERS: [u32; 2] = [257, 258];

/// The end of a prompt.
const OPEN: &str = "<think>";
const CLOSED: &str = "<think>\n\n</think>";
const PLAIN: &str = "";

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

/// A worker with a model that thinks, whose prompts end so.
fn thinking(folder: &TempDir, tokens: &[&str], end: &str) -> Worker {
    // The line breaks keep what is before them out of the penalty's window.
    let line_breaks = "\n".repeat(40);
    let template = format!(
        "{{% for m in messages %}}{{{{ m.content.split('</think>')[-1] }}}}{{% endfor %}}\
         {{% if add_generation_prompt %}}{end}{line_breaks}{{% endif %}}"
    );
    let path = folder.path().join("thinks.gguf");
    write_model_with(&path, &template, tokens);
    Worker::with(path, 512)
}

/// The tokens of a line: letters, and the markers as tokens where `{` and `}` are.
fn tokens(line: &str) -> Vec<String> {
    let token = |character: char| match character {
        '{' => "<think>".to_owned(),
        '}' => "</think>".to_owned(),
        other => other.to_string(),
    };
    line.chars().map(token).collect()
}

/// A request whose answer is these tokens, each of which it has once: a token that it has is
/// penalized, so they come in the order of their biases.
fn forced(prompt: Prompt, tokens: &[String], max_tokens: usize) -> GenerateRequest {
    let mut request = generate(prompt, max_tokens as u32);
    request.sampling.repetition_penalty = 2.0;
    request.sampling.repeat_last_n = 12;
    let biases = tokens.iter().enumerate().map(|(at, token)| LogitBias::Text {
        text: token.clone(),
        bias: Some(1000.0 - 10.0 * at as f32),
    });
    request.sampling.logit_bias.extend(biases);
    request
}

fn asked() -> Vec<Message> {
    vec![message(Role::User, "Once")]
}

/// The parts in one line: thoughts in `{}`.
fn line(parts: &[Part]) -> String {
    let of = |part: &Part| match part {
        Part::Thinking { text } => format!("{{{text}}}"),
        Part::Text { text } => text.clone(),
        other => panic!("{other:?}"),
    };
    parts.iter().map(of).collect()
}

/// The markers, the prompt's end, the answer's tokens, and its parts.
type Case = (&'static [&'static str], &'static str, &'static str, &'static str);

const CASES: [Case; 12] = [
    (TOKENS, PLAIN, "{a}b", "{a}b"),
    (TOKENS, PLAIN, "{}b", "b"),
    (TOKENS, PLAIN, "{ab", "{ab}"),
    (TOKENS, OPEN, "a}b", "{a}b"),
    // The model ends a thought that it never began.
    (TOKENS, CLOSED, "a c}b", "{a c}b"),
    (TOKENS, CLOSED, "}b", "b"),
    (LETTERS, CLOSED, "a</think>b", "{a}b"),
    // It spells the markers, which are tokens.
    (TOKENS, PLAIN, "<think>a", "<think>a"),
    (TOKENS, CLOSED, "a</think>b", "a</think>b"),
    (TOKENS, CLOSED, "</think>b", "</think>b"),
    (TOKENS, OPEN, "a</think>b}c", "{a</think>b}c"),
    (LETTERS, OPEN, "a</think>b", "{a}b"),
];

#[test]
fn thoughts_are_told_by_the_markers_tokens_and_continue_so() {
    let folder = tempfile::tempdir().expect("a folder");
    for (markers, end, answer, expected) in CASES {
        let mut worker = thinking(&folder, markers, end);
        let tokens = tokens(answer);
        let whole = worker.answer(forced(Prompt::Chat(asked()), &tokens, tokens.len()));
        assert_eq!(line(&parts(&[], &whole)), expected, "{markers:?} {end:?} {answer:?}");
        assert_eq!(finished(&whole).ids.len(), tokens.len());
        // Cut anywhere, with its tokens known, it goes on to the same parts.
        for cut in 1..tokens.len() {
            let begun = worker.answer(forced(Prompt::Chat(asked()), &tokens, cut));
            let before = parts(&[], &begun);
            let so_far = Message {
                role: Role::Assistant,
                parts: before.clone(),
            };
            let prompt = Prompt::Continue {
                messages: [asked(), vec![so_far]].concat(),
                ids: finished(&begun).ids.clone(),
            };
            let rest = worker.answer(forced(prompt, &tokens, tokens.len() - cut));
            assert_eq!(line(&parts(&before, &rest)), expected, "{end:?} {answer:?} after {cut}");
            assert_eq!(finished(&rest).ids, finished(&whole).ids);
        }
        worker.close();
    }
}

#[test]
fn a_text_whose_tokens_are_unknown_keeps_the_letters_of_markers() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |text: &str| Part::Text { text: text.to_owned() };
    let thought = |text: &str| Part::Thinking { text: text.to_owned() };
    for (markers, end) in [(TOKENS, CLOSED), (TOKENS, OPEN), (LETTERS, CLOSED), (TOKENS, PLAIN)] {
        let mut worker = thinking(&folder, markers, end);
        // With the markers' tokens that are between the parts, and those if the prompt ends in a
        // thought.
        for (begun, between, in_thought) in [
            (vec![said("The tag </think> ends")], 0, 1),
            (vec![said("<think> and </think>")], 0, 1),
            (vec![thought("a"), said("b </think> c")], 2, 1),
            (vec![said("a"), thought("b"), said("c")], 2, 3),
        ] {
            let answer = Message {
                role: Role::Assistant,
                parts: begun.clone(),
            };
            let messages = [asked(), vec![answer]].concat();
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
            let expected = format!("{}xy", line(&begun));
            assert_eq!(line(&parts(&begun, &events)), expected, "{markers:?} {end:?}");
            let ids = &finished(&events).ids;
            let actual = ids.iter().filter(|id| MARKERS.contains(*id)).count();
            let wanted = if end == OPEN { in_thought } else { between };
            assert!(markers.is_empty() || actual == wanted, "{actual} in {begun:?} {end:?}");
            // Nor is it a thought if the model goes on with the marker's token.
            if !markers.is_empty() {
                let events = worker.answer(forced(
                    Prompt::Continue {
                        messages,
                        ids: Vec::new(),
                    },
                    &["</think>".to_owned()],
                    1,
                ));
                let expected = format!("{}</think>", line(&begun));
                assert_eq!(line(&parts(&begun, &events)), expected, "{end:?}");
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
        // A thought, which quotes the letters.
        (TOKENS, OPEN, "a</think>d}", "a</think>d"),
        (LETTERS, OPEN, "a</think>", "a"),
    ] {
        let mut worker = thinking(&folder, markers, end);
        let mut request = forced(Prompt::Chat(asked()), &tokens(first), 200);
        request.json_schema = Some(SCHEMA.to_owned());
        let events = worker.answer(request);
        let parts = parts(&[], &events);
        assert_eq!(thinking_of(&parts), thought, "{markers:?} {end:?}");
        let said: String = serde_json::from_str(&text_of(&parts)).unwrap_or_else(|error| panic!("{parts:?}: {error}"));
        assert_eq!(said, "b</think>c<think>", "{markers:?} {end:?}");
        assert_eq!(finished(&events).reason, FinishReason::Stop);
        worker.close();
    }
}

/// The text of an answer is complete in the next prompt, though the template splits it at the
/// letters of a marker.
#[test]
fn an_answer_that_quotes_a_marker_is_whole_in_the_next_prompt() {
    let folder = tempfile::tempdir().expect("a folder");
    for markers in [TOKENS, LETTERS] {
        let mut worker = thinking(&folder, markers, PLAIN);
        let mut prompt_tokens = |answer: &str| {
            let messages = [asked(), vec![message(Role::Assistant, answer)], asked()].concat();
            let events = worker.answer(generate(Prompt::Chat(messages), 1));
            finished(&events).prompt_tokens
        };
        let [none, quoted, older] = ["", "a</think>b", "<think>a</think>b"].map(&mut prompt_tokens);
        // `a`, `</`, `th`, `in`, `k`, `>`, `b`: the brackets are two tokens.
        assert_eq!(quoted - none, 8, "{markers:?}");
        // A thought in the text of an older answer is left to the template, which omits it.
        assert_eq!(older - none, 1, "{markers:?}");
        worker.close();
    }
}
