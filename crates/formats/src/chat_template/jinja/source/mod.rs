//! A template's source, changed where minijinja reads the same text in another way than Jinja 2, and where it would let a template
//! take any time or memory.
//!
//! Tags are read token by token and everything else is copied. `{% generation %}` becomes a scope, texts with escapes are written
//! out as Python reads them, and operators and literals become filters and methods of ours ([`expression`]). Each body of a loop
//! or a macro begins with a call of [`names::STEP`] that charges for the body's own text. Lines keep their numbers but for texts
//! that go on after a backslash.

mod blocks;
mod expression;
mod lex;
pub(super) mod names;

use blocks::Blocks;
use expression::{Reader, UNREADABLE};
use lex::{Token, lex};

/// The largest template. Of the real templates that the tests know, the largest has 17 KB.
const LARGEST: usize = 1 << 20;

/// The most tags that set a name of a namespace: minijinja lists these names whenever it asks whether there are any.
const MOST_NAMES_SET: usize = 256;

/// A source that was gone over.
#[derive(Debug)]
pub(crate) struct Adapted {
    /// The source for minijinja.
    pub source: String,
    /// Whether a tag was left alone because it cannot be read: minijinja must refuse it.
    pub unreadable: bool,
}

/// The source for minijinja.
///
/// # Errors
/// Where a loop is left out of the middle of another block, which makes minijinja panic, and where the template, a tag or its
/// nesting is too large.
pub(crate) fn adapt(source: &str) -> Result<Adapted, &'static str> {
    if source.len() > LARGEST {
        return Err("a template of more than 1 MiB");
    }
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut tags = Tags::default();
    each_tag(&source, &mut tags)?;
    Ok(Adapted {
        source: tags.blocks.with_steps(&tags.out),
        unreadable: tags.unreadable,
    })
}

/// The tags that were gone over so far.
#[derive(Default)]
struct Tags {
    out: String,
    blocks: Blocks,
    unreadable: bool,
    /// Tags that set a name of a namespace.
    names_set: usize,
}

impl Tags {
    /// The inside of a tag for minijinja.
    fn change(&mut self, text: &str, tokens: &[Token], block: bool) -> Result<String, &'static str> {
        if block && let Some(scope) = generation(text, tokens) {
            return Ok(scope);
        }
        if block && tokens.first().is_some_and(|first| first.text(text) == "set") {
            let mut target = tokens
                .iter()
                .map(|token| token.text(text))
                .take_while(|&word| word != "=");
            self.names_set += usize::from(target.any(|word| word == "."));
            if self.names_set > MOST_NAMES_SET {
                return Err("a template with more than 256 tags that set a name of a namespace");
            }
        }
        let reader = Reader::new(text, tokens);
        let changed = if block { reader.statement() } else { reader.printed() };
        match changed {
            Err(UNREADABLE) => {
                self.unreadable = true;
                Ok(text.to_owned())
            }
            other => other,
        }
    }
}

/// Copies a template, its tags changed.
fn each_tag(source: &str, tags: &mut Tags) -> Result<(), &'static str> {
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
        // The sign that says how white space around the tag is treated.
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
        let changed = tags.change(text, &tokens, block)?;
        tags.out.push_str(&changed);
        let close = length + 2 + usize::from(matches!(inside.as_bytes()[length], b'-' | b'+'));
        tags.out.push_str(&inside[length..close]);
        rest = &inside[close..];
        if block {
            tags.blocks.see(text, &tokens, &inside[length..close], tags.out.len())?;
        }
    }
    tags.out.push_str(rest);
    Ok(())
}

/// Where the tag that ends a raw block begins.
fn end_of_raw(text: &str) -> Option<usize> {
    text.match_indices("{%").map(|(start, _)| start).find(|start| {
        let tag = text[start + 2..].trim_start_matches(['-', '+']).trim_start();
        tag.strip_prefix("endraw")
            .is_some_and(|rest| rest.trim_start().trim_start_matches(['-', '+']).starts_with("%}"))
    })
}

/// `{% generation %}` tells training which text is the model's. Here it is a scope of its own and nothing else.
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
