//! Translates regular expressions of Python, in which PEFT's settings name modules, to the syntax
//! of the `regex` crate. Features that need backtracking are refused by name.

use super::error::quotable;
use regex::{Regex, RegexBuilder};
use regex_syntax::ast::parse::Parser;

/// Maximum memory of one compiled pattern, in bytes.
const MAX_BYTES: usize = 128 << 10;

/// The longest pattern that is read, in bytes. The memory that is needed before the size of the
/// compiled pattern is known grows with the length.
const MAX_PATTERN_BYTES: usize = 4096;

/// The reason that a pattern cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PatternProblem {
    /// It is valid in Python, but has this feature, which Hearth does not support.
    Unsupported(&'static str),
    /// It is invalid in Python too, for this reason.
    Invalid(String),
}

use PatternProblem::{Invalid, Unsupported};

/// Compiles a pattern that matches a whole module path.
pub(super) fn whole(pattern: &str) -> Result<Regex, PatternProblem> {
    compiled("", &translated(pattern, true)?)
}

/// Compiles a pattern that matches complete trailing components of a module path.
pub(super) fn trailing(pattern: &str) -> Result<Regex, PatternProblem> {
    compiled(r"(?:.*\.)?", &translated(pattern, false)?)
}

/// Compiles a translated pattern with the prefix and anchors that PEFT adds. The pattern is parsed
/// alone first: a parenthesis in it must not close a group outside it.
fn compiled(prefix: &str, pattern: &str) -> Result<Regex, PatternProblem> {
    Parser::new()
        .parse(pattern)
        .map_err(|error| Invalid(quotable(&error.kind().to_string())))?;
    let pattern = format!("^{prefix}(?:{pattern})$");
    let compiled = RegexBuilder::new(&pattern)
        .size_limit(MAX_BYTES)
        .dfa_size_limit(MAX_BYTES)
        .build();
    compiled.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => Unsupported("more alternatives or repetitions than fit its limit"),
        // The text quotes the pattern before the reason.
        error => {
            let text = error.to_string();
            let (_, reason) = text.rsplit_once("error: ").unwrap_or(("", &text));
            Invalid(quotable(reason))
        }
    })
}

/// Translates a pattern. `is_at_start` means that it is at the start of the expression that Python
/// compiles, where global flags are allowed.
fn translated(pattern: &str, is_at_start: bool) -> Result<String, PatternProblem> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(Unsupported("more than 4,096 bytes"));
    }
    let mut translation = Translation {
        rest: pattern,
        out: String::with_capacity(pattern.len()),
        last: Last::Nothing,
        is_at_start,
    };
    while let Some(character) = translation.next() {
        translation.add(character)?;
    }
    Ok(translation.out)
}

/// A translation from left to right.
struct Translation<'p> {
    rest: &'p str,
    out: String,
    last: Last,
    /// Whether global flags may follow.
    is_at_start: bool,
}

/// The element before the rest, to check a repetition: Python repeats neither an assertion nor a
/// repetition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// The beginning of a group or an alternative, or an assertion.
    Nothing,
    Item,
    Repetition,
}

impl<'p> Translation<'p> {
    fn next(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let next = rest.next();
        self.rest = rest.as_str();
        next
    }

