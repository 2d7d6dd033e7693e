//! A template's source, changed where minijinja reads the same text in another way than Jinja 2.
//!
//! Tags are read token by token and everything else is copied. What changes: `{% generation %}` becomes a scope, slices become
//! calls of [`SLICE`], strings with escapes are written out as Python reads them, `%` and `*` after a string become the filters
//! [`MODULO`] and [`MULTIPLY`], and in templates that mark text as safe HTML sums become the filter [`ADD`]. Lines keep their numbers but for strings that go on after a backslash.

/// The method that slices as Python does.
pub(super) const SLICE: &str = "__slice__";

/// The filter that adds as Python does, which escapes what is added to safe text.
pub(super) const ADD: &str = "__add__";

/// The filters that do what the operators `%` and `*` do after a text.
pub(super) const MODULO: &str = "__mod__";
pub(super) const MULTIPLY: &str = "__mul__";

/// Filters whose output is safe text.
const MARKUP: [&str; 4] = ["safe", "e", "escape", "forceescape"];

/// The deepest brackets and the most tokens of a tag: the code here and in minijinja recurses over them. Of the real templates
/// that the tests know, the largest tag has 1,266 tokens.
const DEEPEST: usize = 100;
const MOST_TOKENS: usize = 4_000;

/// The source for minijinja.
///
/// # Errors
/// Where a loop is left out of the middle of another block, which makes minijinja panic, and where a tag is too large or nests
/// its brackets too deeply.
pub(crate) fn adapt(source: &str) -> Result<String, &'static str> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut markup = false;
    let mut blocks = Blocks::default();
    let source = each_tag(&source, |text, tokens, block| {
        markup |= mentions_markup(text, tokens);
        if block {
            blocks.see(text, tokens);
        }
        if block && let Some(scope) = generation(text, tokens) {
            return scope;
        }
        slices_and_strings(text, tokens)
    })?;
    if blocks.wrong {
        return Err("`continue` or `break` inside a block that the loop is around");
    }
    if markup { each_tag(&source, sums) } else { Ok(source) }
}

/// The blocks that are open, but for conditions: whether each is a loop.
#[derive(Default)]
struct Blocks {
    open: Vec<bool>,
    wrong: bool,
}

impl Blocks {
    fn see(&mut self, text: &str, tokens: &[Token]) {
        let Some(first) = tokens.first() else { return };
        match first.text(text) {
            "for" => self.open.push(true),
            "with" | "generation" | "filter" | "autoescape" | "macro" | "call" | "block" => self.open.push(false),
            "set" if !assigns(text, tokens) => self.open.push(false),
            "endfor" | "endwith" | "endgeneration" | "endfilter" | "endautoescape" | "endmacro" | "endcall"
            | "endblock" | "endset" => {
                self.open.pop();
            }
            // Outside of any it is for minijinja to say so.
            "continue" | "break" => self.wrong |= self.open.last() == Some(&false),
            _ => {}
        }
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Name,
    Number,
    String,
    Open,
    Close,
    Operator,
}

/// A token inside a tag; places are bytes of the tag's text.
#[derive(Debug, Clone, Copy)]
struct Token {
    kind: Kind,
    start: usize,
    end: usize,
}

impl Token {
    fn text<'t>(&self, text: &'t str) -> &'t str {
        &text[self.start..self.end]
    }

    /// Whether an operand ends with this token, so that a bracket after it is a subscript and a sign an operator.
    fn ends_operand(&self, text: &str) -> bool {
        const OPERATORS: [&str; 7] = ["and", "or", "not", "in", "is", "if", "else"];
        match self.kind {
            Kind::Name => !OPERATORS.contains(&self.text(text)),
            Kind::Number | Kind::String | Kind::Close => true,
            Kind::Open | Kind::Operator => false,
        }
    }
}

