//! Finds what should not be learnt by heart by a model that is passed on: keys, passwords, card numbers.
//!
//! Only what can hardly be anything else is named; a finding that is usually wrong would teach people to look away.

use regex::{Regex, RegexSet};
use std::sync::LazyLock;

/// Keys by the beginnings that their makers give them for this purpose, and what each is, with its article.
const KEYS: &[(&str, &str)] = &[
    (r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----", "a private key"),
    (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", "an AWS key"),
    (r"\bgh[pousr]_[0-9A-Za-z]{36}\b", "a GitHub token"),
    (r"\bgithub_pat_[0-9A-Za-z_]{60,}\b", "a GitHub token"),
    (r"\bglpat-[0-9A-Za-z_-]{20,}", "a GitLab token"),
    (r"\bxox[abprs]-[0-9A-Za-z-]{20,}", "a Slack token"),
    (r"\bsk-ant-[0-9A-Za-z_-]{24,}", "an Anthropic key"),
    (r"\bsk-(?:proj-)?[0-9A-Za-z_-]{40,}", "an OpenAI key"),
    (r"\bhf_[0-9A-Za-z]{34}\b", "a Hugging Face token"),
    (r"\bAIza[0-9A-Za-z_-]{35}\b", "a Google key"),
    (r"\b[rs]k_live_[0-9A-Za-z]{20,}\b", "a Stripe key"),
    (r"\bnpm_[0-9A-Za-z]{36}\b", "an npm token"),
    (r"\bpypi-AgEIcHlwaS[0-9A-Za-z_-]{50,}", "a PyPI token"),
    (
        r"(?i)[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,63}\W{1,10}(?:\w{1,12}\W{1,4}){0,4}(?:password|passwort|passwd|pwd)\s{0,2}(?:is|ist|:|=)\s{0,2}\S{4,}",
        "an e-mail address with its password",
    ),
];

static KEY_SET: LazyLock<Option<RegexSet>> =
    LazyLock::new(|| RegexSet::new(KEYS.iter().map(|(pattern, _)| pattern)).ok());

/// Digits in groups as they stand on cards.
static CARD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b\d{4}(?:[ -]?\d{4}){3}\b|\b3[47]\d{2}[ -]?\d{6}[ -]?\d{5}\b").ok());

/// What a text holds that should not be passed on, each with its article.
pub(super) fn find(text: &str) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    if let Some(keys) = &*KEY_SET {
        found.extend(keys.matches(text).iter().map(|place| KEYS[place].1));
    }
    if let Some(card) = &*CARD
        && card.find_iter(text).any(|digits| is_card(digits.as_str()))
    {
        found.push("a card number");
    }
    // An Anthropic key begins as an OpenAI key does.
    if found.contains(&"an Anthropic key") {
        found.retain(|what| *what != "an OpenAI key");
    }
    found.dedup();
    found
}

/// Whether digits begin as a card's and have the check digit of one (Luhn). <https://en.wikipedia.org/wiki/Luhn_algorithm>
fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(10)).collect();
    let Some(issuer) = digits.get(..2).map(|two| two[0] * 10 + two[1]) else {
        return false;
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, &digit)| match place % 2 {
            0 => digit,
            _ => digit * 2 / 10 + digit * 2 % 10,
        })
        .sum();
    matches!(issuer, 22..=27 | 34 | 37 | 40..=49 | 51..=55 | 60 | 64 | 65) && sum.is_multiple_of(10)
}
