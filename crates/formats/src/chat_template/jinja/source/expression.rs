//! Rewrites expressions so that everything that can take unbounded memory or time is one of
//! Hearth's filters or methods.
//!
//! The result contains no `~`, `+`, `*`, comparisons, `in` or slices, and no lists, tuples and
//! dictionaries that are not constant. Operator precedence is minijinja's, which agrees with Jinja
//! 2 where it matters.

use super::lex::{Token, TokenKind, decode_escapes};
use super::names;

/// The error for a tag that cannot be parsed. It is copied, and minijinja reports the syntax error.
pub(super) const UNREADABLE: &str = "an expression of this kind";

/// Maximum nesting of expressions: brackets, signs, `not` and conditions.
const MAX_DEPTH: usize = 300;

type Result<T> = std::result::Result<T, &'static str>;

/// A rewritten expression, with the white space before it.
struct Expr {
    text: String,
    /// Whether a filter may follow without brackets.
    filterable: bool,
    /// Whether an attribute, a subscript or a call may follow without brackets.
    primary: bool,
    /// Whether minijinja evaluates it when it parses the template.
    constant: bool,
}

impl Expr {
    fn primary(text: String) -> Self {
        Self {
            text,
            filterable: true,
            primary: true,
            constant: false,
        }
    }

    fn filtered(text: String) -> Self {
        Self {
            primary: false,
            ..Self::primary(text)
        }
    }

    fn compound(text: String) -> Self {
        Self {
            filterable: false,
            ..Self::filtered(text)
        }
    }

    fn constant(text: String) -> Self {
        Self {
            constant: true,
            ..Self::primary(text)
        }
    }

    fn in_brackets(&self) -> String {
        let expression = self.text.trim_start();
        let space = &self.text[..self.text.len() - expression.len()];
        format!("{space}({expression})")
    }

    /// The text, in brackets if a filter could not follow otherwise.
    fn before_filter(self) -> String {
        if self.filterable { self.text } else { self.in_brackets() }
    }

    /// The text, in brackets if a subscript could not follow otherwise.
    fn before_subscript(self) -> String {
        if self.primary { self.text } else { self.in_brackets() }
    }
}

