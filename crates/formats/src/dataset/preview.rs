//! Previews of examples as the model sees them: which tokens are trained on, added by the template,
//! or truncated.

use super::render::{RenderError, Rendered, turns};
use super::{Content, Example};
use crate::chat_template::{ChatTemplate, GenerationPrompt, Message};
use crate::tokenizer::Tokenizer;

/// An example as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Line or row in the file, from 1.
    pub line: u32,
    /// Its text, in pieces of consecutive tokens with the same flags. Truncated for a very long
    /// example.
    pub pieces: Vec<Piece>,
    /// Total number of tokens.
    pub tokens: u32,
}

/// Consecutive tokens of an example with the same flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// Number of tokens.
    pub tokens: u32,
    /// Whether the tokens are trained on.
    pub trained: bool,
    /// Whether the template added the tokens (special tokens, role names).
    pub template: bool,
    /// Whether the tokens are beyond the sequence length.
    pub truncated: bool,
}

/// Maximum number of tokens shown of an example.
const SHOWN: usize = 4096;

/// Previews of the first `count` examples that have tokens, at a sequence length of `sequence`
/// tokens.
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
    let user_text = match &example.content {
        Content::Text(_) => None,
        Content::Chat(messages) => user_text_mask(messages, ids, tokenizer, template),
        Content::PromptAnswer { system, prompt, answer } => {
            user_text_mask(&turns(system.as_deref(), prompt, answer), ids, tokenizer, template)
        }
    };
    let mut pieces: Vec<Piece> = Vec::new();
    let mut texts: Vec<Vec<u8>> = Vec::new();
    // The piece with an incomplete character: a character across tokens belongs to the piece where
    // it starts.
    let mut open = 0;
    for (index, &id) in ids.iter().enumerate() {
        let special = tokenizer.is_special(id);
        let (trained, truncated) = (
            rendered.loss_mask[index],
            !rendered.is_document && index >= sequence as usize,
        );
        let from_template = special || user_text.as_ref().is_some_and(|mask| !mask[index]);
        match pieces.last_mut() {
            Some(last) if (last.trained, last.template, last.truncated) == (trained, from_template, truncated) => {
                last.tokens += 1
            }
            _ => {
                texts.push(Vec::new());
                pieces.push(Piece {
                    text: String::new(),
                    tokens: 1,
                    trained,
                    template: from_template,
                    truncated,
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
        // A truncated preview may end inside a character.
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

/// Number of bytes missing from the last character.
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

/// Marks the tokens that contain message text. `None` if the template changes the messages too much
/// to tell.
fn user_text_mask(
    messages: &[Message],
    ids: &[u32],
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
) -> Option<Vec<bool>> {
    // Each message is enclosed in noncharacters while the template is rendered.
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
    let text = template
        .render(&enclosed.collect::<Vec<_>>(), GenerationPrompt::Omit)
        .ok()?;
    let mut inside = false;
    let mut template_bytes: Vec<(u8, bool)> = Vec::with_capacity(text.len());
    for character in text.chars() {
        match character {
            OPEN => inside = true,
            CLOSE => inside = false,
            character => template_bytes.extend(character.encode_utf8(&mut [0; 4]).bytes().map(|byte| (byte, inside))),
        }
    }
    // The tokens have the same text, except for spaces added by SentencePiece, a leading BOS and a
    // trailing EOS.
    let mut rest = template_bytes.as_slice();
    let mut mask = Vec::with_capacity(ids.len());
    for (index, &id) in ids.iter().enumerate() {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        let matches = rest.len() >= bytes.len() && rest.iter().zip(bytes).all(|((expected, _), byte)| expected == byte);
        if !matches && tokenizer.is_special(id) && (index == 0 || rest.is_empty()) {
            mask.push(false);
            continue;
        }
        let mut has_user_text = false;
        for &byte in bytes {
            match rest {
                [(expected, inside), more @ ..] if *expected == byte => {
                    has_user_text |= inside;
                    rest = more;
                }
                _ if byte == b' ' => {}
                _ => return None,
            }
        }
        mask.push(has_user_text);
    }
    Some(mask)
}