    /// Skips `text` if the rest begins with it. Returns whether it does.
    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes the leading characters for which `predicate` holds.
    fn take_while(&mut self, predicate: impl Fn(char) -> bool) -> &'p str {
        let end = self.rest.find(|character| !predicate(character));
        let (taken, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Adds the element outside a set that begins with `character`.
    fn add(&mut self, character: char) -> Result<(), PatternProblem> {
        let is_at_start = std::mem::take(&mut self.is_at_start);
        match character {
            '\\' => return self.add_escape(),
            '[' => self.add_set()?,
            '(' if self.skip("?") => return self.add_extension(is_at_start),
            '*' | '+' | '?' => return self.add_repetition(&character.to_string()),
            '{' => match self.count() {
                Some(count) => return self.add_repetition(&count),
                None => self.out.push_str(r"\{"),
            },
            _ => self.out.push(character),
        }
        self.last = match character {
            '(' | '|' | '^' | '$' => Last::Nothing,
            _ => Last::Item,
        };
        Ok(())
    }

    /// Adds an escape outside a set, after its backslash.
    fn add_escape(&mut self) -> Result<(), PatternProblem> {
        self.last = if self.rest.starts_with(['A', 'Z', 'b', 'B']) {
            Last::Nothing
        } else {
            Last::Item
        };
        self.add_escaped(false)
    }

    /// Adds an escape after its backslash.
    fn add_escaped(&mut self, in_set: bool) -> Result<(), PatternProblem> {
        match self.next() {
            None => return Err(Invalid("a backslash at its end".to_owned())),
            Some('Z') if !in_set => self.out.push_str(r"\z"),
            // The `regex` crate takes these for the ends of a word.
            Some(character @ ('<' | '>')) => self.out.push(character),
            Some('b') if in_set => self.out.push_str(r"\x08"),
            Some('N') => return Err(Unsupported("a character by its name (\\N)")),
            Some('0') => return Err(Unsupported("an octal escape")),
            Some('1'..='9') if in_set => return Err(Unsupported("an octal escape")),
            Some('1'..='7') if self.begins_octal(2) => return Err(Unsupported("an octal escape")),
            Some('1'..='9') => return Err(Unsupported("a back-reference")),
            Some('x' | 'u' | 'U') if self.rest.starts_with('{') => return Err(Invalid("incomplete escape".to_owned())),
            Some(character) if character.is_ascii_alphanumeric() && !is_escape(character, in_set) => {
                return Err(Invalid("unrecognized escape sequence".to_owned()));
            }
            Some(character) if !character.is_ascii() => self.out.push(character),
            Some(character) => self.out.extend(['\\', character]),
        }
        Ok(())
    }

    /// Whether the rest begins with this many octal digits.
    fn begins_octal(&self, digits: usize) -> bool {
        let begin = self.rest.as_bytes().get(..digits);
        begin.is_some_and(|begin| begin.iter().all(|digit| matches!(digit, b'0'..=b'7')))
    }

    /// Adds a set after its `[`. Python has no sets in sets, and no operators between them.
    fn add_set(&mut self) -> Result<(), PatternProblem> {
        self.out.push('[');
        if self.skip("^") {
            self.out.push('^');
        }
        if self.skip("]") {
            self.out.push_str(r"\]");
        }
        while let Some(character) = self.next() {
            match character {
                ']' => {
                    self.out.push(']');
                    return Ok(());
                }
                '\\' => self.add_escaped(true)?,
                '[' | '&' | '~' => self.out.extend(['\\', character]),
                '-' if self.rest.starts_with('-') => return Err(Unsupported("'--' in a set")),
                _ => self.out.push(character),
            }
        }
        Err(Invalid("unclosed character class".to_owned()))
    }

    /// Adds an extension after its `(?`.
    fn add_extension(&mut self, is_at_start: bool) -> Result<(), PatternProblem> {
        const REFUSED: [(&str, &str); 7] = [
            ("=", "a look-ahead"),
            ("!", "a look-ahead"),
            ("<=", "a look-behind"),
            ("<!", "a look-behind"),
            ("P=", "a back-reference"),
            ("(", "a condition"),
            (">", "an atomic group"),
        ];
        if let Some((_, feature)) = REFUSED.iter().find(|(begin, _)| self.rest.starts_with(begin)) {
            return Err(Unsupported(feature));
        }
        if self.skip("#") {
            let (_, rest) = self
                .rest
                .split_once(')')
                .ok_or_else(|| Invalid("unclosed comment".to_owned()))?;
            self.rest = rest;
            self.is_at_start = is_at_start;
            return Ok(());
        }
        self.last = Last::Nothing;
        if self.skip("P<") {
            self.add_name()
        } else {
            self.add_flags(is_at_start)
        }
    }

    /// Adds the name of a group after `(?P<`.
    fn add_name(&mut self) -> Result<(), PatternProblem> {
        let name = self.take_while(|character| character == '_' || character.is_alphanumeric());
        if name.is_empty() || name.starts_with(char::is_numeric) || !self.skip(">") {
            return Err(Invalid("bad group name".to_owned()));
        }
        self.out.push_str(&format!("(?P<{name}>"));
        Ok(())
    }

    /// Adds the flags after `(?`, of which there may be none. Flags of a group end with a colon,
    /// flags of the whole expression with a parenthesis.
    fn add_flags(&mut self, is_at_start: bool) -> Result<(), PatternProblem> {
        let flags = self.take_while(|flag| flag.is_ascii_alphabetic() || flag == '-');
        let is_group = self.skip(":");
        if !is_group && !self.skip(")") {
            return Err(Invalid("unknown extension".to_owned()));
        }
        let (on, off) = flags.split_once('-').unwrap_or((flags, ""));
        let is_known = on.chars().all(|flag| "aiLmsux".contains(flag)) && off.chars().all(|flag| "imsx".contains(flag));
        let is_complete = off.is_empty() != flags.contains('-') && (is_group || off.is_empty() && !on.is_empty());
        if !is_known || !is_complete {
            return Err(Invalid("unknown extension".to_owned()));
        }
        if flags.contains(['a', 'L', 'x']) {
            return Err(Unsupported("one of the flags a, L and x"));
        }
        if !is_group && !is_at_start {
            return Err(Invalid("global flags not at the start of the expression".to_owned()));
        }
        self.is_at_start = !is_group;
        self.out
            .push_str(&format!("(?{flags}{}", if is_group { ':' } else { ')' }));
        Ok(())
    }

    /// Takes a count after its `{`. Other braces are ordinary characters in Python.
    fn count(&mut self) -> Option<String> {
        let after_brace = self.rest;
        let is_empty = self.rest.starts_with('}');
        let min = self.take_while(|character| character.is_ascii_digit());
        let max = if self.skip(",") {
            self.take_while(|character| character.is_ascii_digit())
        } else {
            min
        };
        if is_empty || !self.skip("}") {
            self.rest = after_brace;
            return None;
        }
        let min = if min.is_empty() { "0" } else { min };
        Some(format!("{{{min},{max}}}"))
    }

    /// Adds a repetition and its `?`, if it is lazy.
    fn add_repetition(&mut self, repetition: &str) -> Result<(), PatternProblem> {
        match self.last {
            Last::Nothing => return Err(Invalid("nothing to repeat".to_owned())),
            Last::Repetition => return Err(Invalid("multiple repeat".to_owned())),
            Last::Item => self.last = Last::Repetition,
        }
        if self.rest.starts_with('+') {
            return Err(Unsupported("a possessive repetition"));
        }
        self.out.push_str(repetition);
        if self.skip("?") {
            self.out.push('?');
        }
        Ok(())
    }
}

/// Whether a backslash and this letter are an escape in Python.
fn is_escape(letter: char, in_set: bool) -> bool {
    "dDsSwWafnrtvxuU".contains(letter) || !in_set && "AbBZ".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of Python 3.11: whether `re.fullmatch` finds the pattern in the text.
    #[test]
    fn patterns_match_as_in_python() {
        for (pattern, text, expected) in [
            (r".*\.q_proj", "model.layers.0.self_attn.q_proj", true),
            (r"q_proj\Z", "q_proj", true),
            (r"\Aq|v\Z", "v", true),
            ("a{,3}", "aa", true),
            ("a{,3}", "aaaa", false),
            ("a{2,}?", "aaa", true),
            ("a{2}", "aaa", false),
            ("a{x}", "a{x}", true),
            ("a{}", "a{}", true),
            ("a{,}", "aaaa", true),
            ("a{2", "a{2", true),
            ("a{2,x}", "a{2,x}", true),
            ("[[a]+", "[a[", true),
            ("[]a]+", "]a", true),
            ("[^]a]", "]", false),
            ("[a&&b]+", "a&b", true),
            ("[a~~b]+", "~", true),
            (r"[\]a]", "]", true),
            (r"\<a\>", "<a>", true),
            (r"\é\ ", "é ", true),
            (r"[\b]", "\u{8}", true),
            (r"q(?#a note)_proj", "q_proj", true),
            (r"(?P<part>q|v)_proj", "v_proj", true),
            (r"(?i:Q)_proj", "q_proj", true),
            (r"(?i)Q_PROJ", "q_proj", true),
            (r"(?#a note)(?i)(?s)Q|V", "v", true),
            (r"(?i:Q)(?s-i:.)(?-i:K)", "q.k", false),
            (r"layers\.(1[0-9]|2)\.mlp", "layers.12.mlp", true),
            (r"layers\.\d+?\.mlp", "layers.12.mlp", true),
            ("a}", "a}", true),
            ("a{x}{2}", "a{x}}", true),
            ("(^)*()+(?:)?a(?#a note)*", "aa", true),
        ] {
            let regex = whole(pattern).unwrap_or_else(|problem| panic!("{pattern}: {problem:?}"));
            assert_eq!(regex.is_match(text), expected, "{pattern} in {text}");
        }
    }

    /// Results of Python 3.11 for `re.match(rf"(.*\.)?({pattern})$", path)`, as PEFT does it.
    #[test]
    fn ends_of_paths_match_as_in_peft() {
        for (pattern, path, expected) in [
            ("q_proj|v_proj", "layers.0.self_attn.q_proj", true),
            ("q_proj|v_proj", "layers.0.self_attn.v_proj", true),
            ("q_proj|v_proj", "q_proj.v", false),
            ("q|v_proj", "layers.0.self_attn.q_proj", false),
            ("^q_proj|v_proj", "layers.0.self_attn.q_proj", false),
            ("^q_proj|v_proj", "layers.0.self_attn.v_proj", true),
            ("(x)|(proj)", "q_proj", false),
            ("_proj", "q_proj", false),
        ] {
            let regex = trailing(pattern).unwrap_or_else(|problem| panic!("{pattern}: {problem:?}"));
            assert_eq!(regex.is_match(path), expected, "{pattern} in {path}");
        }
    }

    #[test]
    fn unsupported_features_are_refused_by_name() {
        for (pattern, feature) in [
            (r"(?!.*vision).*q_proj", "a look-ahead"),
            (r".*(?=q).*", "a look-ahead"),
            (r".*(?<!v)_proj", "a look-behind"),
            (r".*(?<=q)_proj", "a look-behind"),
            (r"(q|v)_\1", "a back-reference"),
            (r"(?P<n>q)(?P=n)", "a back-reference"),
            (r"(q)?(?(1)a|b)", "a condition"),
            (r"(?>a|ab)c", "an atomic group"),
            (r".*+q", "a possessive repetition"),
            (r"a?+", "a possessive repetition"),
            (r"a{1,2}+", "a possessive repetition"),
            (r"\012", "an octal escape"),
            (r"\101", "an octal escape"),
            (r"(q|v)_\18", "a back-reference"),
            (r"(q|v)_\1a", "a back-reference"),
            (r"[\1]", "an octal escape"),
            (r"\N{DIGIT ONE}", "a character by its name (\\N)"),
            (r"(?a)\w", "one of the flags a, L and x"),
            (r"(?i-x:a)", "one of the flags a, L and x"),
            (r"(?ix: q)", "one of the flags a, L and x"),
            (r"[+--]", "'--' in a set"),
            (
                r"((a{1,500}){1,500}){1,500}",
                "more alternatives or repetitions than fit its limit",
            ),
            ("x".repeat(4097).as_str(), "more than 4,096 bytes"),
            ("{".repeat(1 << 20).as_str(), "more than 4,096 bytes"),
        ] {
            assert_eq!(trailing(pattern).err(), Some(Unsupported(feature)), "{pattern}");
        }
    }

    #[test]
    fn flags_of_the_whole_pattern_come_first() {
        for pattern in ["a(?i)", "a|(?i)b", "((?i)a)", "(?i:a)(?i)"] {
            let expected = Invalid("global flags not at the start of the expression".to_owned());
            assert_eq!(whole(pattern).err(), Some(expected), "{pattern}");
        }
    }

    #[test]
    fn patterns_that_python_rejects_are_invalid() {
        for (pattern, expected) in [
            ("(", "unclosed group"),
            (")", "unopened group"),
            ("[a", "unclosed character class"),
            ("*a", "nothing to repeat"),
            ("a|*b", "nothing to repeat"),
            ("(+a)", "nothing to repeat"),
            ("^*a", "nothing to repeat"),
            (r"a\b{2}", "nothing to repeat"),
            ("a**", "multiple repeat"),
            ("a*?*", "multiple repeat"),
            ("a{2}{3}", "multiple repeat"),
            ("a+(?#a note){2}", "multiple repeat"),
            ("[z-a]", "invalid character class range"),
            ("a\\", "a backslash at its end"),
            (r"(?#a", "unclosed comment"),
            ("(?<n>a)", "unknown extension"),
            ("(?U)a", "unknown extension"),
            ("(?R:a)", "unknown extension"),
            ("(?)a", "unknown extension"),
            ("(?-i)a", "unknown extension"),
            ("(?i-:a)", "unknown extension"),
            ("(?-u:a)", "unknown extension"),
            ("(?P>n)", "unknown extension"),
            ("(?P<1>a)", "bad group name"),
            ("(?P<n.x>a)", "bad group name"),
            ("(?P<a", "bad group name"),
            // PEFT puts a group before the pattern.
            ("(?i)a", "global flags not at the start"),
            ("a(?i)", "global flags not at the start"),
            (r"\q", "unrecognized escape sequence"),
            (r"q\z", "unrecognized escape sequence"),
            (r"\pL", "unrecognized escape sequence"),
            (r"\P{L}", "unrecognized escape sequence"),
            (r"[\p{L}]", "unrecognized escape sequence"),
            (r"[\A]", "unrecognized escape sequence"),
            (r"\x{41}", "incomplete escape"),
            (r"[\x{41}]", "incomplete escape"),
            ("x)|(?:proj", "unopened group"),
            ("a)(b", "unopened group"),
        ] {
            match trailing(pattern) {
                Err(Invalid(reason)) => assert!(reason.contains(expected), "{pattern}: {reason}"),
                other => panic!("{pattern}: {other:?}"),
            }
        }
    }
}
