//! Reports, and the validation split.

use crate::dataset::masks::{CHAT_ML, model};
use hearth_formats::dataset::{
    BrokenReason, Dataset, Finding, FindingKind, ReadOptions, Report, ReportOptions, Secret, Severity, leaks,
    render_all, split,
};

const NONE: [FindingKind; 0] = [];

fn report(lines: &[String], sequence: Option<u32>, context: u32) -> Report {
    let options = ReadOptions {
        mapping: None,
        skip_broken: true,
    };
    let dataset = Dataset::from_bytes(lines.join("\n").into_bytes(), "x.jsonl", &options).unwrap();
    let model = model("smollm", CHAT_ML);
    let rendered = render_all(
        &dataset.examples,
        &model.tokenizer,
        &model.template,
        false,
        3,
        &mut |_| true,
    )
    .unwrap();
    assert_eq!(rendered.len(), dataset.examples.len());
    Report::new(&dataset, &rendered, ReportOptions { sequence, context })
}

fn pair(prompt: &str, answer: &str) -> String {
    format!("{{\"prompt\":\"{prompt}\",\"answer\":\"{answer}\"}}")
}

/// Sixty examples without common words.
fn sound() -> Vec<String> {
    (0..60)
        .map(|n| pair(&format!("tell{n} about{n} it{n}"), &format!("this{n} then{n} that{n}")))
        .collect()
}

fn kinds(report: &Report) -> Vec<FindingKind> {
    report.findings.iter().map(|finding| finding.kind.clone()).collect()
}

/// The finding of this kind after adding lines to a sound dataset.
#[track_caller]
fn finds(kind: &FindingKind, lines: &[String]) -> Finding {
    let all = [sound(), lines.to_vec()].concat();
    let report = report(&all, Some(512), 2048);
    let actual = report.findings.iter().find(|finding| finding.kind == *kind);
    actual
        .unwrap_or_else(|| panic!("no {kind:?} in {:?}", report.findings))
        .clone()
}

#[test]
fn a_sound_dataset_gives_figures_and_no_findings() {
    let report = report(&sound(), None, 2048);
    assert_eq!(kinds(&report), NONE);
    let [median, p95, longest] = report.lengths;
    assert!(0 < median && median <= p95 && p95 <= longest && report.tokens > 60 * 20);
    assert_eq!(
        (report.examples, report.truncated, report.sequence),
        (60, 0, p95.next_multiple_of(32))
    );
    assert!(report.trained_tokens > 60 && report.trained_tokens < report.tokens);
}

#[test]
fn the_suggested_sequence_fits_most_examples_and_the_context() {
    let long = pair("tell", &"a long story ".repeat(200));
    let few = [sound(), vec![long.clone()]].concat();
    assert!(report(&few, None, 4096).sequence <= 64, "one of many does not decide");
    let many = [sound(), vec![long; 60]].concat();
    assert!(report(&many, None, 4096).sequence > 500);
    assert_eq!(report(&many, None, 256).sequence, 256);
    assert_eq!(report(&few, Some(100), 4096).sequence, 100);
}

#[test]
fn findings_name_their_lines() {
    let truncated = FindingKind::Truncated {
        count: 1,
        sequence: 512,
    };
    let dropped = FindingKind::Dropped {
        count: 1,
        sequence: 512,
    };
    let finding = finds(&truncated, &[pair("tell", &"word ".repeat(600))]);
    assert_eq!((finding.severity, &finding.lines[..]), (Severity::Warning, &[61][..]));
    assert_eq!(finds(&dropped, &[pair(&"word ".repeat(600), "gone")]).lines, [61]);
    let duplicates = FindingKind::Duplicates { count: 1 };
    assert_eq!(
        finds(&duplicates, &[pair("one", "two"), pair("one", "two")]).lines,
        [62]
    );
    let empty = FindingKind::EmptyAnswers { count: 2 };
    assert_eq!(finds(&empty, &[pair("one", " "), pair("two", "")]).lines, [61, 62]);
    let broken = FindingKind::Broken {
        count: 1,
        line: 61,
        broken: BrokenReason::NotJson {
            detail: "expected ident at character 2".to_owned(),
        },
    };
    assert_eq!(finds(&broken, &["nonsense".to_owned()]).lines, [61]);
}

