//! Rewrites a template's source where minijinja parses it differently from Jinja 2, or where a
//! template could take unbounded time or memory.
//!
//! Tags are tokenized and rewritten; everything else is copied. `{% generation %}` becomes a scope,
//! strings with escapes are decoded as in Python, and operators and literals become Hearth's
//! filters and methods ([`expression`]). Each body of a loop or a macro starts with a call of
//! [`names::STEP`], which charges for the body's literal text. Line numbers are preserved, except
//! for strings that continue after a backslash.

mod blocks;
mod expression;
mod lex;
pub(super) mod names;

use blocks::Blocks;
use expression::{Parser, UNREADABLE};
use lex::{Token, lex};

/// Maximum size of a template. The largest of the real templates in the tests has 17 KB.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// Maximum `set` tags that assign to a namespace. minijinja lists all names of a namespace to check
/// whether it is empty.
const MAX_NAMESPACE_SETS: usize = 256;

/// A rewritten source.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// The source for minijinja.
    pub source: String,
    /// Whether a tag could not be parsed and was copied. minijinja must refuse it.
    pub unreadable: bool,
}

/// Rewrites a source for minijinja.
///
/// # Errors
/// If `break` or `continue` leaves a loop from inside another block, which makes minijinja panic,
/// or if the template, a tag or its nesting is too large.
pub(crate) fn rewrite(source: &str) -> Result<Rewritten, &'static str> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err("a template of more than 1 MiB");
    }
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut rewriter = Rewriter::default();
    rewriter.rewrite(&source)?;
    Ok(Rewritten {
        source: rewriter.blocks.with_steps(&rewriter.out),
        unreadable: rewriter.unreadable,
    })
}

/// The output and state of [`rewrite`].
#[derive(Default)]
struct Rewriter {
    out: String,
    blocks: Blocks,
    unreadable: bool,
    /// Number of `set` tags that assign to a namespace.
    namespace_sets: usize,
}

impl Rewriter {
    /// Rewrites the text of a tag between its delimiters.
    fn rewrite_tag(&mut self, text: &str, tokens: &[Token], is_block: bool) -> Result<String, &'static str> {
        if is_block && let Some(scope) = generation(text, tokens) {
            return Ok(scope);
        }
        if is_block && tokens.first().is_some_and(|first| first.text(text) == "set") {
            let mut target = tokens
                .iter()
                .map(|token| token.text(text))
                .take_while(|&word| word != "=");
            self.namespace_sets += usize::from(target.any(|word| word == "."));
            if self.namespace_sets > MAX_NAMESPACE_SETS {
                return Err("a template with more than 256 tags that set a name of a namespace");
            }
        }
        let parser = Parser::new(text, tokens);
        let result = if is_block { parser.statement() } else { parser.printed() };
        match result {
            Err(UNREADABLE) => {
                self.unreadable = true;
                Ok(text.to_owned())
            }
            result => result,
        }
    }

    /// Copies a template and rewrites its tags.
    fn rewrite(&mut self, source: &str) -> Result<(), &'static str> {
        let mut rest = source;
        while let Some(start) = rest.find('{') {
            let (tag_start, is_block) = match rest.as_bytes().get(start + 1) {
                Some(b'#') => {
                    let end = rest[start..].find("#}").map_or(rest.len(), |end| start + end + 2);
                    self.blocks.text(start);
                    self.out.push_str(&rest[..end]);
                    rest = &rest[end..];
                    continue;
                }
                Some(b'%') => (start + 2, true),
                Some(b'{') => (start + 2, false),
                _ => {
                    self.blocks.text(start + 1);
                    self.out.push_str(&rest[..=start]);
                    rest = &rest[start + 1..];
                    continue;
                }
            };
            self.blocks.text(start);
            // A sign of white space control belongs to the delimiter.
            let tag_start = tag_start + usize::from(matches!(rest.as_bytes().get(tag_start), Some(b'-' | b'+')));
            let tag = &rest[tag_start..];
            let Some((tokens, length)) = lex(tag, if is_block { "%}" } else { "}}" })? else {
                break;
            };
            self.out.push_str(&rest[..tag_start]);
            let text = &tag[..length];
            if is_block && matches!(&tokens[..], [only] if only.text(text) == "raw") {
                let end = end_of_raw(&tag[length..]).map_or(tag.len(), |end| length + end);
                self.blocks.text(end);
                self.out.push_str(&tag[..end]);
                rest = &tag[end..];
                continue;
            }
            let rewritten = self.rewrite_tag(text, &tokens, is_block)?;
            self.out.push_str(&rewritten);
            let end = length + 2 + usize::from(matches!(tag.as_bytes()[length], b'-' | b'+'));
            let close = &tag[length..end];
            self.out.push_str(close);
            rest = &tag[end..];
            if is_block {
                self.blocks.visit_tag(text, &tokens, close, self.out.len())?;
            }
        }
        self.out.push_str(rest);
        Ok(())
    }
}

/// The offset of the `endraw` tag.
fn end_of_raw(text: &str) -> Option<usize> {
    text.match_indices("{%").map(|(start, _)| start).find(|start| {
        let tag = text[start + 2..].trim_start_matches(['-', '+']).trim_start();
        tag.strip_prefix("endraw")
            .is_some_and(|rest| rest.trim_start().trim_start_matches(['-', '+']).starts_with("%}"))
    })
}

/// The scope that replaces a `generation` tag, which marks the model's text for training. `None`
/// for other tags.
fn generation(text: &str, tokens: &[Token]) -> Option<String> {
    let [only] = tokens else { return None };
    let scope = match only.text(text) {
        "generation" => "with",
        "endgeneration" => "endwith",
        _ => return None,
    };
    Some(format!("{}{scope}{}", &text[..only.start], &text[only.end..]))
}

#[cfg(test)]
mod tests;
