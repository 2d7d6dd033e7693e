//! The reference implementation of [`Splitter`], which computes the thoughts from the whole answer
//! at once. The splitter is compared with it for every pair of markers, as tokens and as letters,
//! and for every division of the answer into pieces.

use super::markers::{Edge, PAIRS};
use super::{Input, Markers, Piece, PromptEnd, Splitter};
use PromptEnd::{Closed, Open, Text};
use hearth_protocol::Part;
use proptest::prelude::*;
use std::sync::Arc;

/// A whole answer: texts and markers that are tokens.
type Answer = Vec<Input>;

/// The kind of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thought,
    /// A thought with an end but without a beginning.
    Stray,
}

/// The text before, between or after markers.
struct Segment {
    kind: Kind,
    text: String,
    is_first: bool,
    is_last: bool,
}

impl Segment {
    fn new(kind: Kind, is_first: bool) -> Self {
        Self {
            kind,
            text: String::new(),
            is_first,
            is_last: false,
        }
    }
}

/// Converts letters of markers in a text to markers where they count.
fn with_markers(text: &str, markers: &Markers, prompt: PromptEnd) -> Answer {
    let (mut inputs, mut rest, mut plain) = (Vec::new(), text, String::new());
    let mut is_thought = prompt == PromptEnd::Open;
    let (mut is_beginning, mut is_closed, mut quoted) = (true, false, 0);
    while let Some(first) = rest.chars().next() {
        let edge = [Edge::Open, Edge::Close].into_iter().find(|edge| {
            let letters = markers.marker(*edge).letters();
            letters.is_some_and(|letters| rest.starts_with(letters))
        });
        let is_stray = prompt == PromptEnd::Closed && !is_thought && !is_closed;
        let counts = match edge {
            None => false,
            Some(Edge::Open) => is_beginning && !is_thought,
            Some(Edge::Close) => is_thought || (is_stray && quoted == 0),
        };
        match edge {
            Some(edge) if counts => {
                inputs.push(Input::Text(std::mem::take(&mut plain)));
                inputs.push(Input::Marker(edge));
                rest = &rest[markers.marker(edge).text.len()..];
                is_thought = edge == Edge::Open;
                is_closed |= !is_thought;
                is_beginning = false;
                quoted = 0;
                continue;
            }
            Some(Edge::Open) if is_stray => quoted += 1,
            Some(Edge::Close) if is_stray => quoted -= 1,
            _ => {}
        }
        is_beginning &= first.is_whitespace();
        plain.push(first);
        rest = &rest[first.len_utf8()..];
    }
    inputs.push(Input::Text(plain));
    inputs
}

/// The texts between the markers of a whole answer.
fn segments(answer: &[Input], markers: &Markers, prompt: PromptEnd) -> Vec<Segment> {
    let first = match prompt {
        PromptEnd::Open => Kind::Thought,
        PromptEnd::Closed | PromptEnd::Text => Kind::Text,
    };
    let mut segments = vec![Segment::new(first, true)];
    let (mut is_closed, mut quoted) = (false, 0);
    for input in answer {
        let last = segments.last_mut().expect("a segment");
        let edge = match input {
            Input::Text(text) => {
                last.text += text;
                continue;
            }
            Input::Marker(edge) => *edge,
        };
        let is_thought = last.kind == Kind::Thought;
        let is_blank = last.text.trim().is_empty();
        let counts = match edge {
            Edge::Open => is_thought || is_blank || last.text.ends_with('\n'),
            Edge::Close => is_thought || (!is_closed && quoted == 0),
        };
        match edge {
            // The thought has begun already.
            Edge::Open if is_thought => {}
            Edge::Open if counts => segments.push(Segment::new(Kind::Thought, false)),
            Edge::Close if counts => {
                if !is_thought && !is_blank {
                    last.kind = Kind::Stray;
                }
                (is_closed, quoted) = (true, 0);
                segments.push(Segment::new(Kind::Text, false));
            }
            _ => {
                last.text += markers.marker(edge).text;
                quoted = if edge == Edge::Open {
                    quoted + 1
                } else {
                    0.max(quoted - 1)
                };
            }
        }
    }
    segments.last_mut().expect("a segment").is_last = true;
    segments
}

