//! Rewrites a template's source where minijinja parses it differently from Jinja 2, or would let a
//! template take unbounded time or memory.
//!
//! Tags are tokenized and rewritten; everything else is copied. `{% generation %}` becomes a scope,
//! strings with escapes are decoded as in Python, and operators and literals become filters and
//! methods of Hearth's ([`expression`]). Each body of a loop or a macro starts with a call of
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

/// Maximum `set` tags that assign to a namespace: minijinja lists all its names to test whether
/// there are any.
const MAX_NAMESPACE_SETS: usize = 256;

/// A rewritten source.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// The source for minijinja.
    pub source: String,
    /// A tag could not be parsed and was copied: minijinja must refuse it.
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
    let mut tags = Tags::default();
    rewrite_tags(&source, &mut tags)?;
    Ok(Rewritten {
        source: tags.blocks.with_steps(&tags.out),
        unreadable: tags.unreadable,
    })
}

/// State of rewriting.
#[derive(Default)]
struct Tags {
    out: String,
    blocks: Blocks,
    unreadable: bool,
    /// `set` tags that assign to a namespace.
    names_set: usize,
}

impl Tags {
    /// Rewrites the inside of a tag.
    fn rewrite_tag(&mut self, text: &str, tokens: &[Token], block: bool) -> Result<String, &'static str> {
        if block && let Some(scope) = generation(text, tokens) {
            return Ok(scope);
        }
        if block && tokens.first().is_some_and(|first| first.text(text) == "set") {
            let mut target = tokens
                .iter()
                .map(|token| token.text(text))
                .take_while(|&word| word != "=");
            self.names_set += usize::from(target.any(|word| word == "."));
            if self.names_set > MAX_NAMESPACE_SETS {
                return Err("a template with more than 256 tags that set a name of a namespace");
            }
        }
        let parser = Parser::new(text, tokens);
        let rewritten = if block { parser.statement() } else { parser.printed() };
        match rewritten {
            Err(UNREADABLE) => {
                self.unreadable = true;
                Ok(text.to_owned())
            }
            other => other,
        }
    }
}

/// Copies a template and rewrites its tags.
fn rewrite_tags(source: &str, tags: &mut Tags) -> Result<(), &'static str> {
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        let (opener, block) = match rest.as_bytes().get(start + 1) {
            Some(b'#') => {
                let end = rest[start..].find("#}").map_or(rest.len(), |end| start + end + 2);
                tags.blocks.text(start);
                tags.out.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            Some(b'%') => (start + 2, true),
            Some(b'{') => (start + 2, false),
            _ => {
                tags.blocks.text(start + 1);
                tags.out.push_str(&rest[..=start]);
                rest = &rest[start + 1..];
                continue;
            }
        };
        tags.blocks.text(start);
        // The sign of white space control.
        let opener = opener + usize::from(matches!(rest.as_bytes().get(opener), Some(b'-' | b'+')));
        let inside = &rest[opener..];
        let Some((tokens, length)) = lex(inside, if block { "%}" } else { "}}" })? else {
            break;
        };
        tags.out.push_str(&rest[..opener]);
        let text = &inside[..length];
        if block && matches!(&tokens[..], [only] if only.text(text) == "raw") {
            let end = end_of_raw(&inside[length..]).map_or(inside.len(), |end| length + end);
            tags.blocks.text(end);
            tags.out.push_str(&inside[..end]);
            rest = &inside[end..];
            continue;
        }
        let rewritten = tags.rewrite_tag(text, &tokens, block)?;
        tags.out.push_str(&rewritten);
        let close = length + 2 + usize::from(matches!(inside.as_bytes()[length], b'-' | b'+'));
        tags.out.push_str(&inside[length..close]);
        rest = &inside[close..];
        if block {
            tags.blocks
                .visit_tag(text, &tokens, &inside[length..close], tags.out.len())?;
        }
    }
    tags.out.push_str(rest);
    Ok(())
}

/// The offset of the tag that ends a raw block.
fn end_of_raw(text: &str) -> Option<usize> {
    text.match_indices("{%").map(|(start, _)| start).find(|start| {
        let tag = text[start + 2..].trim_start_matches(['-', '+']).trim_start();
        tag.strip_prefix("endraw")
            .is_some_and(|rest| rest.trim_start().trim_start_matches(['-', '+']).starts_with("%}"))
    })
}

/// `{% generation %}` marks the model's text for training. For rendering it is only a scope.
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
