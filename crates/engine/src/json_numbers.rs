//! Limits on the numbers of an answer that follows a JSON schema. llguidance allows any number of
//! digits, so that a small model may repeat a digit until its context is full.

use llguidance::derivre::raw::{DerivCache, ExprSet, RelevanceCache};
use llguidance::derivre::{ExprRef, RegexAst};
use llguidance::earley::lexerspec::{LexemeSpec, LexerSpec};
use std::mem;

/// Maximum digits of a number with a fraction or an exponent: the precision of an `f64`. A zero
/// before the decimal point does not count, and zeros after it do.
const MAX_DIGITS: usize = 17;
/// Up to 289: with [`MAX_DIGITS`] digits before the exponent, the number is a finite `f64`. An
/// `f64` has a larger range, up to 1.8e308.
const EXPONENT: &str = "[eE][+-]?([01]?[0-9]{1,2}|2[0-8][0-9])";
/// Maximum `multipleOf`, without its decimal point, of a number with limits. The lexer has states
/// for each remainder at each digit, and those for 1024 reach a limit of the library.
const MAX_DIVISOR: u32 = 100;
/// Maximum bytes of a description in which a divisor is looked up.
const MAX_DESCRIPTION: usize = 64 << 10;
/// Steps in which an intersection must be found to contain a number: the library's default for the
/// whole lexer.
const MAX_FUEL: u64 = 1_000_000;
/// The texts that the limits apply to.
const NUMBER: &str = "[-0-9][-+.0-9eE]*";

/// Limits the numbers of a grammar: integers to absolute values up to `i64::MAX`, others to
/// [`MAX_DIGITS`] digits and an exponent of three digits. Numbers from a list and ranges of
/// integers already have an end and do not change. Neither do multiples of more than
/// [`MAX_DIVISOR`], and ranges in which no number but 0 is within the limits: the library's pattern
/// for numbers above 0 and up to 1e-18 has 0, too.
pub(crate) fn limit_numbers(lexer: &mut LexerSpec) {
    let limited = limited_lexemes(lexer);
    // A lexeme's place is its identity in the grammar, so each one is replaced in place.
    for (lexeme, limited) in mem::take(&mut lexer.lexemes).into_iter().zip(limited) {
        let place = lexer.lexemes.len();
        if let Some(limited) = limited {
            // An error leaves the lexeme without limits.
            let _ = lexer.add_greedy_lexeme(String::new(), RegexAst::ExprRef(limited), false, None, usize::MAX);
        }
        if lexer.lexemes.len() == place {
            lexer.lexemes.push(lexeme);
        }
    }
}

/// The expression of each lexeme within the limits. `None` means that it does not change.
fn limited_lexemes(lexer: &mut LexerSpec) -> Vec<Option<ExprRef>> {
    let mut expressions = lexer.regex_builder.exprset().clone();
    let too_long = RegexAst::And(vec![
        RegexAst::Regex(NUMBER.to_owned()),
        RegexAst::Not(Box::new(RegexAst::Regex(limited()))),
    ]);
    let mut limited = Vec::new();
    for lexeme in &lexer.lexemes {
        let expression = expression(lexeme).filter(|expression| {
            is_endless_number(&mut expressions, *expression) && divisor(&expressions, *expression) <= MAX_DIVISOR
        });
        limited.push(expression.and_then(|expression| {
            let intersection = RegexAst::And(vec![
                RegexAst::ExprRef(expression),
                RegexAst::Not(Box::new(too_long.clone())),
            ]);
            let without_zero = RegexAst::And(vec![
                intersection.clone(),
                RegexAst::Not(Box::new(RegexAst::Literal("0".to_owned()))),
            ]);
            let limited = lexer.regex_builder.mk(&intersection).ok()?;
            Some((limited, lexer.regex_builder.mk(&without_zero).ok()?))
        }));
    }
    let mut expressions = lexer.regex_builder.exprset().clone();
    let mut relevance = RelevanceCache::new();
    let mut has_match = |expression| {
        let result = relevance.is_non_empty_limited(&mut expressions, expression, MAX_FUEL);
        // An error means that it takes too long to find out.
        result.unwrap_or(false)
    };
    let limited = limited.into_iter().map(|pair| {
        let (limited, without_zero) = pair?;
        has_match(without_zero).then_some(limited)
    });
    limited.collect()
}