/// The parts of a whole answer.
fn parts(answer: &[Input], markers: &Markers, prompt: PromptEnd) -> Vec<Part> {
    let answer = match answer {
        [Input::Text(text)] => with_markers(text, markers, prompt),
        _ => answer.to_vec(),
    };
    let mut parts: Vec<Part> = Vec::new();
    for Segment {
        kind,
        mut text,
        is_first,
        is_last,
    } in segments(&answer, markers, prompt)
    {
        // White space around a marker belongs to the marker.
        if !is_first || (!is_last && text.trim().is_empty()) {
            text = text.trim_start().to_owned();
        }
        if kind != Kind::Text {
            text = text.trim().to_owned();
        }
        match (parts.last_mut(), kind) {
            _ if text.is_empty() => {}
            (Some(Part::Text { text: previous }), Kind::Text) => *previous += &text,
            (_, Kind::Text) => parts.push(Part::Text { text }),
            (Some(Part::Thinking { text: previous }), _) => *previous += &format!("\n\n{text}"),
            _ => parts.push(Part::Thinking { text }),
        }
    }
    parts
}

/// The parts of an answer that arrives in these pieces.
fn split(inputs: impl IntoIterator<Item = Input>, markers: &Arc<Markers>, prompt: PromptEnd) -> Vec<Part> {
    let mut splitter = Splitter::new(Some(Arc::clone(markers)), prompt);
    let mut pieces: Vec<Piece> = Vec::new();
    for input in inputs {
        pieces.extend(splitter.push(input));
    }
    pieces.extend(splitter.finish());
    let mut parts = Vec::new();
    pieces.iter().for_each(|piece| piece.add_to(&mut parts));
    parts
}

/// Divides the texts of an answer before the characters for which `is_cut` returns `true`.
fn cut(answer: &[Input], mut is_cut: impl FnMut() -> bool) -> Answer {
    let mut inputs = Vec::new();
    for input in answer {
        let Input::Text(text) = input else {
            inputs.push(input.clone());
            continue;
        };
        let mut piece = String::new();
        for character in text.chars() {
            if !piece.is_empty() && is_cut() {
                inputs.push(Input::Text(std::mem::take(&mut piece)));
            }
            piece.push(character);
        }
        inputs.push(Input::Text(piece));
    }
    inputs
}

/// Parses an answer: `{` and `}` are the markers as tokens, `(` and `)` their letters.
fn answer(line: &str, [open, close]: [&str; 2]) -> Answer {
    let mut inputs = vec![Input::Text(String::new())];
    for character in line.chars() {
        let text = match character {
            '{' | '}' => {
                let edge = if character == '{' { Edge::Open } else { Edge::Close };
                inputs.extend([Input::Marker(edge), Input::Text(String::new())]);
                continue;
            }
            '(' => open.to_owned(),
            ')' => close.to_owned(),
            other => other.to_string(),
        };
        if let Some(Input::Text(last)) = inputs.last_mut() {
            *last += &text;
        }
    }
    inputs
}

/// Formats the parts of an answer: thoughts in `{}`, and the letters as in [`answer`].
fn line(parts: &[Part], [open, close]: [&str; 2]) -> String {
    let text = |part: &Part| match part {
        Part::Thinking { text } => format!("{{{text}}}"),
        Part::Text { text } => text.clone(),
        other => panic!("{other:?}"),
    };
    let line: String = parts.iter().map(text).collect();
    line.replace(open, "(").replace(close, ")")
}

const TOKENS: [Option<u32>; 2] = [Some(7), Some(8)];
const LETTERS: [Option<u32>; 2] = [None, None];

/// An answer and its expected parts.
struct Case {
    /// The tokens of the markers.
    tokens: [Option<u32>; 2],
    prompt: PromptEnd,
    /// See [`answer`].
    answer: &'static str,
    /// See [`line`].
    expected: &'static str,
}