/// Copies a template, with `change` done to what stands between the delimiters of each tag.
fn each_tag(source: &str, mut change: impl FnMut(&str, &[Token], bool) -> String) -> Result<String, &'static str> {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        let (opener, block) = match rest.as_bytes().get(start + 1) {
            Some(b'#') => {
                let end = rest[start..].find("#}").map_or(rest.len(), |end| start + end + 2);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            Some(b'%') => (start + 2, true),
            Some(b'{') => (start + 2, false),
            _ => {
                out.push_str(&rest[..=start]);
                rest = &rest[start + 1..];
                continue;
            }
        };
        // The sign that says how white space around the tag is treated.
        let opener = opener + usize::from(matches!(rest.as_bytes().get(opener), Some(b'-' | b'+')));
        let inside = &rest[opener..];
        let Some((tokens, length)) = lex(inside, if block { "%}" } else { "}}" })? else {
            break;
        };
        out.push_str(&rest[..opener]);
        let text = &inside[..length];
        if block && matches!(&tokens[..], [only] if only.text(text) == "raw") {
            let end = end_of_raw(&inside[length..]).map_or(inside.len(), |end| length + end);
            out.push_str(&inside[..end]);
            rest = &inside[end..];
            continue;
        }
        out.push_str(&change(text, &tokens, block));
        rest = &inside[length..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Where the tag that ends a raw block begins.
fn end_of_raw(text: &str) -> Option<usize> {
    text.match_indices("{%").map(|(start, _)| start).find(|start| {
        let tag = text[start + 2..].trim_start_matches(['-', '+']).trim_start();
        tag.strip_prefix("endraw")
            .is_some_and(|rest| rest.trim_start().trim_start_matches(['-', '+']).starts_with("%}"))
    })
}

/// The tokens of a tag, and where its end begins; none where it has none.
///
/// # Errors
/// Where it is larger than [`MOST_TOKENS`] or deeper than [`DEEPEST`].
fn lex(text: &str, end: &str) -> Result<Option<(Vec<Token>, usize)>, &'static str> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        let Some(&byte) = bytes.get(at) else { return Ok(None) };
        if depth == 0 {
            let signed = at + usize::from(matches!(byte, b'-' | b'+'));
            if bytes[signed..].starts_with(end.as_bytes()) {
                return Ok(Some((tokens, at)));
            }
        }
        let start = at;
        let kind = match byte {
            b if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'\'' | b'"' => {
                let Some(end) = end_of_string(bytes, at) else {
                    return Ok(None);
                };
                at = end;
                Kind::String
            }
            b'0'..=b'9' => {
                at = end_of_number(bytes, at);
                Kind::Number
            }
            b'(' | b'[' | b'{' => {
                depth += 1;
                if depth > DEEPEST {
                    return Err("a tag with more than 100 brackets inside each other");
                }
                at += 1;
                Kind::Open
            }
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at += 1;
                Kind::Close
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' | 128.. => {
                let part = |b: &u8| *b == b'_' || b.is_ascii_alphanumeric() || *b >= 128;
                at += bytes[at..].iter().take_while(|b| part(b)).count();
                Kind::Name
            }
            _ => {
                const PAIRS: [&str; 6] = ["==", "!=", "<=", ">=", "//", "**"];
                at += if PAIRS.iter().any(|pair| text[at..].starts_with(pair)) {
                    2
                } else {
                    1
                };
                Kind::Operator
            }
        };
        if tokens.len() == MOST_TOKENS {
            return Err("a tag of more than 4,000 tokens");
        }
        tokens.push(Token { kind, start, end: at });
    }
}

fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    while *bytes.get(at)? != bytes[start] {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some(at + 1)
}

fn end_of_number(bytes: &[u8], start: usize) -> usize {
    let run = |at: usize| {
        let part = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
        at + bytes[at..].iter().take_while(part).count()
    };
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = run(start);
    if bytes.get(at) == Some(&b'.') && digit(at + 1) {
        at = run(at + 1);
    }
    // A sign in the exponent; hexadecimal numbers may end with an e.
    let exponent = matches!(bytes[at - 1], b'e' | b'E') && !matches!(bytes.get(start + 1), Some(b'x' | b'X'));
    if exponent && matches!(bytes.get(at), Some(b'-' | b'+')) && digit(at + 1) {
        at = run(at + 1);
    }
    at
}

