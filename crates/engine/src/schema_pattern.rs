//! Finds the pattern for which the library refused a JSON schema. The library's reason is a report
//! of several lines about its own form of the pattern.

use hearth_formats::shortened;
use hearth_protocol::RequestReason;
use llguidance::regex_to_lark;
use regex_syntax::ast::parse::Parser;
use serde_json::Value;

/// Maximum characters of a pattern that are quoted.
const MAX_QUOTED: usize = 80;

/// The character classes that mean ASCII digits and letters in JSON schemas.
const ASCII_CLASSES: &str = "dw";

/// Fields whose values are not schemas.
const VALUE_FIELDS: [&str; 4] = ["const", "default", "enum", "examples"];

/// Parts of the library's reasons that refer to a pattern.
const NOT_PARSED: &str = "regex parse error:";
const ASSERTION: &str = "lookarounds not supported yet; ";
const IN_PATTERN: &str = " in regex /";

/// The pattern and its error. `None` if the library's reason is not about a pattern.
pub(crate) fn reason(schema: &str, reason: &str) -> Option<RequestReason> {
    let parses = !reason.contains(NOT_PARSED);
    if parses && !reason.contains(ASSERTION) {
        return None;
    }
    let schema: Value = serde_json::from_str(schema).ok()?;
    let mut patterns = Vec::new();
    collect_patterns(&schema, &mut patterns);
    if parses {
        let (_, end) = reason.split_once(IN_PATTERN)?;
        let line = end.lines().next()?;
        let converted = line.strip_suffix('/').unwrap_or(line);
        let matches = |pattern: &&&str| regex_to_lark(pattern, ASCII_CLASSES) == converted;
        let original = patterns.iter().find(matches).copied();
        let pattern = shortened(original.unwrap_or(converted), MAX_QUOTED);
        return Some(RequestReason::PatternAssertion { pattern });
    }
    let (pattern, detail) = patterns
        .iter()
        .find_map(|&pattern| Some((pattern.to_owned(), syntax_error(pattern)?)))
        .or_else(|| parse_report(reason))?;
    let pattern = shortened(&pattern, MAX_QUOTED);
    Some(RequestReason::PatternInvalid { pattern, detail })
}

/// The syntax error of a pattern. `None` if it can be parsed.
fn syntax_error(pattern: &str) -> Option<String> {
    let result = Parser::new().parse(&regex_to_lark(pattern, ASCII_CLASSES));
    result.err().map(|error| error.kind().to_string())
}

/// The pattern and its error, from the library's report: the pattern is in the second line, the
/// error in the last.
fn parse_report(reason: &str) -> Option<(String, String)> {
    let (_, report) = reason.split_once(NOT_PARSED)?;
    let pattern = report.lines().nth(1)?.trim();
    let error = report.lines().find_map(|line| line.strip_prefix("error: "))?;
    Some((pattern.to_owned(), error.to_owned()))
}

/// Collects the patterns of a schema.
fn collect_patterns<'s>(schema: &'s Value, patterns: &mut Vec<&'s str>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| collect_patterns(item, patterns)),
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| !VALUE_FIELDS.contains(&name.as_str())) {
                if let ("pattern", Value::String(pattern)) = (name.as_str(), value) {
                    patterns.push(pattern);
                }
                if let ("patternProperties", Value::Object(properties)) = (name.as_str(), value) {
                    patterns.extend(properties.keys().map(String::as_str));
                }
                collect_patterns(value, patterns);
            }
        }
        _ => {}
    }
}
