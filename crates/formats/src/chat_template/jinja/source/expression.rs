//! Expressions, written out so that whatever can take memory or time is a filter or a method of ours.
//!
//! What comes out has neither `~`, `+`, `*`, comparisons, `in`, slices nor lists, tuples and dictionaries that are not constant.
//! How operators bind is as in minijinja, which agrees with Jinja 2 where it matters.

use super::lex::{Kind, Token, string};
use super::names;

/// What a tag has that cannot be read; minijinja then says what is wrong with it.
pub(super) const UNREADABLE: &str = "an expression of this kind";

/// The deepest expressions, as minijinja counts at least: brackets, signs, `not` and conditions.
const DEEPEST: usize = 300;

type Result<T> = std::result::Result<T, &'static str>;

/// An expression, written out, with the white space before it.
struct Piece {
    text: String,
    /// Whether a filter may follow without brackets.
    filterable: bool,
    /// Whether an attribute, a subscript or a call may follow without brackets.
    primary: bool,
    /// Whether minijinja makes one value of it when it reads the template.
    constant: bool,
}

impl Piece {
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

    fn loose(text: String) -> Self {
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
        let inside = self.text.trim_start();
        let space = &self.text[..self.text.len() - inside.len()];
        format!("{space}({inside})")
    }

    /// The text, so that a filter may follow.
    fn before_filter(self) -> String {
        if self.filterable { self.text } else { self.in_brackets() }
    }

    /// The text, so that a subscript may follow.
    fn before_subscript(self) -> String {
        if self.primary { self.text } else { self.in_brackets() }
    }
}