fn mentions_markup(text: &str, tokens: &[Token]) -> bool {
    let filter = |pair: &[Token]| pair[0].text(text) == "|" && MARKUP.contains(&pair[1].text(text));
    tokens.windows(2).any(filter)
        || matches!(tokens, [first, second, ..] if first.text(text) == "filter" && MARKUP.contains(&second.text(text)))
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

/// The tag with its slices as calls and its strings as Python reads them.
fn slices_and_strings(text: &str, tokens: &[Token]) -> String {
    // What each token is replaced with.
    let mut replaced: Vec<Option<String>> = vec![None; tokens.len()];
    let mut closed = vec![0; tokens.len()];
    // The open brackets, and of subscripts where their colons are.
    let mut open: Vec<(usize, Option<Vec<usize>>)> = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        let word = token.text(text);
        match token.kind {
            Kind::Open => {
                let before = place.checked_sub(1).map(|before| tokens[before]);
                let subscript = word == "[" && before.is_some_and(|before| before.ends_operand(text));
                open.push((place, subscript.then(Vec::new)));
            }
            Kind::Close => {
                if let Some((start, Some(colons))) = open.pop()
                    && !colons.is_empty()
                {
                    slice(&mut replaced, start, &colons, place);
                }
            }
            Kind::Operator if word == ":" => {
                if let Some((_, Some(colons))) = open.last_mut() {
                    colons.push(place);
                }
            }
            Kind::Operator if matches!(word, "%" | "*") && place > 0 && tokens[place - 1].kind == Kind::String => {
                let filter = if word == "%" { MODULO } else { MULTIPLY };
                if let Some(end) = end_of_factor(text, tokens, place + 1) {
                    replaced[place] = Some(format!("|{filter}("));
                    closed[end] += 1;
                }
            }
            Kind::String if word.contains('\\') => replaced[place] = Some(string(word)),
            _ => {}
        }
    }
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for ((token, replaced), closed) in tokens.iter().zip(replaced).zip(closed) {
        if let Some(replaced) = replaced {
            out.push_str(&text[done..token.start]);
            out.push_str(&replaced);
            done = token.end;
        }
        if closed > 0 {
            out.push_str(&text[done..token.end]);
            out.push_str(&")".repeat(closed));
            done = token.end;
        }
    }
    out.push_str(&text[done..]);
    out
}

/// The last token of the factor that begins at a place, with its filters.
fn end_of_factor(text: &str, tokens: &[Token], start: usize) -> Option<usize> {
    const LOOSER: [&str; 16] = [
        "+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", ",", ":", "=",
    ];
    let mut depth = 0_usize;
    let mut end = None;
    for (place, token) in tokens.iter().enumerate().skip(start) {
        let word = token.text(text);
        let signed = end.is_none() && matches!(word, "-" | "+");
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close if depth == 0 => break,
            Kind::Close => depth -= 1,
            Kind::Operator if depth == 0 && LOOSER.contains(&word) && !signed => break,
            Kind::Name if depth == 0 && matches!(word, "and" | "or" | "not" | "in" | "is" | "if" | "else") => break,
            _ => {}
        }
        if !signed {
            end = Some(place);
        }
    }
    end
}

/// Makes `[a:b]` a call, with none for what is left out.
fn slice(replaced: &mut [Option<String>], start: usize, colons: &[usize], end: usize) {
    let mut before = start;
    replaced[start] = Some(format!(".{SLICE}("));
    for &colon in colons {
        let none = if colon == before + 1 { "none" } else { "" };
        replaced[colon] = Some(format!("{none},"));
        before = colon;
    }
    let none = if end == before + 1 { "none" } else { "" };
    replaced[end] = Some(format!("{none})"));
}

/// A literal with its escapes read as Python does, which leaves those that it does not know as they are.
fn string(literal: &str) -> String {
    let quote = literal.chars().next().unwrap_or('"');
    let inside = &literal[1..literal.len() - 1];
    let mut text = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(start) = rest.find('\\') {
        text.push_str(&rest[..start]);
        let (character, length) = escape(&rest[start..]);
        text.extend(character);
        rest = &rest[start + length..];
    }
    text.push_str(rest);
    let text = text.replace('\\', "\\\\").replace(quote, &format!("\\{quote}"));
    format!("{quote}{text}{quote}")
}

/// The character of an escape, none for a line that goes on, and how long it is.
fn escape(text: &str) -> (Option<char>, usize) {
    let code = |digits: &str, radix: u32| u32::from_str_radix(digits, radix).ok();
    let fixed = |length: usize| {
        let digits = text
            .get(2..2 + length)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|digits| code(digits, 16)) {
            // Half a pair of UTF-16 is no character.
            Some(code) => (
                Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)),
                2 + length,
            ),
            None => (Some('\\'), 1),
        }
    };
    let simple = |character| (Some(character), 2);
    match text.as_bytes().get(1) {
        Some(b'\n') => (None, 2),
        Some(b'\\') => simple('\\'),
        Some(b'\'') => simple('\''),
        Some(b'"') => simple('"'),
        Some(b'a') => simple('\u{7}'),
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'v') => simple('\u{b}'),
        Some(b'x') => fixed(2),
        Some(b'u') => fixed(4),
        Some(b'U') => fixed(8),
        Some(b'0'..=b'7') => {
            let length = text[1..]
                .bytes()
                .take(3)
                .take_while(|b| (b'0'..=b'7').contains(b))
                .count();
            let character = code(&text[1..=length], 8).and_then(char::from_u32);
            (character, 1 + length)
        }
        _ => (Some('\\'), 1),
    }
}

