//! Block tags of a template: checks `break` and `continue`, and determines the bytes charged for
//! each body.

use super::lex::{Token, TokenKind};
use super::names::STEP;
use std::collections::BTreeMap;

/// Maximum branches of an `if`. minijinja's parser recurses over them.
const MAX_BRANCHES: usize = 200;

/// Maximum bytes of a body that is charged with its parent.
const SMALL_BODY: usize = 128;

/// Bytes charged for defining a macro in a loop or in another macro: minijinja frees it only when
/// the rendering ends.
const MACRO_BYTES: usize = 1024;

/// The body of a block, or a branch of an `if`.
struct Body {
    /// The enclosing body.
    parent: Option<usize>,
    /// Bytes of literal text in the body.
    bytes: usize,
    /// Whether this is the body of a loop or a macro, which runs any number of times.
    repeats: bool,
    /// Offset of the body in the output.
    start: usize,
    /// Closing delimiter of the tag before the body.
    close: String,
}

/// An open block.
struct OpenBlock {
    /// Whether this is a loop. `None` for an `if`, from which `break` and `continue` may leave a
    /// loop.
    is_loop: Option<bool>,
    /// Index of the body.
    body: usize,
    /// Number of `elif` and `else` tags before the body.
    conditions: usize,
}

/// The blocks of a template.
#[derive(Default)]
pub(super) struct Blocks {
    bodies: Vec<Body>,
    open: Vec<OpenBlock>,
}

impl Blocks {
    /// Counts literal text.
    pub fn text(&mut self, bytes: usize) {
        if let Some(open) = self.open.last() {
            self.bodies[open.body].bytes += bytes;
        }
    }

    /// Processes a block tag that ends at offset `end` of the output.
    ///
    /// # Errors
    /// If `break` or `continue` leaves a loop from inside another block, or an `if` has too many
    /// branches.
    pub fn visit_tag(&mut self, text: &str, tokens: &[Token], close: &str, end: usize) -> Result<(), &'static str> {
        let Some(first) = tokens.first() else { return Ok(()) };
        match first.text(text) {
            "for" => self.begin(Some(true), true, close, end),
            "macro" | "call" => {
                self.text(MACRO_BYTES);
                self.begin(Some(false), true, close, end);
            }
            "with" | "generation" | "filter" | "autoescape" | "block" => self.begin(Some(false), false, close, end),
            "set" if !assigns(text, tokens) => self.begin(Some(false), false, close, end),
            "if" => self.begin(None, false, close, end),
            "elif" | "else" => {
                if let Some(open) = self.open.pop() {
                    self.begin(None, false, close, end);
                    if let Some(branch) = self.open.last_mut() {
                        branch.is_loop = open.is_loop;
                        branch.conditions = open.conditions + 1;
                        if branch.conditions > MAX_BRANCHES {
                            return Err("an `if` with more than 200 branches");
                        }
                    }
                }
            }
            "endfor" | "endwith" | "endgeneration" | "endfilter" | "endautoescape" | "endmacro" | "endcall"
            | "endblock" | "endset" | "endif" => {
                self.open.pop();
            }
            // minijinja refuses both outside of a block.
            "continue" | "break" if self.open.iter().rev().find_map(|open| open.is_loop) == Some(false) => {
                return Err("`continue` or `break` inside another block of the loop");
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, is_loop: Option<bool>, repeats: bool, close: &str, start: usize) {
        let body = self.bodies.len();
        self.bodies.push(Body {
            parent: self.open.last().map(|open| open.body),
            bytes: 0,
            repeats,
            start,
            close: close.to_owned(),
        });
        self.open.push(OpenBlock {
            is_loop,
            body,
            conditions: 0,
        });
    }

    /// Inserts a step at the start of each charged body. The step has the closing delimiter of the
    /// tag before it, which preserves white space.
    pub fn with_steps(mut self, out: &str) -> String {
        let mut steps = BTreeMap::new();
        while let Some(body) = self.bodies.pop() {
            if body.repeats || body.bytes > SMALL_BODY {
                steps.insert(body.start, format!("{{% do {STEP}({}) {}", body.bytes, body.close));
            } else if let Some(parent) = body.parent {
                self.bodies[parent].bytes += body.bytes;
            }
        }
        let mut source = String::with_capacity(out.len() + 32 * steps.len());
        let mut copied = 0;
        for (start, step) in steps {
            source.push_str(&out[copied..start]);
            source.push_str(&step);
            copied = start;
        }
        source.push_str(&out[copied..]);
        source
    }
}

/// Whether a `set` is an assignment rather than a block. The filters of a block may have keyword
/// arguments, with an equals sign.
fn assigns(text: &str, tokens: &[Token]) -> bool {
    let mut depth = 0_usize;
    for token in tokens {
        match (token.kind, token.text(text)) {
            (TokenKind::Open, _) => depth += 1,
            (TokenKind::Close, _) => depth = depth.saturating_sub(1),
            (TokenKind::Operator, "=") if depth == 0 => return true,
            (TokenKind::Operator, "|") if depth == 0 => return false,
            _ => {}
        }
    }
    false
}