/// Reads the tokens of a tag from its beginning to its end.
pub(super) struct Reader<'t> {
    text: &'t str,
    tokens: &'t [Token],
    /// The next token.
    at: usize,
    /// The first byte that is not copied yet.
    done: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str, tokens: &'t [Token]) -> Self {
        Self {
            text,
            tokens,
            at: 0,
            done: 0,
            depth: 0,
        }
    }

    /// What `{{ }}` prints.
    pub fn printed(mut self) -> Result<String> {
        let out = self.expression()?.text;
        self.end(out)
    }

    /// A statement, the name of its tag included.
    pub fn statement(mut self) -> Result<String> {
        let tag = self.word();
        let mut out = String::new();
        match tag {
            "for" => {
                while !self.is_name("in") {
                    out.push_str(&self.take()?);
                }
                out.push_str(&self.take()?);
                out.push_str(&format!("{}|{}", self.either()?.before_filter(), names::ALONG));
                if self.is_name("if") {
                    out.push_str(&self.take()?);
                    out.push_str(&self.expression()?.text);
                }
                if self.is_name("recursive") {
                    out.push_str(&self.take()?);
                }
            }
            "if" | "elif" => {
                out.push_str(&self.take()?);
                out.push_str(&self.either()?.text);
            }
            "autoescape" | "do" => {
                out.push_str(&self.take()?);
                out.push_str(&self.expression()?.text);
            }
            "set" => self.set(&mut out)?,
            "with" => {
                out.push_str(&self.take()?);
                while self.at < self.tokens.len() {
                    self.up_to_equals(&mut out)?;
                    out.push_str(&self.expression()?.text);
                    if self.is(",") {
                        out.push_str(&self.take()?);
                    }
                }
            }
            "macro" => {
                out.push_str(&self.take()?);
                out.push_str(&self.take()?);
                self.parameters(&mut out)?;
            }
            "call" => {
                out.push_str(&self.take()?);
                if self.is("(") {
                    self.parameters(&mut out)?;
                }
                out.push_str(&self.expression()?.text);
            }
            "filter" => {
                out.push_str(&self.take()?);
                self.filter_chain(&mut out)?;
            }
            "include" | "import" | "from" | "extends" => return Err("a tag that reads another template"),
            // These have names alone, and minijinja refuses what it does not know.
            _ => {
                while self.at < self.tokens.len() {
                    if self.tokens[self.at].kind != Kind::Name {
                        return Err(UNREADABLE);
                    }
                    out.push_str(&self.take()?);
                }
            }
        }
        self.end(out)
    }

    fn set(&mut self, out: &mut String) -> Result<()> {
        out.push_str(&self.take()?);
        let mut of_namespace = false;
        while self.at < self.tokens.len() && !self.is("=") && !self.is("|") {
            of_namespace |= self.is(".");
            out.push_str(&self.take()?);
        }
        if self.is("|") {
            out.push_str(&self.take()?);
            return self.filter_chain(out);
        }
        if self.at == self.tokens.len() {
            return Ok(());
        }
        out.push_str(&self.take()?);
        let mut items = vec![self.expression()?];
        let is_tuple = self.is(",");
        while self.is(",") {
            let space = self.space()?;
            if self.at == self.tokens.len() {
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
                built(items, names::TUPLE, String::new())
            }
        };
        if of_namespace {
            out.push_str(&format!("{}|{}", value.before_filter(), names::PART));
        } else {
            out.push_str(&value.text);
        }
        Ok(())
    }

    /// Filters without what they are applied to.
    fn filter_chain(&mut self, out: &mut String) -> Result<()> {
        loop {
            self.filter_name(out)?;
            if self.is("(") {
                out.push_str(&self.arguments(false)?);
            }
            if !self.is("|") {
                return Ok(());
            }
            out.push_str(&self.take()?);
        }
    }

    /// The parameters of a macro.
    fn parameters(&mut self, out: &mut String) -> Result<()> {
        out.push_str(&self.expect("(")?);
        while !self.is(")") {
            out.push_str(&self.take()?);
            if self.is("=") {
                out.push_str(&self.take()?);
                out.push_str(&self.expression()?.text);
            }
            self.comma_or(")", out)?;
        }
        out.push_str(&self.take()?);
        Ok(())
    }

    /// Copies a comma, if there is one; nothing else may stand before the end of a list.
    fn comma_or(&mut self, close: &str, out: &mut String) -> Result<()> {
        match self.is(",") {
            true => out.push_str(&self.take()?),
            false if self.is(close) => {}
            false => return Err(UNREADABLE),
        }
        Ok(())
    }

    /// Copies up to an equals sign and past it.
    fn up_to_equals(&mut self, out: &mut String) -> Result<()> {
        while !self.is("=") {
            out.push_str(&self.take()?);
        }
        out.push_str(&self.take()?);
        Ok(())
    }

    /// The end of the tag, where all of it must be read.
    fn end(self, mut out: String) -> Result<String> {
        if self.at < self.tokens.len() {
            return Err(UNREADABLE);
        }
        out.push_str(&self.text[self.done..]);
        Ok(out)
    }

    /// One with its condition.
    fn expression(&mut self) -> Result<Piece> {
        self.deeper(|reader| {
            let mut piece = reader.either()?;
            while reader.is_name("if") {
                let mut text = piece.text;
                text.push_str(&reader.take()?);
                text.push_str(&reader.either()?.text);
                if reader.is_name("else") {
                    text.push_str(&reader.take()?);
                    text.push_str(&reader.expression()?.text);
                }
                piece = Piece::loose(text);
            }
            Ok(piece)
        })
    }

    /// `or`, and what binds tighter.
    fn either(&mut self) -> Result<Piece> {
        self.joined("or", |reader| reader.joined("and", Self::negation))
    }

    fn joined(&mut self, word: &str, mut next: impl FnMut(&mut Self) -> Result<Piece>) -> Result<Piece> {
        let mut piece = next(self)?;
        while self.is_name(word) {
            let word = self.take()?;
            piece = Piece::loose(piece.text + &word + &next(self)?.text);
        }
        Ok(piece)
    }

    fn negation(&mut self) -> Result<Piece> {
        if !self.is_name("not") {
            return self.comparison();
        }
        self.deeper(|reader| {
            let not = reader.take()?;
            Ok(Piece::loose(not + &reader.negation()?.text))
        })
    }

    fn comparison(&mut self) -> Result<Piece> {
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
                Piece::filtered(text)
            }
            _ => {
                let mut text = format!("{}|{}(", first.before_filter(), names::CHAIN);
                for (filter, space, right) in rest {
                    text.push_str(&format!("'{filter}',{space}{},", right.text));
                }
                Piece::filtered(text + ")")
            }
        })
    }

    /// The filter of the comparison that comes next.
    fn comparator(&self) -> Option<&'static str> {
        let token = self.tokens.get(self.at)?;
        let next = self.tokens.get(self.at + 1).map(|next| next.text(self.text));
        match (token.kind, self.word()) {
            (Kind::Operator, "==") => Some(names::EQUAL),
            (Kind::Operator, "!=") => Some(names::UNEQUAL),
            (Kind::Operator, "<") => Some(names::LESS),
            (Kind::Operator, "<=") => Some(names::AT_MOST),
            (Kind::Operator, ">") => Some(names::MORE),
            (Kind::Operator, ">=") => Some(names::AT_LEAST),
            (Kind::Name, "in") => Some(names::IN),
            (Kind::Name, "not") if next == Some("in") => Some(names::NOT_IN),
            _ => None,
        }
    }

    fn sum(&mut self) -> Result<Piece> {
        let mut piece = self.concatenation()?;
        loop {
            if self.is("+") {
                piece = self.folded(piece, "+", names::ADD, Self::concatenation)?;
            } else if self.is("-") {
                let sign = self.take()?;
                piece = Piece::loose(piece.text + &sign + &self.concatenation()?.text);
            } else {
                return Ok(piece);
            }
        }
    }

    fn concatenation(&mut self) -> Result<Piece> {
        let piece = self.product()?;
        if self.is("~") {
            return self.folded(piece, "~", names::CONCATENATE, Self::product);
        }
        Ok(piece)
    }

    fn product(&mut self) -> Result<Piece> {
        let mut piece = self.power()?;
        loop {
            let after_text = self.at > 0 && self.tokens[self.at - 1].kind == Kind::String;
            if self.is("*") {
                piece = self.folded(piece, "*", names::MULTIPLY, Self::power)?;
            } else if self.is("%") && after_text {
                let space = self.space()?;
                let right = self.power()?;
                piece = Piece::filtered(format!(
                    "{}{space}|{}({})",
                    piece.before_filter(),
                    names::MODULO,
                    right.text
                ));
            } else if ["/", "//", "%"].iter().any(|operator| self.is(operator)) {
                let operator = self.take()?;
                piece = Piece::loose(piece.text + &operator + &self.power()?.text);
            } else {
                return Ok(piece);
            }
        }
    }

    /// All the same operators in a row, as one filter.
    fn folded(
        &mut self,
        first: Piece,
        operator: &str,
        filter: &str,
        next: impl Fn(&mut Self) -> Result<Piece>,
    ) -> Result<Piece> {
        let mut text = format!("{}{}|{filter}(", first.before_filter(), self.space()?);
        text.push_str(&next(self)?.text);
        while self.is(operator) {
            text.push_str(&self.space()?);
            text.push(',');
            text.push_str(&next(self)?.text);
        }
        Ok(Piece::filtered(text + ")"))
    }

    fn power(&mut self) -> Result<Piece> {
        let mut piece = self.operand()?;
        while self.is("**") {
            let operator = self.take()?;
            piece = Piece::loose(piece.text + &operator + &self.operand()?.text);
        }
        Ok(piece)
    }

    /// An operand with its filters and tests.
    fn operand(&mut self) -> Result<Piece> {
        let mut piece = self.signed()?;
        loop {
            if self.is("|") {
                let mut text = piece.before_filter();
                text.push_str(&self.take()?);
                self.filter_name(&mut text)?;
                if self.is("(") {
                    text.push_str(&self.arguments(false)?);
                }
                piece = Piece::filtered(text);
            } else if self.is_name("is") {
                let mut text = piece.before_filter();
                text.push_str(&self.take()?);
                if self.is_name("not") {
                    text.push_str(&self.take()?);
                }
                self.filter_name(&mut text)?;
                if self.is("(") {
                    text.push_str(&self.arguments(false)?);
                } else if self.begins_argument() {
                    text.push_str(&format!("({})", self.signed()?.text));
                }
                piece = Piece::filtered(text);
            } else {
                return Ok(piece);
            }
        }
    }

    /// Whether what comes next is the argument of a test without brackets.
    fn begins_argument(&self) -> bool {
        let Some(token) = self.tokens.get(self.at) else {
            return false;
        };
        match (token.kind, self.word()) {
            (Kind::Name, word) => !matches!(word, "and" | "or" | "else" | "is"),
            (Kind::Number | Kind::String, _) | (Kind::Open, "[" | "{") | (Kind::Operator, "-") => true,
            _ => false,
        }
    }

    /// A value with attributes, subscripts and calls, perhaps after signs.
    fn signed(&mut self) -> Result<Piece> {
        if !self.is("-") {
            let is_loop = self.is_name("loop");
            let value = self.value()?;
            return self.with_postfixes(value, is_loop);
        }
        self.deeper(|reader| {
            let sign = reader.take()?;
            let operand = reader.signed()?;
            let constant = operand.constant;
            Ok(Piece {
                constant,
                ..Piece::filtered(sign + &operand.text)
            })
        })
    }

    /// What follows a value, which may be a `loop`: calling that goes through its argument, and `changed` compares its own.
    fn with_postfixes(&mut self, mut piece: Piece, is_loop: bool) -> Result<Piece> {
        let mut changed = is_loop;
        loop {
            if self.is(".") {
                let mut text = piece.before_subscript();
                text.push_str(&self.take()?);
                changed = self.word() == "changed";
                match self.tokens.get(self.at).map(|token| token.kind) {
                    Some(Kind::Name) => text.push_str(&self.take()?),
                    Some(Kind::Number) if self.word().bytes().all(|byte| byte.is_ascii_digit()) => {
                        text.push_str(&format!("{}({})", names::ITEM, self.take()?));
                    }
                    _ => return Err(UNREADABLE),
                }
                piece = Piece::primary(text);
                continue;
            }
            if self.is("[") {
                piece = self.subscript(piece)?;
            } else if self.is("(") {
                let text = piece.before_subscript() + &self.arguments(changed)?;
                piece = Piece::primary(text);
            } else {
                return Ok(piece);
            }
            changed = false;
        }
    }

    fn subscript(&mut self, piece: Piece) -> Result<Piece> {
        let mut text = piece.before_subscript();
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
        Ok(Piece::primary(text))
    }

    /// The arguments of a call, in brackets; where they are `compared`, what comparing them takes is charged.
    fn arguments(&mut self, compared: bool) -> Result<String> {
        let mut out = self.expect("(")?;
        while !self.is(")") {
            let named = self
                .tokens
                .get(self.at + 1)
                .is_some_and(|next| next.text(self.text) == "=");
            if self.is("*") || self.is("**") {
                out.push_str(&self.take()?);
                out.push_str(&format!("{}|{}", self.expression()?.before_filter(), names::ALL));
            } else if named {
                out.push_str(&self.take()?);
                out.push_str(&self.take()?);
                out.push_str(&self.expression()?.text);
            } else if compared {
                out.push_str(&format!("{}|{}", self.expression()?.before_filter(), names::ALL));
            } else {
                out.push_str(&self.expression()?.text);
            }
            self.comma_or(")", &mut out)?;
        }
        out.push_str(&self.take()?);
        Ok(out)
    }

    fn filter_name(&mut self, out: &mut String) -> Result<()> {
        loop {
            match self.tokens.get(self.at) {
                Some(token) if token.kind == Kind::Name => out.push_str(&self.take()?),
                _ => return Err(UNREADABLE),
            }
            if !self.is(".") {
                return Ok(());
            }
            out.push_str(&self.take()?);
        }
    }

    /// A name, a literal or an expression in brackets.
    fn value(&mut self) -> Result<Piece> {
        let Some(token) = self.tokens.get(self.at) else {
            return Err(UNREADABLE);
        };
        match (token.kind, self.word()) {
            (Kind::Name, "true" | "True" | "false" | "False" | "none" | "None") => Ok(Piece::constant(self.take()?)),
            (Kind::Name, "and" | "or" | "not" | "in" | "is" | "if" | "else") => Err(UNREADABLE),
            (Kind::Name, _) => Ok(Piece::primary(self.take()?)),
            (Kind::Number, _) => Ok(Piece::constant(self.take()?)),
            (Kind::String, _) => {
                let mut text = String::new();
                while self.tokens.get(self.at).is_some_and(|token| token.kind == Kind::String) {
                    text.push_str(&self.take()?);
                }
                Ok(Piece::constant(text))
            }
            (Kind::Open, "(") => self.deeper(Self::in_brackets),
            (Kind::Open, "[") => self.deeper(|reader| {
                let space = reader.space()?;
                let (items, _) = reader.items("]")?;
                let end = reader.space()?;
                Ok(built(items, names::LIST, end).after(&space))
            }),
            (Kind::Open, "{") => self.deeper(Self::dictionary),
            _ => Err(UNREADABLE),
        }
    }

    /// What stands between a pair of brackets, and whether a comma does.
    fn items(&mut self, close: &str) -> Result<(Vec<Piece>, bool)> {
        let mut items = Vec::new();
        let mut space = String::new();
        let mut commas = false;
        while !self.is(close) {
            let item = self.expression()?;
            items.push(item.after(&space));
            if self.is(",") {
                commas = true;
                space = self.space()?;
            } else if !self.is(close) {
                return Err(UNREADABLE);
            }
        }
        Ok((items, commas))
    }

    fn in_brackets(&mut self) -> Result<Piece> {
        let space = self.space()?;
        let (mut items, commas) = self.items(")")?;
        let end = self.space()?;
        if items.len() == 1 && !commas {
            let only = items.remove(0);
            return Ok(Piece {
                constant: only.constant,
                ..Piece::primary(format!("{space}({}{end})", only.text))
            });
        }
        Ok(built(items, names::TUPLE, end).after(&space))
    }

    fn dictionary(&mut self) -> Result<Piece> {
        let space = self.space()?;
        let mut pairs = Vec::new();
        while !self.is("}") {
            pairs.push(self.expression()?);
            let colon = self.space_of(":")?;
            pairs.push(self.expression()?.after(&colon));
            if self.is(",") {
                let comma = self.space()?;
                if let Some(last) = pairs.last_mut() {
                    last.text.push_str(&comma);
                }
            } else if !self.is("}") {
                return Err(UNREADABLE);
            }
        }
        let end = self.space()?;
        Ok(built(pairs, names::DICTIONARY, end).after(&space))
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Result<Piece>) -> Result<Piece> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("a tag with more than 300 expressions inside each other");
        }
        let piece = read(self);
        self.depth -= 1;
        piece
    }

    /// The next token, nothing at the end.
    fn word(&self) -> &'t str {
        self.tokens.get(self.at).map_or("", |token| token.text(self.text))
    }

    /// Whether the next token is this sign.
    fn is(&self, sign: &str) -> bool {
        let token = self.tokens.get(self.at);
        token.is_some_and(|token| matches!(token.kind, Kind::Operator | Kind::Open | Kind::Close))
            && self.word() == sign
    }

    fn is_name(&self, name: &str) -> bool {
        let token = self.tokens.get(self.at);
        token.is_some_and(|token| token.kind == Kind::Name) && self.word() == name
    }

    /// The next token with the white space before it.
    fn take(&mut self) -> Result<String> {
        let token = *self.tokens.get(self.at).ok_or(UNREADABLE)?;
        let word = self.word();
        if token.kind == Kind::Name && names::RESERVED.contains(&word) {
            return Err("a name that Hearth uses itself");
        }
        let mut taken = self.space()?;
        match token.kind {
            Kind::String if word.contains('\\') => taken.push_str(&string(word)),
            _ => taken.push_str(word),
        }
        Ok(taken)
    }

    /// The white space before the next token, which is left out itself.
    fn space(&mut self) -> Result<String> {
        let token = self.tokens.get(self.at).ok_or(UNREADABLE)?;
        let space = self.text[self.done..token.start].to_owned();
        self.at += 1;
        self.done = token.end;
        Ok(space)
    }

    fn expect(&mut self, sign: &str) -> Result<String> {
        if self.is(sign) { self.take() } else { Err(UNREADABLE) }
    }

    fn space_of(&mut self, sign: &str) -> Result<String> {
        if self.is(sign) { self.space() } else { Err(UNREADABLE) }
    }
}

impl Piece {
    /// The piece after some white space.
    fn after(mut self, space: &str) -> Self {
        self.text.insert_str(0, space);
        self
    }
}

/// What is made of other values: a literal of minijinja's where all are constant, else a filter.
fn built(parts: Vec<Piece>, filter: &str, end: String) -> Piece {
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
        return Piece::constant(text);
    }
    let mut parts = parts.into_iter();
    let first = parts.next().map(Piece::before_filter).unwrap_or_default();
    let others: Vec<String> = parts.map(|part| part.text).collect();
    Piece::filtered(format!("{first}|{filter}({}{end})", others.join(",")))
}

/// Whether a key is one text as it stands in the source, which is short and quickly looked up.
fn is_literal(key: &str) -> bool {
    let key = key.trim();
    let quote = key.chars().next().filter(|first| matches!(first, '\'' | '"'));
    quote.is_some_and(|quote| {
        key.len() > 1 && key.ends_with(quote) && key.matches(quote).count() == 2 && !key.contains('\\')
    })
}