/// A recursive descent parser over the tokens of a tag, which rewrites as it parses.
pub(super) struct Parser<'t> {
    text: &'t str,
    tokens: &'t [Token],
    /// Index of the next token.
    next: usize,
    /// Offset of the first byte that is not copied yet.
    copied: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    pub fn new(text: &'t str, tokens: &'t [Token]) -> Self {
        Self {
            text,
            tokens,
            next: 0,
            copied: 0,
            depth: 0,
        }
    }

    /// Rewrites the expression of `{{ }}`.
    pub fn printed(mut self) -> Result<String> {
        let out = self.expression()?.text;
        self.end(out)
    }

    /// Rewrites a statement, including the name of its tag.
    pub fn statement(mut self) -> Result<String> {
        let tag = self.word();
        let mut out = String::new();
        match tag {
            "for" => {
                while !self.is_name("in") {
                    out.push_str(&self.next_token()?);
                }
                out.push_str(&self.next_token()?);
                out.push_str(&format!("{}|{}", self.or_expression()?.before_filter(), names::SCAN));
                if self.is_name("if") {
                    out.push_str(&self.next_token()?);
                    out.push_str(&self.expression()?.text);
                }
                if self.is_name("recursive") {
                    out.push_str(&self.next_token()?);
                }
            }
            "if" | "elif" => {
                out.push_str(&self.next_token()?);
                out.push_str(&self.or_expression()?.text);
            }
            "autoescape" | "do" => {
                out.push_str(&self.next_token()?);
                out.push_str(&self.expression()?.text);
            }
            "set" => self.set(&mut out)?,
            "with" => {
                out.push_str(&self.next_token()?);
                while self.next < self.tokens.len() {
                    self.copy_through_equals(&mut out)?;
                    out.push_str(&self.expression()?.text);
                    if self.is(",") {
                        out.push_str(&self.next_token()?);
                    }
                }
            }
            "macro" => {
                out.push_str(&self.next_token()?);
                out.push_str(&self.next_token()?);
                self.parameters(&mut out)?;
            }
            "call" => {
                out.push_str(&self.next_token()?);
                if self.is("(") {
                    self.parameters(&mut out)?;
                }
                out.push_str(&self.expression()?.text);
            }
            "filter" => {
                out.push_str(&self.next_token()?);
                self.filter_chain(&mut out)?;
            }
            "include" | "import" | "from" | "extends" => return Err("a tag that reads another template"),
            // All others consist of names only. minijinja refuses unknown tags.
            _ => {
                while self.next < self.tokens.len() {
                    if self.tokens[self.next].kind != TokenKind::Name {
                        return Err(UNREADABLE);
                    }
                    out.push_str(&self.next_token()?);
                }
            }
        }
        self.end(out)
    }

    fn set(&mut self, out: &mut String) -> Result<()> {
        out.push_str(&self.next_token()?);
        let mut sets_namespace = false;
        while self.next < self.tokens.len() && !self.is("=") && !self.is("|") {
            sets_namespace |= self.is(".");
            out.push_str(&self.next_token()?);
        }
        if self.is("|") {
            out.push_str(&self.next_token()?);
            return self.filter_chain(out);
        }
        if self.next == self.tokens.len() {
            return Ok(());
        }
        out.push_str(&self.next_token()?);
        let mut items = vec![self.expression()?];
        let is_tuple = self.is(",");
        while self.is(",") {
            let space = self.space()?;
            if self.next == self.tokens.len() {
                break;
            }
            let mut item = self.expression()?;
            item.text.insert_str(0, &space);
            items.push(item);
        }
        let value = match items.pop() {
            Some(only) if !is_tuple => only,
            last => {
                items.extend(last);
                container(items, names::TUPLE, String::new())
            }
        };
        if sets_namespace {
            out.push_str(&format!("{}|{}", value.before_filter(), names::NESTED));
        } else {
            out.push_str(&value.text);
        }
        Ok(())
    }

    /// Filters without a filtered value.
    fn filter_chain(&mut self, out: &mut String) -> Result<()> {
        loop {
            self.filter_name(out)?;
            if self.is("(") {
                out.push_str(&self.arguments(false)?);
            }
            if !self.is("|") {
                return Ok(());
            }
            out.push_str(&self.next_token()?);
        }
    }

    /// The parameters of a macro.
    fn parameters(&mut self, out: &mut String) -> Result<()> {
        out.push_str(&self.expect("(")?);
        while !self.is(")") {
            out.push_str(&self.next_token()?);
            if self.is("=") {
                out.push_str(&self.next_token()?);
                out.push_str(&self.expression()?.text);
            }
            self.comma_or(")", out)?;
        }
        out.push_str(&self.next_token()?);
        Ok(())
    }

    /// Copies a comma, if present. Otherwise `close` must follow.
    fn comma_or(&mut self, close: &str, out: &mut String) -> Result<()> {
        if self.is(",") {
            out.push_str(&self.next_token()?);
        } else if !self.is(close) {
            return Err(UNREADABLE);
        }
        Ok(())
    }

    /// Copies up to and including an equals sign.
    fn copy_through_equals(&mut self, out: &mut String) -> Result<()> {
        while !self.is("=") {
            out.push_str(&self.next_token()?);
        }
        out.push_str(&self.next_token()?);
        Ok(())
    }

    /// Copies the end of the tag. All its tokens must be consumed.
    fn end(self, mut out: String) -> Result<String> {
        if self.next < self.tokens.len() {
            return Err(UNREADABLE);
        }
        out.push_str(&self.text[self.copied..]);
        Ok(out)
    }

    /// An expression, which may be conditional (`a if b else c`).
    fn expression(&mut self) -> Result<Expr> {
        self.nested(|parser| {
            let mut expr = parser.or_expression()?;
            while parser.is_name("if") {
                let mut text = expr.text;
                text.push_str(&parser.next_token()?);
                text.push_str(&parser.or_expression()?.text);
                if parser.is_name("else") {
                    text.push_str(&parser.next_token()?);
                    text.push_str(&parser.expression()?.text);
                }
                expr = Expr::compound(text);
            }
            Ok(expr)
        })
    }

    /// `or` and operators of higher precedence.
    fn or_expression(&mut self) -> Result<Expr> {
        self.binary_chain("or", |parser| parser.binary_chain("and", Self::negation))
    }

    fn binary_chain(&mut self, operator: &str, mut operand: impl FnMut(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let mut expr = operand(self)?;
        while self.is_name(operator) {
            let operator = self.next_token()?;
            expr = Expr::compound(expr.text + &operator + &operand(self)?.text);
        }
        Ok(expr)
    }

    fn negation(&mut self) -> Result<Expr> {
        if !self.is_name("not") {
            return self.comparison();
        }
        self.nested(|parser| {
            let not = parser.next_token()?;
            Ok(Expr::compound(not + &parser.negation()?.text))
        })
    }

    fn comparison(&mut self) -> Result<Expr> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        while let Some(filter) = self.comparator() {
            let mut space = self.space()?;
            if filter == names::NOT_IN {
                space.push_str(&self.space()?);
            }
            rest.push((filter, space, self.sum()?));
        }
        Ok(match rest.len() {
            0 => first,
            1 => {
                let mut text = first.before_filter();
                for (filter, space, right) in rest {
                    text.push_str(&format!("{space}|{filter}({})", right.text));
                }
                Expr::filtered(text)
            }
            _ => {
                let mut text = format!("{}|{}(", first.before_filter(), names::CHAIN);
                for (filter, space, right) in rest {
                    text.push_str(&format!("'{filter}',{space}{},", right.text));
                }
                Expr::filtered(text + ")")
            }
        })
    }

    /// The filter of the next comparison operator.
    fn comparator(&self) -> Option<&'static str> {
        let token = self.tokens.get(self.next)?;
        let second = self.tokens.get(self.next + 1).map(|token| token.text(self.text));
        match (token.kind, self.word()) {
            (TokenKind::Operator, "==") => Some(names::EQUAL),
            (TokenKind::Operator, "!=") => Some(names::NOT_EQUAL),
            (TokenKind::Operator, "<") => Some(names::LESS),
            (TokenKind::Operator, "<=") => Some(names::LESS_EQUAL),
            (TokenKind::Operator, ">") => Some(names::GREATER),
            (TokenKind::Operator, ">=") => Some(names::GREATER_EQUAL),
            (TokenKind::Name, "in") => Some(names::IN),
            (TokenKind::Name, "not") if second == Some("in") => Some(names::NOT_IN),
            _ => None,
        }
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut expr = self.concatenation()?;
        loop {
            if self.is("+") {
                expr = self.operator_chain(expr, "+", names::ADD, Self::concatenation)?;
            } else if self.is("-") {
                let sign = self.next_token()?;
                expr = Expr::compound(expr.text + &sign + &self.concatenation()?.text);
            } else {
                return Ok(expr);
            }
        }
    }

    fn concatenation(&mut self) -> Result<Expr> {
        let expr = self.product()?;
        if self.is("~") {
            return self.operator_chain(expr, "~", names::CONCATENATE, Self::product);
        }
        Ok(expr)
    }

    fn product(&mut self) -> Result<Expr> {
        let mut expr = self.power()?;
        loop {
            let after_string = self.next > 0 && self.tokens[self.next - 1].kind == TokenKind::String;
            if self.is("*") {
                expr = self.operator_chain(expr, "*", names::MULTIPLY, Self::power)?;
            } else if self.is("%") && after_string {
                let space = self.space()?;
                let right = self.power()?;
                expr = Expr::filtered(format!(
                    "{}{space}|{}({})",
                    expr.before_filter(),
                    names::MODULO,
                    right.text
                ));
            } else if ["/", "//", "%"].iter().any(|operator| self.is(operator)) {
                let operator = self.next_token()?;
                expr = Expr::compound(expr.text + &operator + &self.power()?.text);
            } else {
                return Ok(expr);
            }
        }
    }

    /// A chain of the same operator, as one filter.
    fn operator_chain(
        &mut self,
        first: Expr,
        operator: &str,
        filter: &str,
        operand: impl Fn(&mut Self) -> Result<Expr>,
    ) -> Result<Expr> {
        let mut text = format!("{}{}|{filter}(", first.before_filter(), self.space()?);
        text.push_str(&operand(self)?.text);
        while self.is(operator) {
            text.push_str(&self.space()?);
            text.push(',');
            text.push_str(&operand(self)?.text);
        }
        Ok(Expr::filtered(text + ")"))
    }

    fn power(&mut self) -> Result<Expr> {
        let mut expr = self.operand()?;
        while self.is("**") {
            let operator = self.next_token()?;
            expr = Expr::compound(expr.text + &operator + &self.operand()?.text);
        }
        Ok(expr)
    }

    /// An operand with its filters and tests.
    fn operand(&mut self) -> Result<Expr> {
        let mut expr = self.signed()?;
        loop {
            if self.is("|") {
                let mut text = expr.before_filter();
                text.push_str(&self.next_token()?);
                self.filter_name(&mut text)?;
                if self.is("(") {
                    text.push_str(&self.arguments(false)?);
                }
                expr = Expr::filtered(text);
            } else if self.is_name("is") {
                let mut text = expr.before_filter();
                text.push_str(&self.next_token()?);
                if self.is_name("not") {
                    text.push_str(&self.next_token()?);
                }
                self.filter_name(&mut text)?;
                if self.is("(") {
                    text.push_str(&self.arguments(false)?);
                } else if self.begins_argument() {
                    text.push_str(&format!("({})", self.signed()?.text));
                }
                expr = Expr::filtered(text);
            } else {
                return Ok(expr);
            }
        }
    }

    /// Whether the next token starts the argument of a test without brackets.
    fn begins_argument(&self) -> bool {
        let Some(token) = self.tokens.get(self.next) else {
            return false;
        };
        match (token.kind, self.word()) {
            (TokenKind::Name, word) => !matches!(word, "and" | "or" | "else" | "is"),
            (TokenKind::Number | TokenKind::String, _) | (TokenKind::Open, "[" | "{") | (TokenKind::Operator, "-") => {
                true
            }
            _ => false,
        }
    }

    /// A value with attributes, subscripts and calls, optionally after signs.
    fn signed(&mut self) -> Result<Expr> {
        if !self.is("-") {
            let is_loop = self.is_name("loop");
            let value = self.value()?;
            return self.with_postfixes(value, is_loop);
        }
        self.nested(|parser| {
            let sign = parser.next_token()?;
            let operand = parser.signed()?;
            let constant = operand.constant;
            Ok(Expr {
                constant,
                ..Expr::filtered(sign + &operand.text)
            })
        })
    }

    /// Attributes, subscripts and calls of a value. Arguments that a call traverses are charged:
    /// the argument of `loop`, and the arguments that `changed` compares.
    fn with_postfixes(&mut self, mut expr: Expr, is_loop: bool) -> Result<Expr> {
        let mut traverses_arguments = is_loop;
        loop {
            if self.is(".") {
                let mut text = expr.before_subscript();
                text.push_str(&self.next_token()?);
                traverses_arguments = self.word() == "changed";
                match self.tokens.get(self.next).map(|token| token.kind) {
                    Some(TokenKind::Name) => text.push_str(&self.next_token()?),
                    Some(TokenKind::Number) if self.word().bytes().all(|byte| byte.is_ascii_digit()) => {
                        text.push_str(&format!("{}({})", names::ITEM, self.next_token()?));
                    }
                    _ => return Err(UNREADABLE),
                }
                expr = Expr::primary(text);
                continue;
            }
            if self.is("[") {
                expr = self.subscript(expr)?;
            } else if self.is("(") {
                let text = expr.before_subscript() + &self.arguments(traverses_arguments)?;
                expr = Expr::primary(text);
            } else {
                return Ok(expr);
            }
            traverses_arguments = false;
        }
    }

    fn subscript(&mut self, expr: Expr) -> Result<Expr> {
        let mut text = expr.before_subscript();
        text.push_str(&self.space()?);
        let mut parts = Vec::new();
        let mut part = None;
        while !self.is("]") {
            if self.is(":") {
                let space = self.space()?;
                parts.push(part.take().unwrap_or_else(|| "none".to_owned()) + &space);
            } else if part.is_none() {
                part = Some(self.expression()?.text);
            } else {
                return Err(UNREADABLE);
            }
        }
        let space = self.space()?;
        match (&parts[..], part) {
            ([], Some(key)) if is_literal(&key) => text.push_str(&format!("[{key}{space}]")),
            ([], Some(key)) => text.push_str(&format!(".{}({key}{space})", names::ITEM)),
            ([], None) => return Err(UNREADABLE),
            (_, last) => {
                parts.push(last.unwrap_or_else(|| "none".to_owned()));
                if parts.len() > 3 {
                    return Err(UNREADABLE);
                }
                text.push_str(&format!(".{}({}{space})", names::SLICE, parts.join(",")));
            }
        }
        Ok(Expr::primary(text))
    }

    /// The arguments of a call, in brackets. `are_traversed`: the call traverses them, which is
    /// charged.
    fn arguments(&mut self, are_traversed: bool) -> Result<String> {
        let mut out = self.expect("(")?;
        while !self.is(")") {
            let is_named = self
                .tokens
                .get(self.next + 1)
                .is_some_and(|token| token.text(self.text) == "=");
            if self.is("*") || self.is("**") {
                out.push_str(&self.next_token()?);
                out.push_str(&format!("{}|{}", self.expression()?.before_filter(), names::TRAVERSE));
            } else if is_named {
                out.push_str(&self.next_token()?);
                out.push_str(&self.next_token()?);
                out.push_str(&self.expression()?.text);
            } else if are_traversed {
                out.push_str(&format!("{}|{}", self.expression()?.before_filter(), names::TRAVERSE));
            } else {
                out.push_str(&self.expression()?.text);
            }
            self.comma_or(")", &mut out)?;
        }
        out.push_str(&self.next_token()?);
        Ok(out)
    }

    fn filter_name(&mut self, out: &mut String) -> Result<()> {
        loop {
            match self.tokens.get(self.next) {
                Some(token) if token.kind == TokenKind::Name => out.push_str(&self.next_token()?),
                _ => return Err(UNREADABLE),
            }
            if !self.is(".") {
                return Ok(());
            }
            out.push_str(&self.next_token()?);
        }
    }

    /// A name, a literal or an expression in brackets.
    fn value(&mut self) -> Result<Expr> {
        let Some(token) = self.tokens.get(self.next) else {
            return Err(UNREADABLE);
        };
        match (token.kind, self.word()) {
            (TokenKind::Name, "true" | "True" | "false" | "False" | "none" | "None") => {
                Ok(Expr::constant(self.next_token()?))
            }
            (TokenKind::Name, "and" | "or" | "not" | "in" | "is" | "if" | "else") => Err(UNREADABLE),
            (TokenKind::Name, _) => Ok(Expr::primary(self.next_token()?)),
            (TokenKind::Number, _) => Ok(Expr::constant(self.next_token()?)),
            (TokenKind::String, _) => {
                let mut text = String::new();
                while self
                    .tokens
                    .get(self.next)
                    .is_some_and(|token| token.kind == TokenKind::String)
                {
                    text.push_str(&self.next_token()?);
                }
                Ok(Expr::constant(text))
            }
            (TokenKind::Open, "(") => self.nested(Self::in_brackets),
            (TokenKind::Open, "[") => self.nested(|parser| {
                let space = parser.space()?;
                let (items, _) = parser.items("]")?;
                let end = parser.space()?;
                Ok(container(items, names::LIST, end).after(&space))
            }),
            (TokenKind::Open, "{") => self.nested(Self::dictionary),
            _ => Err(UNREADABLE),
        }
    }

    /// The items up to a closing bracket, and whether there is a comma.
    fn items(&mut self, close: &str) -> Result<(Vec<Expr>, bool)> {
        let mut items = Vec::new();
        let mut space = String::new();
        let mut has_comma = false;
        while !self.is(close) {
            let item = self.expression()?;
            items.push(item.after(&space));
            if self.is(",") {
                has_comma = true;
                space = self.space()?;
            } else if !self.is(close) {
                return Err(UNREADABLE);
            }
        }
        Ok((items, has_comma))
    }

    fn in_brackets(&mut self) -> Result<Expr> {
        let space = self.space()?;
        let (mut items, has_comma) = self.items(")")?;
        let end = self.space()?;
        if items.len() == 1 && !has_comma {
            let only = items.remove(0);
            return Ok(Expr {
                constant: only.constant,
                ..Expr::primary(format!("{space}({}{end})", only.text))
            });
        }
        Ok(container(items, names::TUPLE, end).after(&space))
    }

    fn dictionary(&mut self) -> Result<Expr> {
        let space = self.space()?;
        let mut pairs = Vec::new();
        while !self.is("}") {
            pairs.push(self.expression()?);
            let space = self.expect_space(":")?;
            pairs.push(self.expression()?.after(&space));
            if self.is(",") {
                let space = self.space()?;
                if let Some(value) = pairs.last_mut() {
                    value.text.push_str(&space);
                }
            } else if !self.is("}") {
                return Err(UNREADABLE);
            }
        }
        let end = self.space()?;
        Ok(container(pairs, names::DICTIONARY, end).after(&space))
    }

    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Result<Expr>) -> Result<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("a tag with more than 300 expressions inside each other");
        }
        let expr = parse(self);
        self.depth -= 1;
        expr
    }

    /// The text of the next token. Empty at the end.
    fn word(&self) -> &'t str {
        self.tokens.get(self.next).map_or("", |token| token.text(self.text))
    }

    /// Whether the next token is this operator or bracket.
    fn is(&self, sign: &str) -> bool {
        let token = self.tokens.get(self.next);
        token.is_some_and(|token| matches!(token.kind, TokenKind::Operator | TokenKind::Open | TokenKind::Close))
            && self.word() == sign
    }

    fn is_name(&self, name: &str) -> bool {
        let token = self.tokens.get(self.next);
        token.is_some_and(|token| token.kind == TokenKind::Name) && self.word() == name
    }

    /// Consumes the next token. Returns it with the white space before it.
    fn next_token(&mut self) -> Result<String> {
        let token = *self.tokens.get(self.next).ok_or(UNREADABLE)?;
        let word = self.word();
        if token.kind == TokenKind::Name && names::RESERVED.contains(&word) {
            return Err("a name that Hearth reserves");
        }
        let mut out = self.space()?;
        match token.kind {
            TokenKind::String if word.contains('\\') => out.push_str(&decode_escapes(word)),
            _ => out.push_str(word),
        }
        Ok(out)
    }

    /// Consumes the next token. Returns only the white space before it.
    fn space(&mut self) -> Result<String> {
        let token = self.tokens.get(self.next).ok_or(UNREADABLE)?;
        let space = self.text[self.copied..token.start].to_owned();
        self.next += 1;
        self.copied = token.end;
        Ok(space)
    }

    fn expect(&mut self, sign: &str) -> Result<String> {
        if self.is(sign) {
            self.next_token()
        } else {
            Err(UNREADABLE)
        }
    }

    /// Consumes an operator. Returns only the white space before it.
    fn expect_space(&mut self, sign: &str) -> Result<String> {
        if self.is(sign) { self.space() } else { Err(UNREADABLE) }
    }
}

