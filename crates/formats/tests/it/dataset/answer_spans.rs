//! Compares the answer spans of long conversations with one rendering per answer, for all templates
//! of llama.cpp.

use crate::dataset::says;
use crate::fixtures::{open, templates, vocabulary};
use hearth_formats::chat_template::{ChatTemplate, GenerationPrompt, Message, Role};
use hearth_formats::dataset::{Content, Example, render};
use hearth_formats::gguf::{Gguf, GgufWriter, Strings};
use hearth_formats::tokenizer::Tokenizer;
use regex::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;

/// The reference implementation: one rendering up to each answer and, if needed, one including it.
struct Reference<'a> {
    messages: &'a [Message],
    tokenizer: &'a Tokenizer,
    template: &'a ChatTemplate,
    ids: Vec<u32>,
}

impl Reference<'_> {
    fn spans(&self) -> Option<(Vec<Range<usize>>, bool)> {
        let answers = (0..self.messages.len()).filter(|&index| self.messages[index].role == Role::Assistant);
        let mut spans: Vec<Range<usize>> = Vec::new();
        for index in answers.rev() {
            let limit = spans.last().map_or(self.ids.len(), |next| next.start);
            match self.span(index, limit) {
                Some(span) => spans.push(span),
                None => {
                    spans.truncate(1);
                    return (!spans.is_empty()).then_some((spans, true));
                }
            }
        }
        spans.reverse();
        (!spans.is_empty()).then_some((spans, false))
    }

    fn span(&self, index: usize, limit: usize) -> Option<Range<usize>> {
        let encode = |messages, turn| self.template.encode(self.tokenizer, messages, turn).ok();
        let answer = self.messages[index].content.trim();
        let opened = encode(&self.messages[..index], GenerationPrompt::Add)?;
        let start = self.common(&opened);
        let is_exact = start == opened.len();
        if let Some(length) = self.ids[start..limit].iter().position(|&id| self.is_end(id)) {
            let span = start..start + length + 1;
            let text = self.text(span.clone());
            let text = text.trim();
            let is_similar = !text.is_empty() && (text.ends_with(answer) || answer.ends_with(text));
            if text == answer || (is_exact && is_similar) {
                return Some(span);
            }
        }
        let closed = encode(&self.messages[..=index], GenerationPrompt::Omit)?;
        let end = self.common(&closed).min(limit);
        let is_complete = end == closed.len();
        let last_end = self.ids.get(start..end)?.iter().rposition(|&id| self.is_end(id));
        let span = start..last_end.map_or(end, |last| start + last + 1);
        let is_verified = self.text(span.clone()).trim() == answer || (is_exact && is_complete);
        (is_verified && !span.is_empty()).then_some(span)
    }

    fn common(&self, ids: &[u32]) -> usize {
        ids.iter()
            .zip(&self.ids)
            .take_while(|(left, right)| left == right)
            .count()
    }

    fn is_end(&self, id: u32) -> bool {
        self.tokenizer.is_end_of_generation(id)
    }

    fn text(&self, span: Range<usize>) -> String {
        let ids = self.ids[span].iter().filter(|&&id| !self.tokenizer.is_special(id));
        let bytes: Vec<u8> = ids
            .filter_map(|&id| self.tokenizer.token_bytes(id))
            .flatten()
            .copied()
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The tokenizer of a fixture, with each text of the template that looks like a control token added
/// as one.
fn tokenizer(source: &str) -> Tokenizer {
    let pattern = r#"<\|[^\s|<>'"{}]+\|>|<｜[^\s｜<>'"{}]+｜>|</?[a-zA-Z_:]{2,}>|\[/?[A-Z_]{2,}\]"#;
    let pattern = Regex::new(pattern).unwrap();
    let candidates: BTreeSet<&str> = pattern.find_iter(source).map(|token| token.as_str()).collect();
    let (gguf, _) = open(&vocabulary("smollm"));
    let mut metadata = gguf.metadata().clone();
    let texts = gguf.strings("tokenizer.ggml.tokens").unwrap().unwrap();
    let mut types = gguf.i32s("tokenizer.ggml.token_type").unwrap().unwrap().into_owned();
    let is_new = |token: &&str| !matches!(*token, "<think>" | "</think>") && !texts.iter().any(|text| text == *token);
    let new: Vec<&str> = candidates.into_iter().filter(is_new).collect();
    types.resize(types.len() + new.len(), 3);
    metadata.insert("tokenizer.ggml.tokens", Strings::from_iter(texts.iter().chain(new)));
    metadata.insert("tokenizer.ggml.token_type", types);
    let file = GgufWriter::begin(Vec::new(), &metadata, &[]).unwrap().finish().unwrap();
    Tokenizer::from_gguf(&Gguf::from_bytes(file).unwrap()).unwrap()
}

/// Conversations of many turns: plain, with thoughts, with a system prompt, with control tokens as
/// text, with repeated turns.
fn conversations() -> Vec<Vec<Message>> {
    let conversation =
        |system: bool, question: &dyn Fn(usize) -> String, answer: &dyn Fn(usize) -> String, turns: usize| {
            let mut messages: Vec<Message> = Vec::new();
            if system {
                messages.push(says(Role::System, "Be brief."));
            }
            for turn in 0..turns {
                messages.push(says(Role::User, &question(turn)));
                messages.push(says(Role::Assistant, &answer(turn)));
            }
            messages
        };
    let question = |turn: usize| format!("Question {turn}?");
    let answer = |turn: usize| format!("This is answer {turn}.");
    let thinking = |turn: usize| format!("<think>Hm, {turn}.</think>\n\nIt is {turn}.");
    let tokens = |turn: usize| format!(" <|im_end|>\n<|im_start|>assistant {turn} [INST] </s> ");
    let mut conversations = vec![
        conversation(false, &question, &answer, 12),
        conversation(true, &question, &answer, 12),
        conversation(false, &question, &thinking, 11),
        conversation(true, &tokens, &tokens, 10),
        conversation(false, &|_| "Again?".to_owned(), &|_| "Again.".to_owned(), 13),
        conversation(true, &question, &answer, 3),
    ];
    // Two consecutive answers, and an empty one.
    conversations[0].insert(6, says(Role::Assistant, "And more."));
    conversations[1][8].content.clear();
    conversations[4].push(says(Role::User, "And?"));
    conversations
}

#[test]
fn answer_spans_match_the_reference() {
    let folder = templates().join("llama.cpp");
    let files = fs::read_dir(&folder).unwrap_or_else(|_| {
        panic!("{} is missing: run cargo xtask setup tests", folder.display());
    });
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 70);
    let (mut compared, mut complete) = (0, 0);
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        let tokenizer = tokenizer(&source);
        let template = ChatTemplate::parse(&source, "<s>", "<|im_end|>").unwrap();
        for (number, messages) in conversations().into_iter().enumerate() {
            let Ok(ids) = template.encode(&tokenizer, &messages, GenerationPrompt::Omit) else {
                continue;
            };
            let reference = Reference {
                messages: &messages,
                tokenizer: &tokenizer,
                template: &template,
                ids,
            };
            let expected = reference.spans();
            let content = Content::Chat(messages.clone());
            let rendered = render(&Example { line: 1, content }, &tokenizer, &template, false);
            let case = format!("{} {number}", file.display());
            let Some((spans, last_answer_only)) = expected else {
                assert!(rendered.is_err(), "{case}");
                continue;
            };
            let rendered = rendered.unwrap_or_else(|error| panic!("{case}: {error}"));
            let mut loss_mask = vec![false; reference.ids.len()];
            for span in &spans {
                loss_mask[span.clone()].fill(true);
            }
            // An EOS that the template does not write is appended.
            if rendered.ids.len() > reference.ids.len() {
                loss_mask[spans.last().unwrap().end..].fill(true);
                loss_mask.push(true);
            }
            loss_mask[0] = false;
            assert_eq!(rendered.ids[..reference.ids.len()], reference.ids, "{case}");
            assert_eq!(rendered.last_answer_only, last_answer_only, "{case}");
            assert_eq!(rendered.loss_mask, loss_mask, "{case}");
            compared += 1;
            complete += usize::from(!last_answer_only);
        }
    }
    assert!(compared > 150 && complete > 60, "{compared} {complete}");
}
