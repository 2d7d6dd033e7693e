//! A second definition of thoughts, in the simplest form: computed from the whole answer at once.
//! The splitter is compared with it, for every pair of markers, as tokens and as letters, and for
//! every cut of the stream.

use super::markers::{Edge, PAIRS};
use super::{Input, Markers, Piece, PromptEnd, Splitter};
use PromptEnd::{Closed, Open, Text};
use hearth_protocol::Part;
use proptest::prelude::*;
use std::sync::Arc;

/// A whole answer: texts and markers that are tokens.
type Answer = Vec<Input>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Said,
    Thought,
    /// It ends with the end of a thought that never began.
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

/// The markers among the letters of a text: replaced where they count.
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
        PromptEnd::Closed | PromptEnd::Text => Kind::Said,
    };
    let mut segments = vec![Segment::new(first, true)];
    let (mut is_closed, mut quoted) = (false, 0);
    for input in answer {
        let last = segments.last_mut().expect("one");
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
            // It has begun.
            Edge::Open if is_thought => {}
            Edge::Open if counts => segments.push(Segment::new(Kind::Thought, false)),
            Edge::Close if counts => {
                if !is_thought && !is_blank {
                    last.kind = Kind::Stray;
                }
                (is_closed, quoted) = (true, 0);
                segments.push(Segment::new(Kind::Said, false));
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
    segments.last_mut().expect("one").is_last = true;
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
        // White space around a marker belongs to it.
        if !is_first || (!is_last && text.trim().is_empty()) {
            text = text.trim_start().to_owned();
        }
        if kind != Kind::Said {
            text = text.trim().to_owned();
        }
        match (parts.last_mut(), kind) {
            _ if text.is_empty() => {}
            (Some(Part::Text { text: before }), Kind::Said) => *before += &text,
            (_, Kind::Said) => parts.push(Part::Text { text }),
            (Some(Part::Thinking { text: before }), _) => *before += &format!("\n\n{text}"),
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

/// The answer with each text cut at the characters for which `cuts` returns `true`.
fn cut(answer: &[Input], mut cuts: impl FnMut() -> bool) -> Answer {
    let mut inputs = Vec::new();
    for input in answer {
        let Input::Text(text) = input else {
            inputs.push(input.clone());
            continue;
        };
        let mut piece = String::new();
        for character in text.chars() {
            if !piece.is_empty() && cuts() {
                inputs.push(Input::Text(std::mem::take(&mut piece)));
            }
            piece.push(character);
        }
        inputs.push(Input::Text(piece));
    }
    inputs
}

/// An answer in one line: `{` and `}` are the markers as tokens, `(` and `)` their letters.
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

/// The parts in one line: thoughts in `{}`, and the letters as in [`answer`].
fn line(parts: &[Part], [open, close]: [&str; 2]) -> String {
    let of = |part: &Part| match part {
        Part::Thinking { text } => format!("{{{text}}}"),
        Part::Text { text } => text.clone(),
        other => panic!("{other:?}"),
    };
    let all: String = parts.iter().map(of).collect();
    all.replace(open, "(").replace(close, ")")
}

const TOKENS: [Option<u32>; 2] = [Some(7), Some(8)];
const LETTERS: [Option<u32>; 2] = [None, None];

/// Which markers are tokens, the prompt's end, the answer, and what becomes of it.
type Case = ([Option<u32>; 2], PromptEnd, &'static str, &'static str);

const CASES: [Case; 55] = [
    // Without a thought.
    (TOKENS, Text, "Paris.", "Paris."),
    (LETTERS, Text, "  two ", "  two "),
    (TOKENS, Text, "  two ", "  two "),
    (TOKENS, Text, "", ""),
    (TOKENS, Text, " \n", " \n"),
    // A thought, and an empty one.
    (TOKENS, Text, "{\nHm.\n}\n\nParis.\n", "{Hm.}Paris.\n"),
    (LETTERS, Text, "(\nHm.\n)\n\nParis.\n", "{Hm.}Paris.\n"),
    (TOKENS, Text, "\n{Hm. }Paris.", "{Hm.}Paris."),
    (LETTERS, Text, "\n(Hm. )Paris.", "{Hm.}Paris."),
    (TOKENS, Text, "{\n\n}\n\nParis.", "Paris."),
    (LETTERS, Text, "(\n\n)\n\nParis.", "Paris."),
    // One that the prompt began, and one that both did.
    (TOKENS, Open, "\nHm.\n}\n\nParis.", "{Hm.}Paris."),
    (LETTERS, Open, "\nHm.\n)\n\nParis.", "{Hm.}Paris."),
    (TOKENS, Open, "{\nHm.}Paris.", "{Hm.}Paris."),
    (TOKENS, Open, "a {b}c", "{a b}c"),
    // One without an end.
    (TOKENS, Text, "{Hm ", "{Hm}"),
    (TOKENS, Open, "Hm )", "{Hm )}"),
    (LETTERS, Open, "Hm </thin ", "{Hm </thin}"),
    (LETTERS, Text, " <thin", " <thin"),
    // An end without a beginning, after a closed thought.
    (TOKENS, Closed, "Hm. \n}\n\nParis.", "{Hm.}Paris."),
    (LETTERS, Closed, "Hm. \n)\n\nParis.", "{Hm.}Paris."),
    (TOKENS, Closed, "\n}\n\nParis.", "Paris."),
    (LETTERS, Closed, "\n)\n\nParis.", "Paris."),
    (TOKENS, Closed, "a}b}c", "{a}b)c"),
    (LETTERS, Closed, "a)b)c", "{a}b)c"),
    (TOKENS, Closed, "}}a", ")a"),
    (LETTERS, Closed, "))a", ")a"),
    (TOKENS, Closed, "Hm.}", "{Hm.}"),
    // And otherwise.
    (TOKENS, Text, "Hm.}Paris.", "{Hm.}Paris."),
    (LETTERS, Text, "Hm.)Paris.", "Hm.)Paris."),
    (TOKENS, Text, "{a}b}c", "{a}b)c"),
    (TOKENS, Open, "a}b}c", "{a}b)c"),
    (LETTERS, Open, "a)b)c", "{a}b)c"),
    // Letters that only look like the tokens: at the beginning, in a thought, in the answer.
    (TOKENS, Text, "(a)b", "(a)b"),
    (TOKENS, Open, "a)b}c", "{a)b}c"),
    (TOKENS, Closed, "a)b", "a)b"),
    (TOKENS, Closed, ")b", ")b"),
    (TOKENS, Closed, "The end is `)`.}So: `)`.", "{The end is `)`.}So: `)`."),
    (TOKENS, Text, "{a}The tags are ( and ).", "{a}The tags are ( and )."),
    // Tokens in what is said: after a thought, in a line, and in pairs.
    (TOKENS, Text, "{a}The tag `}`\n}\nends.", "{a}The tag `)`\n)\nends."),
    (TOKENS, Text, "{a}Use {x}.", "{a}Use (x)."),
    (TOKENS, Open, "a} }b", "{a})b"),
    (TOKENS, Closed, "Use {x} and {y}.", "Use (x) and (y)."),
    (TOKENS, Closed, "Use {x} so}c} {d", "{Use (x) so}c) (d"),
    (TOKENS, Closed, "a}{b}c", "{a\n\nb}c"),
    // Letters that count are quoted in pairs, or after the thought.
    (LETTERS, Closed, "Use (x) and ((y)).", "Use (x) and ((y))."),
    (LETTERS, Closed, "Use (x) so)c", "{Use (x) so}c"),
    (LETTERS, Text, "(a)b (c)", "{a}b (c)"),
    (LETTERS, Text, "In HTML, ( is ) no tag.", "In HTML, ( is ) no tag."),
    // Thoughts between what is said.
    (TOKENS, Text, "a\n{b} c", "a\n{b}c"),
    (TOKENS, Text, "{a}b\n{c}d", "{a}b\n{c}d"),
    (TOKENS, Text, "{a} {b}c", "{a\n\nb}c"),
    // One marker is a token.
    ([None, Some(8)], Text, "(a)b}c", "{a)b}c"),
    ([Some(7), None], Closed, "a\n{b)c", "a\n{b}c"),
    ([Some(7), None], Closed, "a{b)c)d", "{a(b)c}d"),
];

#[test]
fn thoughts_are_what_the_specification_says_in_every_cut() {
    for pair in PAIRS {
        for (tokens, prompt, given, expected) in CASES {
            let markers = Arc::new(Markers::with_tokens(pair, tokens));
            let whole = answer(given, pair);
            let inputs = || whole.iter().cloned();
            assert_eq!(
                line(&split(inputs(), &markers, prompt), pair),
                expected,
                "{given:?} {pair:?}"
            );
            if whole.len() == 1 || tokens == TOKENS {
                let specified = parts(&whole, &markers, prompt);
                assert_eq!(line(&specified, pair), expected, "the specification of {given:?}");
            }
            let texts = whole.iter().filter_map(|input| match input {
                Input::Text(text) => Some(text.chars().count()),
                Input::Marker(_) => None,
            });
            for at in 0..=texts.sum() {
                let (mut once, mut often) = (0.., 0..);
                let cuts = [
                    cut(&whole, || once.next() == Some(at)),
                    cut(&whole, || {
                        often.next().is_some_and(|now: usize| now.is_multiple_of(at + 1))
                    }),
                ];
                for cut in cuts {
                    assert_eq!(line(&split(cut.clone(), &markers, prompt), pair), expected, "{cut:?}");
                }
            }
        }
    }
}

/// Letters and white space, of which markers are made.
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
        let given: String = texts.iter().zip(&edges).map(|(text, edge)| format!("{text}{edge}")).collect();
        let given = given.strip_suffix(['{', '}']).unwrap_or_default();
        let whole = answer(given, pair);
        let markers = Arc::new(Markers::with_tokens(pair, if is_token { TOKENS } else { LETTERS }));
        let specified = parts(&whole, &markers, prompt);
        let mut at = 0;
        let pieces = cut(&whole, || { at += 1; (cuts >> (at % 64)) & 1 == 1 });
        prop_assert_eq!(split(whole, &markers, prompt), &specified[..]);
        prop_assert_eq!(split(pieces, &markers, prompt), specified);
    }
}