impl Expr {
    /// The expression after some white space.
    fn after(mut self, space: &str) -> Self {
        self.text.insert_str(0, space);
        self
    }
}

/// A list, tuple or dictionary: a literal if all its items are constant, otherwise a filter.
fn container(parts: Vec<Expr>, filter: &str, end: String) -> Expr {
    if parts.iter().all(|part| part.constant) {
        let texts: Vec<&str> = parts.iter().map(|part| &*part.text).collect();
        let text = match filter {
            names::LIST => format!("[{}{end}]", texts.join(",")),
            names::TUPLE if texts.len() == 1 => format!("({},{end})", texts[0]),
            names::TUPLE => format!("({}{end})", texts.join(",")),
            _ => {
                let pairs: Vec<String> = texts.chunks(2).map(|pair| pair.join(":")).collect();
                format!("{{{}{end}}}", pairs.join(","))
            }
        };
        return Expr::constant(text);
    }
    let mut parts = parts.into_iter();
    let first = parts.next().map(Expr::before_filter).unwrap_or_default();
    let others: Vec<String> = parts.map(|part| part.text).collect();
    Expr::filtered(format!("{first}|{filter}({}{end})", others.join(",")))
}

/// Whether a key is a single string literal, which is short and cheap to look up.
fn is_literal(key: &str) -> bool {
    let key = key.trim();
    let quote = key.chars().next().filter(|first| matches!(first, '\'' | '"'));
    quote.is_some_and(|quote| {
        key.len() > 1 && key.ends_with(quote) && key.matches(quote).count() == 2 && !key.contains('\\')
    })
}