#[test]
fn thoughts_that_are_not_trained_on_are_reported() {
    let line = |key: &str, thought: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"a{key}"}},{{"role":"assistant","content":"b{key}","{key}":"{thought}"}}]}}"#
        )
    };
    let lines = [
        line("reasoning_content", "Hm."),
        line("thinking", " "),
        line("name", "x"),
        line("thinking", "So."),
    ];
    let report = report(&lines, Some(512), 2048);
    let thoughts = FindingKind::Thoughts { count: 2 };
    let actual = report.findings.iter().find(|finding| finding.kind == thoughts);
    let actual = actual.unwrap_or_else(|| panic!("{:?}", report.findings));
    assert_eq!((actual.severity, &*actual.lines), (Severity::Note, &[1, 4][..]));
}

#[test]
fn near_duplicates_share_four_fifths_of_their_shingles() {
    let words = |changed: &[usize]| -> String {
        (0..100)
            .map(|n| {
                if changed.contains(&n) {
                    format!("other{n} ")
                } else {
                    format!("Word{n}, ")
                }
            })
            .collect()
    };
    assert_eq!(
        finds(
            &FindingKind::NearDuplicates { count: 1 },
            &[pair("p", &words(&[])), pair("p", &words(&[10, 60]).to_lowercase())]
        )
        .lines,
        [62]
    );
    let dissimilar = [
        sound(),
        vec![pair("p", &words(&[])), pair("p", &words(&[5, 20, 35, 50, 65, 80, 95]))],
    ]
    .concat();
    assert_eq!(kinds(&report(&dissimilar, Some(999), 2048)), NONE);
}

#[test]
fn secrets_are_named_by_kind_and_line_only() {
    for (text, secret) in [
        // Assembled here, so that this file contains no secret.
        (format!("AKIA{}", "ABCDEFGH23456789"), Secret::AwsKey),
        (format!("ghp_{}", "a1B2".repeat(9)), Secret::GithubToken),
        (format!("sk-ant-{}", "a1B2".repeat(9)), Secret::AnthropicKey),
        (format!("-----BEGIN RSA {} KEY-----", "PRIVATE"), Secret::PrivateKey),
        ("ann@example.org, password: hunter22".to_owned(), Secret::EmailPassword),
        ("4111 1111 1111 1111".to_owned(), Secret::CardNumber),
    ] {
        let kind = FindingKind::Secrets {
            count: 1,
            secrets: vec![secret],
        };
        let actual = finds(&kind, &[pair("say", &format!("it is {text} here"))]);
        assert_eq!(actual.lines, [61]);
    }
    // None of these is a secret.
    let harmless = [
        "4111 1111 1111 1112",
        "order 1234567890123456",
        "write to ann@example.org",
        "the password: it is forgotten",
        "sk-learn and sk-image",
    ];
    let harmless: Vec<String> = harmless.iter().map(|text| pair("say", text)).collect();
    assert_eq!(kinds(&report(&[sound(), harmless].concat(), Some(512), 2048)), NONE);
}

#[test]
fn small_datasets_and_short_facts_are_reported() {
    let few = report(&sound()[..1], None, 2048);
    assert_eq!(
        (kinds(&few), few.findings[0].severity),
        (vec![FindingKind::OneExample], Severity::Warning)
    );
    assert_eq!(report(&sound()[..12], None, 2048).findings[0].severity, Severity::Note);
    let facts: Vec<String> = (0..60)
        .map(|n| pair(&format!("Where is place{n}?"), &format!("In land{n}.")))
        .collect();
    assert_eq!(kinds(&report(&facts, None, 2048)), [FindingKind::ShortFacts]);
    let mut mixed = report(&[sound()[..12].to_vec(), vec!["x".to_owned()]].concat(), None, 2048);
    let leaks = FindingKind::Leaks { count: 1, total: 2 };
    mixed.add(Finding {
        kind: leaks.clone(),
        severity: Severity::Warning,
        lines: Vec::new(),
    });
    let broken = FindingKind::Broken {
        count: 1,
        line: 13,
        broken: BrokenReason::NotJson {
            detail: "expected value at character 1".to_owned(),
        },
    };
    let few = FindingKind::SomeExamples { count: 12 };
    assert_eq!(kinds(&mixed), [broken, leaks, few], "most severe first");
}