const fn case(tokens: [Option<u32>; 2], prompt: PromptEnd, answer: &'static str, expected: &'static str) -> Case {
    Case {
        tokens,
        prompt,
        answer,
        expected,
    }
}

const CASES: [Case; 55] = [
    // Without a thought.
    case(TOKENS, Text, "Paris.", "Paris."),
    case(LETTERS, Text, "  two ", "  two "),
    case(TOKENS, Text, "  two ", "  two "),
    case(TOKENS, Text, "", ""),
    case(TOKENS, Text, " \n", " \n"),
    // A thought, and an empty one.
    case(TOKENS, Text, "{\nHm.\n}\n\nParis.\n", "{Hm.}Paris.\n"),
    case(LETTERS, Text, "(\nHm.\n)\n\nParis.\n", "{Hm.}Paris.\n"),
    case(TOKENS, Text, "\n{Hm. }Paris.", "{Hm.}Paris."),
    case(LETTERS, Text, "\n(Hm. )Paris.", "{Hm.}Paris."),
    case(TOKENS, Text, "{\n\n}\n\nParis.", "Paris."),
    case(LETTERS, Text, "(\n\n)\n\nParis.", "Paris."),
    // A thought that the prompt began, and one that prompt and answer began.
    case(TOKENS, Open, "\nHm.\n}\n\nParis.", "{Hm.}Paris."),
    case(LETTERS, Open, "\nHm.\n)\n\nParis.", "{Hm.}Paris."),
    case(TOKENS, Open, "{\nHm.}Paris.", "{Hm.}Paris."),
    case(TOKENS, Open, "a {b}c", "{a b}c"),
    // A thought without an end.
    case(TOKENS, Text, "{Hm ", "{Hm}"),
    case(TOKENS, Open, "Hm )", "{Hm )}"),
    case(LETTERS, Open, "Hm </thin ", "{Hm </thin}"),
    case(LETTERS, Text, " <thin", " <thin"),
    // An end without a beginning, after a prompt with a closed thought.
    case(TOKENS, Closed, "Hm. \n}\n\nParis.", "{Hm.}Paris."),
    case(LETTERS, Closed, "Hm. \n)\n\nParis.", "{Hm.}Paris."),
    case(TOKENS, Closed, "\n}\n\nParis.", "Paris."),
    case(LETTERS, Closed, "\n)\n\nParis.", "Paris."),
    case(TOKENS, Closed, "a}b}c", "{a}b)c"),
    case(LETTERS, Closed, "a)b)c", "{a}b)c"),
    case(TOKENS, Closed, "}}a", ")a"),
    case(LETTERS, Closed, "))a", ")a"),
    case(TOKENS, Closed, "Hm.}", "{Hm.}"),
    // An end without a beginning, after other prompts.
    case(TOKENS, Text, "Hm.}Paris.", "{Hm.}Paris."),
    case(LETTERS, Text, "Hm.)Paris.", "Hm.)Paris."),
    case(TOKENS, Text, "{a}b}c", "{a}b)c"),
    case(TOKENS, Open, "a}b}c", "{a}b)c"),
    case(LETTERS, Open, "a)b)c", "{a}b)c"),
    // Letters of markers that are tokens: at the beginning, in a thought, in the answer.
    case(TOKENS, Text, "(a)b", "(a)b"),
    case(TOKENS, Open, "a)b}c", "{a)b}c"),
    case(TOKENS, Closed, "a)b", "a)b"),
    case(TOKENS, Closed, ")b", ")b"),
    case(TOKENS, Closed, "The end is `)`.}So: `)`.", "{The end is `)`.}So: `)`."),
    case(TOKENS, Text, "{a}The tags are ( and ).", "{a}The tags are ( and )."),
    // Tokens in the text: after a thought, in a line, and in pairs.
    case(TOKENS, Text, "{a}The tag `}`\n}\nends.", "{a}The tag `)`\n)\nends."),
    case(TOKENS, Text, "{a}Use {x}.", "{a}Use (x)."),
    case(TOKENS, Open, "a} }b", "{a})b"),
    case(TOKENS, Closed, "Use {x} and {y}.", "Use (x) and (y)."),
    case(TOKENS, Closed, "Use {x} so}c} {d", "{Use (x) so}c) (d"),
    case(TOKENS, Closed, "a}{b}c", "{a\n\nb}c"),
    // Letters that would count, but are quoted in pairs or after the thought.
    case(LETTERS, Closed, "Use (x) and ((y)).", "Use (x) and ((y))."),
    case(LETTERS, Closed, "Use (x) so)c", "{Use (x) so}c"),
    case(LETTERS, Text, "(a)b (c)", "{a}b (c)"),
    case(LETTERS, Text, "In HTML, ( is ) no tag.", "In HTML, ( is ) no tag."),
    // Thoughts between texts.
    case(TOKENS, Text, "a\n{b} c", "a\n{b}c"),
    case(TOKENS, Text, "{a}b\n{c}d", "{a}b\n{c}d"),
    case(TOKENS, Text, "{a} {b}c", "{a\n\nb}c"),
    // Only one marker is a token.
    case([None, Some(8)], Text, "(a)b}c", "{a)b}c"),
    case([Some(7), None], Closed, "a\n{b)c", "a\n{b}c"),
    case([Some(7), None], Closed, "a{b)c)d", "{a(b)c}d"),
];

