//! The blocks of a template: what may not be left out of their middle, and what their bodies are charged.

use super::lex::{Kind, Token};
use super::names::STEP;
use std::collections::BTreeMap;

/// Conditions that one after the other may have; the parser recurses over them.
const MOST_CONDITIONS: usize = 200;

/// Bytes of a body that are charged with what is around it.
const SMALL: usize = 128;

/// What defining a macro in a loop or in another macro is charged: minijinja frees it when the rendering ends.
const DEFINITION: usize = 1024;

/// A body, or a part of one between `if`, `elif` and `else`.
struct Body {
    /// The body that this one is in.
    around: Option<usize>,
    /// Bytes of the template's own text in it.
    bytes: usize,
    /// Whether it runs more than once or on its own: bodies of loops and macros.
    repeats: bool,
    /// Where in the output it begins, and the end of its tag.
    start: usize,
    close: String,
}

/// A block that is open.
struct Open {
    /// Whether it is a loop, if leaving a loop from inside of it matters.
    is_loop: Option<bool>,
    body: usize,
    conditions: usize,
}

#[derive(Default)]
pub(super) struct Blocks {
    bodies: Vec<Body>,
    open: Vec<Open>,
}

impl Blocks {
    /// Text of the template's own.
    pub fn text(&mut self, bytes: usize) {
        if let Some(open) = self.open.last() {
            self.bodies[open.body].bytes += bytes;
        }
    }

    /// A tag that ends at a place of the output.
    ///
    /// # Errors
    /// Where a loop is left out of the middle of another block, and where a condition has too many branches.
    pub fn see(&mut self, text: &str, tokens: &[Token], close: &str, place: usize) -> Result<(), &'static str> {
        let Some(first) = tokens.first() else { return Ok(()) };
        match first.text(text) {
            "for" => self.begin(Some(true), true, close, place),
            "macro" | "call" => {
                self.text(DEFINITION);
                self.begin(Some(false), true, close, place);
            }
            "with" | "generation" | "filter" | "autoescape" | "block" => self.begin(Some(false), false, close, place),
            "set" if !assigns(text, tokens) => self.begin(Some(false), false, close, place),
            "if" => self.begin(None, false, close, place),
            "elif" | "else" => {
                if let Some(open) = self.open.pop() {
                    self.begin(None, false, close, place);
                    if let Some(branch) = self.open.last_mut() {
                        branch.is_loop = open.is_loop;
                        branch.conditions = open.conditions + 1;
                        if branch.conditions > MOST_CONDITIONS {
                            return Err("a condition with more than 200 branches");
                        }
                    }
                }
            }
            "endfor" | "endwith" | "endgeneration" | "endfilter" | "endautoescape" | "endmacro" | "endcall"
            | "endblock" | "endset" | "endif" => {
                self.open.pop();
            }
            // Outside of any it is for minijinja to say so.
            "continue" | "break" if self.open.iter().rev().find_map(|open| open.is_loop) == Some(false) => {
                return Err("`continue` or `break` inside a block that the loop is around");
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, is_loop: Option<bool>, repeats: bool, close: &str, start: usize) {
        let body = self.bodies.len();
        self.bodies.push(Body {
            around: self.open.last().map(|open| open.body),
            bytes: 0,
            repeats,
            start,
            close: close.to_owned(),
        });
        self.open.push(Open {
            is_loop,
            body,
            conditions: 0,
        });
    }

    /// The output with a step at the beginning of each body that is charged. It ends as the tag before it does, so that white
    /// space stays what it is.
    pub fn with_steps(mut self, out: &str) -> String {
        let mut steps = BTreeMap::new();
        while let Some(body) = self.bodies.pop() {
            if body.repeats || body.bytes > SMALL {
                steps.insert(body.start, format!("{{% do {STEP}({}) {}", body.bytes, body.close));
            } else if let Some(around) = body.around {
                self.bodies[around].bytes += body.bytes;
            }
        }
        let mut whole = String::with_capacity(out.len() + 32 * steps.len());
        let mut done = 0;
        for (place, step) in steps {
            whole.push_str(&out[done..place]);
            whole.push_str(&step);
            done = place;
        }
        whole.push_str(&out[done..]);
        whole
    }
}

/// Whether a `set` is an assignment and no block: the arguments of a block's filters may have an equals sign too.
fn assigns(text: &str, tokens: &[Token]) -> bool {
    let mut depth = 0_usize;
    for token in tokens {
        match (token.kind, token.text(text)) {
            (Kind::Open, _) => depth += 1,
            (Kind::Close, _) => depth = depth.saturating_sub(1),
            (Kind::Operator, "=") if depth == 0 => return true,
            (Kind::Operator, "|") if depth == 0 => return false,
            _ => {}
        }
    }
    false
}