#[test]
fn the_validation_split_is_independent_of_order() {
    let keys: Vec<u64> = (0..100u64).map(|n| (n % 90).wrapping_mul(0x9e37_79b9)).collect();
    let keys_of = |indices: &[usize], keys: &[u64]| {
        let mut selected: Vec<u64> = indices.iter().map(|&index| keys[index]).collect();
        selected.sort_unstable();
        selected
    };
    let forward_split = split(&keys, 0.1, 42);
    assert_eq!((forward_split.eval.len(), forward_split.train.len()), (10, 90));
    assert!(
        forward_split
            .eval
            .iter()
            .all(|&eval| forward_split.train.iter().all(|&train| keys[train] != keys[eval])),
        "equal examples stay together"
    );
    let backwards: Vec<u64> = keys.iter().rev().copied().collect();
    let backward_split = split(&backwards, 0.1, 42);
    assert_eq!(
        keys_of(&forward_split.eval, &keys),
        keys_of(&backward_split.eval, &backwards)
    );
    assert_ne!(split(&keys, 0.1, 43), forward_split);
    // Stable across versions: a resumed run must have the same validation split.
    assert_eq!(split(&[1, 2, 3, 4, 5, 6, 7, 8], 0.25, 42).eval, [3, 7]);

    let validation = |count: u64, share| split(&(0..count).collect::<Vec<_>>(), share, 1).eval.len();
    assert_eq!(
        [
            validation(4, 0.5),
            validation(5, 0.1),
            validation(5, 1.0),
            validation(9999, 0.5),
            validation(50, 0.0),
            validation(50, f32::NAN)
        ],
        [0, 1, 4, 200, 0, 0]
    );
    assert_eq!(split(&[7; 20], 0.5, 1).eval.len(), 0, "all are equal");
}

#[test]
fn leaks_are_near_duplicates_across_the_split() {
    let words = |n: usize| {
        (0..60)
            .map(|word| {
                if word == n {
                    "changed ".to_owned()
                } else {
                    format!("w{word} ")
                }
            })
            .collect::<String>()
    };
    let lines: Vec<String> = sound()
        .into_iter()
        .take(8)
        .chain([pair("p", &words(99)), pair("p", &words(30))])
        .collect();
    let dataset = Dataset::from_bytes(lines.join("\n").into_bytes(), "x.jsonl", &ReadOptions::default()).unwrap();
    let mut sides = split(&[0; 10], 0.5, 1);
    assert_eq!(leaks(&dataset.examples, &sides), None);
    sides.eval = sides.train.split_off(9);
    let leak = leaks(&dataset.examples, &sides).unwrap();
    let kind = FindingKind::Leaks { count: 1, total: 1 };
    assert_eq!((leak.kind, leak.lines), (kind, vec![10]));
}

#[test]
fn unused_answers_of_preference_pairs_are_reported() {
    let preference = |n: usize| {
        format!("{{\"prompt\":\"tell{n} about{n}\",\"chosen\":\"this{n} then{n}\",\"rejected\":\"not{n} so{n}\"}}")
    };
    let lines: Vec<String> = (0..60).map(preference).collect();
    let actual = report(&lines, None, 64);
    let preferences = FindingKind::Preferences {
        column: "rejected".to_owned(),
    };
    assert!(kinds(&actual).contains(&preferences), "{:?}", actual.findings);
    assert_eq!(actual.examples, 60);
    assert!(!kinds(&report(&sound(), None, 64)).contains(&preferences));
}