#[test]
fn thoughts_are_what_the_specification_says_in_every_cut() {
    for pair in PAIRS {
        for case in CASES {
            let (prompt, expected) = (case.prompt, case.expected);
            let markers = Arc::new(Markers::with_tokens(pair, case.tokens));
            let whole = answer(case.answer, pair);
            let inputs = || whole.iter().cloned();
            assert_eq!(
                line(&split(inputs(), &markers, prompt), pair),
                expected,
                "{:?} {pair:?}",
                case.answer
            );
            if whole.len() == 1 || case.tokens == TOKENS {
                let specified = parts(&whole, &markers, prompt);
                assert_eq!(
                    line(&specified, pair),
                    expected,
                    "the specification of {:?}",
                    case.answer
                );
            }
            let characters = whole.iter().filter_map(|input| match input {
                Input::Text(text) => Some(text.chars().count()),
                Input::Marker(_) => None,
            });
            for position in 0..=characters.sum() {
                let (mut once, mut often) = (0.., 0..);
                let cuts = [
                    cut(&whole, || once.next() == Some(position)),
                    cut(&whole, || {
                        often
                            .next()
                            .is_some_and(|index: usize| index.is_multiple_of(position + 1))
                    }),
                ];
                for cut in cuts {
                    assert_eq!(line(&split(cut.clone(), &markers, prompt), pair), expected, "{cut:?}");
                }
            }
        }
    }
}

/// Generates texts from parts of markers, letters and white space.
fn letters() -> impl Strategy<Value = String> {
    let words = [
        "(", ")", "<", "</", "[/", "think", "THINK", ">", "]", " ", "\n", "a", "é", ".",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..10).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_answer_in_any_cut_is_split_as_specified(
        pair in prop::sample::select(PAIRS.to_vec()),
        prompt in prop::sample::select(vec![Text, Open, Closed]),
        is_token: bool,
        texts in prop::collection::vec(letters(), 1..5),
        edges in prop::collection::vec(prop::sample::select(vec!["{", "}"]), 4),
        cuts: u64,
    ) {
        let texts = if is_token { &texts[..] } else { &texts[..1] };
        let line: String = texts.iter().zip(&edges).map(|(text, edge)| format!("{text}{edge}")).collect();
        let line = line.strip_suffix(['{', '}']).unwrap_or_default();
        let whole = answer(line, pair);
        let markers = Arc::new(Markers::with_tokens(pair, if is_token { TOKENS } else { LETTERS }));
        let specified = parts(&whole, &markers, prompt);
        let mut index = 0;
        let pieces = cut(&whole, || { index += 1; (cuts >> (index % 64)) & 1 == 1 });
        prop_assert_eq!(split(whole, &markers, prompt), &specified[..]);
        prop_assert_eq!(split(pieces, &markers, prompt), specified);
    }
}
