//! Converts the findings and broken lines of a dataset to the protocol's types.

use hearth_formats::dataset;
use hearth_protocol::{BrokenLine, BrokenReason, Delimiter, Finding, FindingKind, JsonKind, Refusal, Secret, Severity};

/// Converts an enum of [`dataset`] to the enum of the protocol with the same name, variants and
/// fields. `field: convert` converts a field.
macro_rules! same_variants {
    ($name:ident => $value:expr, {
        $($variant:ident $({ $($field:ident $(: $convert:ident)?),* })?),* $(,)?
    }) => {
        match $value {
            $(dataset::$name::$variant $({ $($field),* })? => {
                $($($(let $field = $convert($field);)?)*)?
                $name::$variant $({ $($field),* })?
            })*
        }
    };
}

pub(super) fn from_finding(finding: dataset::Finding) -> Finding {
    Finding {
        kind: from_kind(finding.kind),
        severity: from_severity(finding.severity),
        lines: finding.lines,
    }
}

pub(super) fn from_kind(kind: dataset::FindingKind) -> FindingKind {
    same_variants!(FindingKind => kind, {
        Broken { count, line, broken: from_reason },
        Refused { count, line, refusal: from_refusal },
        Dropped { count, sequence },
        Truncated { count, sequence },
        LastAnswer { count },
        Thoughts { count },
        Unsure,
        Preferences { column },
        RowLimit { rows, line },
        TextLimit { mib, line },
        NoExample,
        OneExample,
        FewExamples { count },
        FewSequences { count },
        SomeExamples { count },
        SomeSequences { count },
        Secrets { count, secrets: from_secrets },
        EmptyAnswers { count },
        Duplicates { count },
        NearDuplicates { count },
        ComparedFirst { count },
        Leaks { count, total },
        ShortFacts,
        LongDocument,
    })
}

pub(super) fn from_broken_line(broken: dataset::BrokenLine) -> BrokenLine {
    BrokenLine {
        line: broken.line,
        reason: from_reason(broken.reason),
    }
}

pub(super) fn from_reason(reason: dataset::BrokenReason) -> BrokenReason {
    same_variants!(BrokenReason => reason, {
        TooLong { mib },
        TooMuchMemory { mib },
        NotUtf8,
        NotJson { detail },
        NotObject { json: from_json_kind },
        ColumnCount { count, expected, delimiter: from_delimiter },
        OtherColumns { column, columns },
        NoColumns { column },
        NotText { column, json: from_json_kind },
        Empty,
        EmptyText,
        EmptyConversation,
        NoAnswer,
        ConversationIsText,
        NotConversation,
        TurnNotObject { turn },
        TurnWithoutRole { turn },
        ToolRole { turn, role },
        UnknownRole { turn, role },
        ToolCall { turn },
        TurnNotText { turn },
        TurnWithoutText { turn },
    })
}

fn from_severity(severity: dataset::Severity) -> Severity {
    same_variants!(Severity => severity, { Note, Warning, Error })
}

fn from_refusal(refusal: dataset::Refusal) -> Refusal {
    same_variants!(Refusal => refusal, {
        Detail { detail },
        NoAnswer,
        TooManyTokens { millions },
    })
}

fn from_secrets(secrets: Vec<dataset::Secret>) -> Vec<Secret> {
    secrets.into_iter().map(from_secret).collect()
}

fn from_secret(secret: dataset::Secret) -> Secret {
    same_variants!(Secret => secret, {
        PrivateKey,
        AwsKey,
        GithubToken,
        GitlabToken,
        SlackToken,
        AnthropicKey,
        OpenaiKey,
        HuggingFaceToken,
        GoogleKey,
        StripeKey,
        NpmToken,
        PypiToken,
        EmailPassword,
        CardNumber,
    })
}

fn from_json_kind(kind: dataset::JsonKind) -> JsonKind {
    same_variants!(JsonKind => kind, { Null, Boolean, Number, String, List, Object })
}

fn from_delimiter(delimiter: dataset::Delimiter) -> Delimiter {
    same_variants!(Delimiter => delimiter, { Comma, Semicolon, Tab })
}
