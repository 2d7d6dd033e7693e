//! Shows an example as the model will see it: what is learnt, what the template adds, what is cut off.

use super::render::{RenderError, Rendered, turns};
use super::{Content, Example};
use crate::chat_template::{ChatTemplate, Message, Turn};
use crate::tokenizer::Tokenizer;

/// One example as the model will see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Its line or row in the file, from 1.
    pub line: u32,
    /// Its text in pieces; neighbours with the same mark are one piece. Of a very long example only the beginning.
    pub pieces: Vec<Piece>,
    /// Tokens in all.
    pub tokens: u32,
}

/// A piece of an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// How many tokens.
    pub tokens: u32,
    /// Whether it is learnt.
    pub trained: bool,
    /// Whether the template put it there (special tokens, role names).
    pub template: bool,
    /// Whether it is cut off by the sequence length.
    pub cut: bool,
}

/// Tokens that are shown of an example.
const SHOWN: usize = 4096;

/// The first `count` examples that have tokens, with what a sequence length leaves of them.
pub fn previews(
    examples: &[Example],
    rendered: &[Result<Rendered, RenderError>],
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    sequence: u32,
    count: usize,
) -> Vec<Preview> {
    let shown = examples
        .iter()
        .zip(rendered)
        .filter_map(|(example, rendered)| Some((example, rendered.as_ref().ok()?)));
    shown
        .take(count)
        .map(|(example, rendered)| preview(example, rendered, tokenizer, template, sequence))
        .collect()
}

fn preview(
    example: &Example,
    rendered: &Rendered,
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    sequence: u32,
) -> Preview {
    let ids = &rendered.ids[..rendered.ids.len().min(SHOWN)];
    let typed = match &example.content {
        Content::Text(_) => None,
        Content::Chat(messages) => typed(messages, ids, tokenizer, template),
        Content::PromptAnswer { system, prompt, answer } => {
            typed(&turns(system.as_deref(), prompt, answer), ids, tokenizer, template)
        }
    };
    let mut pieces: Vec<Piece> = Vec::new();
    let mut texts: Vec<Vec<u8>> = Vec::new();
    // The piece with the character under way: one that several tokens share stays whole, where it began.
    let mut open = 0;
    for (place, &id) in ids.iter().enumerate() {
        let special = tokenizer.is_special(id);
        let (trained, cut) = (
            rendered.trained[place],
            !rendered.document && place >= sequence as usize,
        );
        let from_template = special || typed.as_ref().is_some_and(|typed| !typed[place]);
        match pieces.last_mut() {
            Some(last) if (last.trained, last.template, last.cut) == (trained, from_template, cut) => last.tokens += 1,
            _ => {
                texts.push(Vec::new());
                pieces.push(Piece {
                    text: String::new(),
                    tokens: 1,
                    trained,
                    template: from_template,
                    cut,
                });
            }
        }
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        let (rest, bytes) = bytes.split_at(missing_bytes(&texts[open]).min(bytes.len()));
        texts[open].extend_from_slice(rest);
        if !bytes.is_empty() {
            open = texts.len() - 1;
            texts[open].extend_from_slice(bytes);
        }
    }
    if let Some(text) = texts.get_mut(open).filter(|_| ids.len() < rendered.ids.len()) {
        // Where only the beginning is shown, it may end inside a character.
        text.truncate(text.len() - text.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len()));
    }
    for (piece, text) in pieces.iter_mut().zip(texts) {
        piece.text = String::from_utf8_lossy(&text).into_owned();
    }
    Preview {
        line: rendered.line,
        pieces,
        tokens: rendered.ids.len() as u32,
    }
}

/// How many bytes a text lacks of its last character.
fn missing_bytes(bytes: &[u8]) -> usize {
    let after = bytes.iter().rev().take_while(|&&byte| byte & 0xc0 == 0x80).count();
    let Some(&first) = bytes.iter().rev().nth(after) else {
        return 0;
    };
    let length: usize = match first {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    length.saturating_sub(after + 1)
}

/// Which tokens hold what people wrote. None: the template changes it so much that this cannot be said.
fn typed(messages: &[Message], ids: &[u32], tokenizer: &Tokenizer, template: &ChatTemplate) -> Option<Vec<bool>> {
    // Noncharacters stand around each message while the template runs.
    const OPEN: char = '\u{fdee}';
    const CLOSE: char = '\u{fdef}';
    let enclosed = messages.iter().map(|message| {
        let content = &message.content;
        let inner = content.trim();
        let start = content.len() - content.trim_start().len();
        let (before, after) = (&content[..start], &content[start + inner.len()..]);
        Message {
            role: message.role,
            content: format!("{before}{OPEN}{inner}{CLOSE}{after}"),
        }
    });
    let text = template.render(&enclosed.collect::<Vec<_>>(), Turn::Closed).ok()?;
    let mut inside = false;
    let mut written: Vec<(u8, bool)> = Vec::with_capacity(text.len());
    for character in text.chars() {
        match character {
            OPEN => inside = true,
            CLOSE => inside = false,
            other => written.extend(other.encode_utf8(&mut [0; 4]).bytes().map(|byte| (byte, inside))),
        }
    }
    // The tokens say the same, but for spaces that SentencePiece adds, a BOS before and an EOS after.
    let mut rest = written.as_slice();
    let mut typed = Vec::with_capacity(ids.len());
    for (place, &id) in ids.iter().enumerate() {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        let says_it = rest.len() >= bytes.len() && rest.iter().zip(bytes).all(|((written, _), byte)| written == byte);
        if !says_it && tokenizer.is_special(id) && (place == 0 || rest.is_empty()) {
            typed.push(false);
            continue;
        }
        let mut any = false;
        for &byte in bytes {
            match rest {
                [(written, inside), more @ ..] if *written == byte => {
                    any |= inside;
                    rest = more;
                }
                _ if byte == b' ' => {}
                _ => return None,
            }
        }
        typed.push(any);
    }
    Some(typed)
}