/// The expression of a lexeme. `None` means that it is a fixed text or white space. The library
/// shows it only in this description, as `[3] name  (ExprRef 45)`.
fn expression(lexeme: &LexemeSpec) -> Option<ExprRef> {
    let description = lexeme.to_string(usize::MAX, None);
    let (_, number) = description.rsplit_once("(ExprRef ")?;
    number.strip_suffix(')')?.parse().ok().map(ExprRef::new)
}

/// Whether an expression matches numbers, and repeats a part.
fn is_endless_number(expressions: &mut ExprSet, expression: ExprRef) -> bool {
    let mut derivatives = DerivCache::new();
    expressions.attr_has_repeat(expression)
        && (b'0'..=b'9')
            .chain([b'-'])
            .any(|first| derivatives.derivative(expressions, expression, first) != ExprRef::NO_MATCH)
}

/// The largest divisor in an expression, or 0. The library shows it only in a description, as
/// `( % 7 == 7 )`.
fn divisor(expressions: &ExprSet, expression: ExprRef) -> u32 {
    let description = expressions.expr_to_string_max_len(expression, MAX_DESCRIPTION);
    let divisors = description.split("( % ").skip(1);
    let divisors = divisors.filter_map(|rest| rest.split(' ').next()?.parse().ok());
    divisors.max().unwrap_or(0)
}

/// The pattern of the numbers within the limits.
fn limited() -> String {
    let integer = up_to(&i64::MAX.to_string());
    // At most `left` more digits, with the decimal point before one of them or without.
    let more = (1..MAX_DIGITS).fold(String::new(), |more, left| {
        format!(r"(\.[0-9]{{1,{left}}}|[0-9]{more})?")
    });
    format!(r"-?({integer}|(0(\.[0-9]{{1,{MAX_DIGITS}}})?|[1-9]{more})({EXPONENT})?)")
}

/// The pattern of the integers from 1 to a limit of several digits.
fn up_to(limit: &str) -> String {
    let smaller = limit
        .char_indices()
        .filter(|(_, digit)| *digit > '0')
        .map(|(place, digit)| {
            let (least, most) = (if place == 0 { '1' } else { '0' }, char::from(digit as u8 - 1));
            format!(
                "{}[{least}-{most}][0-9]{{{}}}",
                &limit[..place],
                limit.len() - place - 1
            )
        });
    let shorter = format!("[1-9][0-9]{{0,{}}}", limit.len() - 2);
    smaller.chain([shorter, limit.to_owned()]).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use llguidance::derivre::Regex;

    #[test]
    fn a_number_with_no_value_within_the_limits_is_not_limited() {
        let has_limit = |pattern: &str| {
            let mut lexer = LexerSpec::new().expect("a lexer");
            lexer
                .setup_lexeme_class(RegexAst::Regex(" +".to_owned()))
                .expect("a class");
            let number = lexer.regex_builder.mk_regex(pattern).expect("a pattern");
            lexer
                .add_greedy_lexeme(String::new(), RegexAst::ExprRef(number), false, None, usize::MAX)
                .expect("a lexeme");
            limited_lexemes(&mut lexer).into_iter().flatten().count() == 1
        };
        assert!(has_limit(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?"));
        assert!(has_limit(r"0\.0{16}[0-9]+"));
        // From 1e-20 to 1e-18, and above 0 and up to 1e-18.
        assert!(!has_limit(r"0\.0{17}(1|0([1-9][0-9]*|0[1-9][0-9]*))"));
        assert!(!has_limit(r"0(\.0{17}(1|0[0-9]*[1-9]))?"));
        assert!(!has_limit(r"0\.0{17}0*[1-9][0-9]*"));
        assert!(!has_limit(r"[1-9][0-9]{20}[0-9]*"));
    }

    #[test]
    fn numbers_are_limited() {
        let mut limited = Regex::new(&limited()).expect("a pattern");
        let within = [
            "0",
            "-7",
            "9223372036854775807",
            "-9223372036854775807",
            "8999999999999999999",
            "0.12345678901234567",
            "-1.2345678901234567",
            "1234567890123456.7",
            "6.02214076e23",
            "1e0",
            "1E+007",
            "12345678901234567e289",
            "0.00000000000000001e-289",
        ];
        for number in within {
            assert!(limited.is_match(number), "{number}");
            assert!(number.parse::<f64>().is_ok_and(f64::is_finite), "{number}");
        }
        for number in [
            "9223372036854775808",
            "10000000000000000000",
            "0.123456789012345678",
            "1.23456789012345678",
            "12345678901234567.8",
            "123456789012345678e1",
            "1e290",
            "1e0001",
            "01",
            "1.",
            "-",
        ] {
            assert!(!limited.is_match(number), "{number}");
        }
    }
}
