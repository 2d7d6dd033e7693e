//! The pattern for which a JSON schema was refused. The library's reason is a report of several
//! lines about its own spelling of the pattern.

use hearth_formats::shortened;
use llguidance::regex_to_lark;
use regex_syntax::ast::parse::Parser;
use serde_json::Value;

/// Most characters of a pattern that are quoted.
const MAX_QUOTED: usize = 80;

/// The characters after which the library takes digits and letters of ASCII, as JSON schemas do.
const ASCII_CLASSES: &str = "dw";

/// Fields whose values are no schemas.
const VALUES: [&str; 4] = ["const", "default", "enum", "examples"];

/// The beginning and the middle of the library's reasons against a pattern.
const NOT_PARSED: &str = "regex parse error:";
const ASSERTION: &str = "lookarounds not supported yet; ";
const IN_PATTERN: &str = " in regex /";

/// The end of a sentence that names the pattern and what is wrong with it. `None` if the reason is
/// not about a pattern.
pub(crate) fn reason(schema: &str, reason: &str) -> Option<String> {
    let is_parsed = !reason.contains(NOT_PARSED);
    if is_parsed && !reason.contains(ASSERTION) {
        return None;
    }
    let schema: Value = serde_json::from_str(schema).ok()?;
    let mut all = Vec::new();
    patterns(&schema, &mut all);
    let (pattern, why) = if is_parsed {
        let (_, end) = reason.split_once(IN_PATTERN)?;
        let line = end.lines().next()?;
        let spelled = line.strip_suffix('/').unwrap_or(line);
        let is_it = |pattern: &&&str| regex_to_lark(pattern, ASCII_CLASSES) == spelled;
        let pattern = all.iter().find(is_it).copied().unwrap_or(spelled);
        let why = "it has an assertion such as \\b, or ^ or $ in its middle".to_owned();
        (pattern.to_owned(), why)
    } else {
        all.iter()
            .find_map(|&pattern| Some((pattern.to_owned(), syntax_error(pattern)?)))
            .or_else(|| reported(reason))?
    };
    Some(format!(
        "its pattern '{}' cannot be used: {why}",
        shortened(&pattern, MAX_QUOTED)
    ))
}

/// The syntax error of a pattern. `None` if it can be parsed.
fn syntax_error(pattern: &str) -> Option<String> {
    let parsed = Parser::new().parse(&regex_to_lark(pattern, ASCII_CLASSES));
    parsed.err().map(|error| error.kind().to_string())
}

/// The pattern and what is wrong with it, from the library's report: the pattern in the second
/// line, the reason in the last.
fn reported(reason: &str) -> Option<(String, String)> {
    let (_, report) = reason.split_once(NOT_PARSED)?;
    let pattern = report.lines().nth(1)?.trim();
    let why = report.lines().find_map(|line| line.strip_prefix("error: "))?;
    Some((pattern.to_owned(), why.to_owned()))
}

/// Collects the patterns of a schema.
fn patterns<'s>(schema: &'s Value, all: &mut Vec<&'s str>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| patterns(item, all)),
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| !VALUES.contains(&name.as_str())) {
                if let ("pattern", Value::String(pattern)) = (name.as_str(), value) {
                    all.push(pattern);
                }
                if let ("patternProperties", Value::Object(properties)) = (name.as_str(), value) {
                    all.extend(properties.keys().map(String::as_str));
                }
                patterns(value, all);
            }
        }
        _ => {}
    }
}
