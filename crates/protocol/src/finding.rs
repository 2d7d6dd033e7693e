//! Findings about a dataset.

use crate::{broken_line::BrokenReason, sentence::sentence};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A finding about a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Its kind, with the data.
    pub kind: FindingKind,
    /// Its severity.
    pub severity: Severity,
    /// Affected lines, the first twenty.
    pub lines: Vec<u32>,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Information.
    Note,
    /// Probably a mistake.
    Warning,
    /// A run would fail or train on the wrong text.
    Error,
}

/// The kind of a finding, with its data. Its `Display` is English: the finding and the advice, in
/// whole sentences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FindingKind {
    /// Lines were skipped, since they cannot be read.
    Broken {
        /// Their number.
        count: u32,
        /// The first of them.
        line: u32,
        /// Why it cannot be read.
        broken: BrokenReason,
    },
    /// Examples cannot be tokenized.
    Refused {
        /// Their number.
        count: u32,
        /// The line of the first.
        line: u32,
        /// Why it cannot be tokenized.
        refusal: Refusal,
    },
    /// Truncation leaves nothing of the answers of examples.
    Dropped {
        /// Their number.
        count: u32,
        /// The sequence length in tokens.
        sequence: u32,
    },
    /// Examples are truncated.
    Truncated {
        /// Their number.
        count: u32,
        /// The sequence length in tokens.
        sequence: u32,
    },
    /// Only the last answers of conversations are trained on.
    LastAnswer {
        /// Their number.
        count: u32,
    },
    /// The thoughts in answers are not trained on.
    Thoughts {
        /// Examples with thoughts.
        count: u32,
    },
    /// The column mapping is a guess.
    Unsure,
    /// The worse answers of preference pairs are not used.
    Preferences {
        /// Their column.
        column: String,
    },
    /// The file has more rows than are read.
    RowLimit {
        /// The maximum.
        rows: u32,
        /// The first line that is ignored.
        line: u32,
    },
    /// The file has more text than is read.
    TextLimit {
        /// The maximum in MiB.
        mib: u32,
        /// The first line that is ignored.
        line: u32,
    },
    /// There is no example.
    NoExample,
    /// There is one example.
    OneExample,
    /// There are too few examples.
    FewExamples {
        /// Their number.
        count: u32,
    },
    /// A document has too few sequences.
    FewSequences {
        /// Their number.
        count: u32,
    },
    /// There are enough examples for a tone.
    SomeExamples {
        /// Their number.
        count: u32,
    },
    /// A document has enough sequences for a tone.
    SomeSequences {
        /// Their number.
        count: u32,
    },
    /// Examples contain secrets.
    Secrets {
        /// Their number.
        count: u32,
        /// The kinds of secrets.
        secrets: Vec<Secret>,
    },
    /// Examples have empty answers.
    EmptyAnswers {
        /// Their number.
        count: u32,
    },
    /// Examples are the same as earlier ones.
    Duplicates {
        /// Their number.
        count: u32,
    },
    /// Examples are nearly the same as earlier ones.
    NearDuplicates {
        /// Their number.
        count: u32,
    },
    /// Not all examples were searched for near-duplicates.
    ComparedFirst {
        /// Number of searched examples, from the first.
        count: u32,
    },
    /// Validation examples are near-duplicates of training examples.
    Leaks {
        /// Their number.
        count: u32,
        /// All validation examples.
        total: u32,
    },
    /// Most examples are factual questions, which the context can answer better.
    ShortFacts,
    /// A document is many times longer than the context.
    LongDocument,
}

/// Why an example cannot be tokenized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Refusal {
    /// In the words of the chat template.
    Detail {
        /// A sentence in English, without a full stop.
        detail: String,
    },
    /// Its answer cannot be located in the rendered conversation.
    NoAnswer,
    /// The dataset has more tokens than are used.
    TooManyTokens {
        /// The maximum, in millions of tokens.
        millions: u32,
    },
}

/// A kind of secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
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

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence("finding", self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_survives_the_wire_and_is_shown_with_its_reason() {
        let kind = FindingKind::Broken {
            count: 1,
            line: 61,
            broken: BrokenReason::NotJson {
                detail: "expected ident at character 2".to_owned(),
            },
        };
        let json = serde_json::to_string(&kind).expect("it is written");
        assert_eq!(serde_json::from_str::<FindingKind>(&json).expect("it is read"), kind);
        assert_eq!(
            kind.to_string(),
            "1 line cannot be read and is left out. Line 61 for example: it is not valid JSON (expected ident at \
             character 2)."
        );
    }

    #[test]
    fn secrets_are_named() {
        let kind = FindingKind::Secrets {
            count: 2,
            secrets: vec![Secret::AwsKey, Secret::GithubToken],
        };
        assert!(
            kind.to_string()
                .starts_with("2 examples hold what looks like secrets (AWS key, GitHub token). "),
            "{kind}"
        );
    }
}