/// The tag with every sum as the filter [`ADD`].
fn sums(text: &str, tokens: &[Token], block: bool) -> String {
    let mut reader = Sums {
        text,
        tokens,
        at: 0,
        done: 0,
    };
    let mut out = reader.expressions(block);
    out.push_str(&text[reader.done..]);
    out
}

struct Sums<'t> {
    text: &'t str,
    tokens: &'t [Token],
    /// The next token.
    at: usize,
    /// The first byte that is not copied yet.
    done: usize,
}

impl Sums<'_> {
    /// What stands inside a pair of brackets, or a whole tag.
    fn expressions(&mut self, statement: bool) -> String {
        let mut out = String::new();
        let mut sum = Sum::default();
        let mut first = statement;
        while let Some(&token) = self.tokens.get(self.at).filter(|token| token.kind != Kind::Close) {
            let word = token.text(self.text);
            let before = self.at.checked_sub(1).map(|before| self.tokens[before]);
            let after_operand = before.is_some_and(|before| before.ends_operand(self.text));
            if token.kind == Kind::Open {
                sum.operand.push_str(&self.take());
                let inside = self.expressions(false);
                sum.operand.push_str(&inside);
                if self.at < self.tokens.len() {
                    sum.operand.push_str(&self.take());
                }
            } else if matches!(word, "+" | "-") && after_operand {
                let operator = self.take();
                sum.next(&operator, word == "+");
            } else if first || self.delimits(word, token.kind) {
                out.push_str(&sum.end());
                out.push_str(&self.take());
            } else {
                sum.operand.push_str(&self.take());
            }
            first = false;
        }
        out.push_str(&sum.end());
        out
    }

    /// The next token with the white space before it.
    fn take(&mut self) -> String {
        let token = self.tokens[self.at];
        let taken = self.text[self.done..token.end].to_owned();
        self.at += 1;
        self.done = token.end;
        taken
    }

    /// Whether no sum goes on beyond this token.
    fn delimits(&self, word: &str, kind: Kind) -> bool {
        const LOOSER: [&str; 10] = [",", ":", "=", "==", "!=", "<", "<=", ">", ">=", "%}"];
        let before = |steps: usize| {
            self.at
                .checked_sub(steps)
                .map_or("", |place| self.tokens[place].text(self.text))
        };
        match (kind, word) {
            (Kind::Operator, word) => LOOSER.contains(&word),
            (Kind::Name, "and" | "or" | "if" | "else" | "recursive") => before(1) != ".",
            // `is not none` and `is in list` are tests.
            (Kind::Name, "not") => before(1) != "is",
            (Kind::Name, "in") => before(1) != "is" && !(before(1) == "not" && before(2) == "is"),
            _ => false,
        }
    }
}

/// A sum as it is read.
#[derive(Default)]
struct Sum {
    /// What is added up already, without the brackets that open before it.
    total: String,
    /// How many brackets open before the total. They are written at the end, so that it is not copied for each.
    brackets: usize,
    /// The sign before the operand, and whether it is a plus.
    operator: Option<(String, bool)>,
    /// Whether the total needs no brackets before a filter.
    filtered: bool,
    operand: String,
}

impl Sum {
    fn next(&mut self, operator: &str, plus: bool) {
        self.fold();
        self.operator = Some((operator.to_owned(), plus));
    }

    fn fold(&mut self) {
        let operand = std::mem::take(&mut self.operand);
        match self.operator.take() {
            None => self.total = operand,
            Some((_, true)) => {
                if !self.filtered {
                    self.brackets += 1;
                    self.total.push(')');
                }
                self.total.push_str(&format!("|{ADD}({})", operand.trim()));
                self.filtered = true;
            }
            Some((sign, false)) => {
                self.total.push_str(&sign);
                self.total.push_str(&operand);
                self.filtered = false;
            }
        }
    }

