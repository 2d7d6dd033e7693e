//! Detects secrets that a model should not memorize: keys, passwords, card numbers.
//! Only patterns with hardly any false positives: a finding that is usually wrong would be ignored.

use regex::{Regex, RegexSet};
use std::sync::LazyLock;

/// A kind of secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Secret {
    /// A private key.
    PrivateKey,
    /// A key of AWS.
    AwsKey,
    /// A token of GitHub.
    GithubToken,
    /// A token of GitLab.
    GitlabToken,
    /// A token of Slack.
    SlackToken,
    /// A key of Anthropic.
    AnthropicKey,
    /// A key of OpenAI.
    OpenaiKey,
    /// A token of Hugging Face.
    HuggingFaceToken,
    /// A key of Google.
    GoogleKey,
    /// A key of Stripe.
    StripeKey,
    /// A token of npm.
    NpmToken,
    /// A token of PyPI.
    PypiToken,
    /// An e-mail address with its password.
    EmailPassword,
    /// The number of a payment card.
    CardNumber,
}

/// Patterns of keys with the prefixes defined by their issuers.
const KEYS: &[(&str, Secret)] = &[
    (
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
        Secret::PrivateKey,
    ),
    (r"(?-u:\b)(?:AKIA|ASIA)[0-9A-Z]{16}(?-u:\b)", Secret::AwsKey),
    (r"(?-u:\b)gh[pousr]_[0-9A-Za-z]{36}(?-u:\b)", Secret::GithubToken),
    (r"(?-u:\b)github_pat_[0-9A-Za-z_]{60,}(?-u:\b)", Secret::GithubToken),
    (r"(?-u:\b)glpat-[0-9A-Za-z_-]{20,}", Secret::GitlabToken),
    (r"(?-u:\b)xox[abprs]-[0-9A-Za-z-]{20,}", Secret::SlackToken),
    (r"(?-u:\b)sk-ant-[0-9A-Za-z_-]{24,}", Secret::AnthropicKey),
    (r"(?-u:\b)sk-(?:proj-)?[0-9A-Za-z_-]{40,}", Secret::OpenaiKey),
    (r"(?-u:\b)hf_[0-9A-Za-z]{34}(?-u:\b)", Secret::HuggingFaceToken),
    (r"(?-u:\b)AIza[0-9A-Za-z_-]{35}(?-u:\b)", Secret::GoogleKey),
    (r"(?-u:\b)[rs]k_live_[0-9A-Za-z]{20,}(?-u:\b)", Secret::StripeKey),
    (r"(?-u:\b)npm_[0-9A-Za-z]{36}(?-u:\b)", Secret::NpmToken),
    (r"(?-u:\b)pypi-AgEIcHlwaS[0-9A-Za-z_-]{50,}", Secret::PypiToken),
    (
        r"(?i)[a-z0-9_.+-]{1,64}@[a-z0-9-]{1,63}\.[a-z0-9.-]{2,63}[ ,;:|/()\t\r\n-]{1,10}(?:[a-z]{1,12}[ ,;:]{1,4}){0,4}(?:password|passwort|passwd|pwd)\s{0,2}(?:is|ist|:|=)\s{0,2}[!-~]{4,}",
        Secret::EmailPassword,
    ),
];

static KEY_SET: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(KEYS.iter().map(|(pattern, _)| pattern)).expect("the patterns above"));

/// Digits grouped as on cards.
static CARD: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?-u:\b)(?:\d{4}(?:[ -]?\d{4}){3}|3[47]\d{2}[ -]?\d{6}[ -]?\d{5})(?-u:\b)".replace(r"\d", "[0-9]");
    Regex::new(&pattern).expect("the pattern above")
});

/// The kinds of secrets in a text.
pub(super) fn find(text: &str) -> Vec<Secret> {
    let mut secrets: Vec<Secret> = Vec::new();
    secrets.extend(KEY_SET.matches(text).iter().map(|index| KEYS[index].1));
    if CARD.find_iter(text).any(|digits| is_card(digits.as_str())) {
        secrets.push(Secret::CardNumber);
    }
    // An Anthropic key also matches the OpenAI pattern.
    if secrets.contains(&Secret::AnthropicKey) {
        secrets.retain(|secret| *secret != Secret::OpenaiKey);
    }
    secrets.dedup();
    secrets
}

/// Whether digits have a card issuer's prefix and a valid check digit (Luhn).
/// <https://en.wikipedia.org/wiki/Luhn_algorithm>
fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(10)).collect();
    let Some(issuer) = digits.get(..2).map(|prefix| prefix[0] * 10 + prefix[1]) else {
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
