//! Detects secrets that a model should not memorise: keys, passwords, card numbers.
//! Only patterns with hardly any false positives: a finding that is usually wrong would be ignored.

use regex::{Regex, RegexSet};
use std::sync::LazyLock;

/// Patterns of keys with the prefixes defined by their issuers, and their names with an article.
const KEYS: &[(&str, &str)] = &[
    (r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----", "a private key"),
    (r"(?-u:\b)(?:AKIA|ASIA)[0-9A-Z]{16}(?-u:\b)", "an AWS key"),
    (r"(?-u:\b)gh[pousr]_[0-9A-Za-z]{36}(?-u:\b)", "a GitHub token"),
    (r"(?-u:\b)github_pat_[0-9A-Za-z_]{60,}(?-u:\b)", "a GitHub token"),
    (r"(?-u:\b)glpat-[0-9A-Za-z_-]{20,}", "a GitLab token"),
    (r"(?-u:\b)xox[abprs]-[0-9A-Za-z-]{20,}", "a Slack token"),
    (r"(?-u:\b)sk-ant-[0-9A-Za-z_-]{24,}", "an Anthropic key"),
    (r"(?-u:\b)sk-(?:proj-)?[0-9A-Za-z_-]{40,}", "an OpenAI key"),
    (r"(?-u:\b)hf_[0-9A-Za-z]{34}(?-u:\b)", "a Hugging Face token"),
    (r"(?-u:\b)AIza[0-9A-Za-z_-]{35}(?-u:\b)", "a Google key"),
    (r"(?-u:\b)[rs]k_live_[0-9A-Za-z]{20,}(?-u:\b)", "a Stripe key"),
    (r"(?-u:\b)npm_[0-9A-Za-z]{36}(?-u:\b)", "an npm token"),
    (r"(?-u:\b)pypi-AgEIcHlwaS[0-9A-Za-z_-]{50,}", "a PyPI token"),
    (
        r"(?i)[a-z0-9_.+-]{1,64}@[a-z0-9-]{1,63}\.[a-z0-9.-]{2,63}[ ,;:|/()\t\r\n-]{1,10}(?:[a-z]{1,12}[ ,;:]{1,4}){0,4}(?:password|passwort|passwd|pwd)\s{0,2}(?:is|ist|:|=)\s{0,2}[!-~]{4,}",
        "an e-mail address with its password",
    ),
];

static KEY_SET: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(KEYS.iter().map(|(pattern, _)| pattern)).expect("the patterns above"));

/// Digits grouped as on cards.
static CARD: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?-u:\b)(?:\d{4}(?:[ -]?\d{4}){3}|3[47]\d{2}[ -]?\d{6}[ -]?\d{5})(?-u:\b)".replace(r"\d", "[0-9]");
    Regex::new(&pattern).expect("the pattern above")
});

/// Names of the secrets found in a text, each with its article.
pub(super) fn find(text: &str) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    found.extend(KEY_SET.matches(text).iter().map(|index| KEYS[index].1));
    if CARD.find_iter(text).any(|digits| is_card(digits.as_str())) {
        found.push("a card number");
    }
    // An Anthropic key also matches the OpenAI pattern.
    if found.contains(&"an Anthropic key") {
        found.retain(|what| *what != "an OpenAI key");
    }
    found.dedup();
    found
}

/// Whether digits have a card issuer's prefix and a valid check digit (Luhn).
/// <https://en.wikipedia.org/wiki/Luhn_algorithm>
fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(10)).collect();
    let Some(issuer) = digits.get(..2).map(|two| two[0] * 10 + two[1]) else {
        return false;
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(position, &digit)| match position % 2 {
            0 => digit,
            _ => digit * 2 / 10 + digit * 2 % 10,
        })
        .sum();
    matches!(issuer, 22..=27 | 34 | 37 | 40..=49 | 51..=55 | 60 | 64 | 65) && sum.is_multiple_of(10)
}