    fn end(&mut self) -> String {
        self.fold();
        let Self { total, brackets, .. } = std::mem::take(self);
        let inside = total.trim_start();
        let space = &total[..total.len() - inside.len()];
        format!("{space}{}{inside}", "(".repeat(brackets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        assert_eq!(adapt(source).as_deref(), Ok(expected), "{source}");
    }

    #[test]
    fn a_loop_is_left_from_its_own_body_only() {
        for source in [
            "{% for a in b %}{% if c %}{% continue %}{% else %}{% break %}{% endif %}{% endfor %}",
            "{% for a in b %}{% with c = 1 %}{% endwith %}{% set d = 1 %}{% set e %}f{% endset %}{% break %}{% endfor %}",
            "{% with %}{% for a in b %}{% continue %}{% endfor %}{% endwith %}",
        ] {
            check(source, source);
        }
        for source in [
            "{% for a in b %}{% with %}{% continue %}{% endwith %}{% endfor %}",
            "{% for a in b %}{% generation %}{%- break -%}{% endgeneration %}{% endfor %}",
            "{% for a in b %}{% set c %}{% if d %}{% continue %}{% endif %}{% endset %}{% endfor %}",
        ] {
            assert!(adapt(source).is_err(), "{source}");
        }
    }

    #[test]
    fn only_tags_change() {
        for same in [
            "a[1:] {# {{ a[1:] }} #} b",
            "{% raw %}{{ a[1:] }}{% generation %}{%- endraw -%}",
            "{{ {'a': {'b': 1}} }} {{ '{% generation %} }}' }}",
            "{{ [1, 2] }}{% if x in [a, b] %}{% endif %}{{ a + b }}",
            "{{ unterminated[1:]",
            "{{ 'unterminated[1:] }}",
            "{",
            "{{",
            "é{é{%",
        ] {
            check(same, same);
        }
        check("a\r\nb\rc", "a\nb\nc");
    }

    #[test]
    fn slices_are_calls() {
        check("{{ a[1:] }}", "{{ a.__slice__(1,none) }}");
        check(
            "{{- a.b[:n-1][::-1]-}}",
            "{{- a.b.__slice__(none,n-1).__slice__(none,none,-1)-}}",
        );
        check(
            "{{ f(x)[a[0]:{'k': 1}['k']] }}",
            "{{ f(x).__slice__(a[0],{'k': 1}['k']) }}",
        );
        check("{{ 'a:b'[0] }}{{ x if [1:2] }}", "{{ 'a:b'[0] }}{{ x if [1:2] }}");
    }

    #[test]
    fn operators_after_texts_are_filters() {
        check(
            "{{ '%s' % (a, b) ~ x }}{{ 7 % 3 }}",
            "{{ '%s' |__mod__( (a, b)) ~ x }}{{ 7 % 3 }}",
        );
        check(
            "{{ ['-' * -n|abs, 2 * 'a'] }}",
            "{{ ['-' |__mul__( -n|abs), 2 * 'a'] }}",
        );
    }

    #[test]
    fn the_marks_of_training_are_scopes() {
        check("{%- generation -%}x{% endgeneration %}", "{%- with -%}x{% endwith %}");
        check("{% set generation = 1 %}", "{% set generation = 1 %}");
    }

    #[test]
    fn escapes_are_pythons() {
        check(r"{{ 'a\/\q\'\x41\101\U0001F600\\n' }}", r"{{ 'a\\/\\q\'AA😀\\n' }}");
        check("{{ 'a\\\nb' }}", "{{ 'ab' }}");
    }

    #[test]
    fn sums_are_filters_where_text_is_marked_safe() {
        check(
            "{{ 'a'|safe + b ~ c + 1e-5 }}",
            "{{ ('a'|safe)|__add__(b ~ c)|__add__(1e-5) }}",
        );
        check(
            "{{ x|e }}{% if a + -b - c + d == (e + f) and not g + h is not none %}",
            "{{ x|e }}{% if ((a)|__add__(-b) - c)|__add__(d) == ((e)|__add__(f)) and not (g)|__add__(h is not none) %}",
        );
        check(
            "{% set x = y|safe %}{% set ns.a = ns.a+1 %}",
            "{% set x = y|safe %}{% set ns.a = (ns.a)|__add__(1) %}",
        );
    }
}
