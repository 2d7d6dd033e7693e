//! Reports, and the validation split.

use crate::dataset::masks::{CHAT_ML, model};
use hearth_formats::dataset::{
    Dataset, Finding, ReadOptions, Report, ReportOptions, Severity, leaks, render_all, split,
};

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

fn kinds(report: &Report) -> Vec<&'static str> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

/// The finding caused by adding lines to a sound dataset.
#[track_caller]
fn finds(kind: &str, lines: &[String]) -> Finding {
    let all = [sound(), lines.to_vec()].concat();
    let report = report(&all, Some(512), 2048);
    let actual = report.findings.iter().find(|finding| finding.kind == kind);
    actual
        .unwrap_or_else(|| panic!("no {kind} in {:?}", report.findings))
        .clone()
}

#[test]
fn a_sound_dataset_gives_figures_and_no_findings() {
    let report = report(&sound(), None, 2048);
    assert_eq!(kinds(&report), [""; 0]);
    let [median, most, longest] = report.lengths;
    assert!(0 < median && median <= most && most <= longest && report.tokens > 60 * 20);
    assert_eq!(
        (report.examples, report.truncated, report.sequence),
        (60, 0, most.next_multiple_of(32))
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
    let cut = finds("truncated", &[pair("tell", &"word ".repeat(600))]);
    assert_eq!((cut.severity, &cut.lines[..]), (Severity::Warning, &[61][..]));
    assert!(
        cut.message.starts_with("1 example is longer than 512 tokens"),
        "{}",
        cut.message
    );
    assert!(
        finds("dropped", &[pair(&"word ".repeat(600), "gone")])
            .message
            .starts_with("1 example is left out")
    );
    assert_eq!(
        finds("duplicates", &[pair("one", "two"), pair("one", "two")]).lines,
        [62]
    );
    assert_eq!(
        finds("empty_answers", &[pair("one", " "), pair("two", "")]).lines,
        [61, 62]
    );
    let broken = finds("broken", &["nonsense".to_owned()]);
    assert!(
        broken
            .message
            .starts_with("1 line cannot be read and is left out. Line 61 for example: it is not valid JSON"),
        "{}",
        broken.message
    );
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
    let actual = report.findings.iter().find(|finding| finding.kind == "thoughts");
    let actual = actual.unwrap_or_else(|| panic!("{:?}", report.findings));
    assert_eq!((actual.severity, &*actual.lines), (Severity::Note, &[1, 4][..]));
    assert!(
        actual.message.starts_with("2 examples have the model's thoughts"),
        "{}",
        actual.message
    );
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
            "near_duplicates",
            &[pair("p", &words(&[])), pair("p", &words(&[10, 60]).to_lowercase())]
        )
        .lines,
        [62]
    );
    let far = [
        sound(),
        vec![pair("p", &words(&[])), pair("p", &words(&[5, 20, 35, 50, 65, 80, 95]))],
    ]
    .concat();
    assert_eq!(kinds(&report(&far, Some(999), 2048)), [""; 0]);
}

#[test]
fn secrets_are_named_by_kind_and_line_only() {
    for (secret, kind) in [
        // Assembled here, so that this file contains no secret.
        (format!("AKIA{}", "ABCDEFGH23456789"), "an AWS key"),
        (format!("ghp_{}", "a1B2".repeat(9)), "a GitHub token"),
        (format!("sk-ant-{}", "a1B2".repeat(9)), "an Anthropic key"),
        (format!("-----BEGIN RSA {} KEY-----", "PRIVATE"), "a private key"),
        (
            "ann@example.org, password: hunter22".to_owned(),
            "an e-mail address with its password",
        ),
        ("4111 1111 1111 1111".to_owned(), "a card number"),
    ] {
        let actual = finds("secrets", &[pair("say", &format!("it is {secret} here"))]);
        assert_eq!(actual.lines, [61]);
        assert!(
            actual
                .message
                .starts_with(&format!("1 example holds what looks like {kind}. ")),
            "{}",
            actual.message
        );
        assert!(!actual.message.contains(&secret));
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
    assert_eq!(kinds(&report(&[sound(), harmless].concat(), Some(512), 2048)), [""; 0]);
}

#[test]
fn too_few_and_facts() {
    let few = report(&sound()[..1], None, 2048);
    assert_eq!(
        (kinds(&few), few.findings[0].severity),
        (vec!["few"], Severity::Warning)
    );
    assert_eq!(report(&sound()[..12], None, 2048).findings[0].severity, Severity::Note);
    let facts: Vec<String> = (0..60)
        .map(|n| pair(&format!("Where is place{n}?"), &format!("In land{n}.")))
        .collect();
    assert_eq!(kinds(&report(&facts, None, 2048)), ["retrieve"]);
    let mut mixed = report(&[sound()[..12].to_vec(), vec!["x".to_owned()]].concat(), None, 2048);
    mixed.add(Finding {
        kind: "leaks",
        severity: Severity::Warning,
        message: String::new(),
        lines: Vec::new(),
    });
    assert_eq!(kinds(&mixed), ["broken", "leaks", "few"], "most severe first");
}

#[test]
fn the_validation_split_is_independent_of_order() {
    let keys: Vec<u64> = (0..100u64).map(|n| (n % 90).wrapping_mul(0x9e37_79b9)).collect();
    let keys_of = |places: &[usize], keys: &[u64]| {
        let mut of: Vec<u64> = places.iter().map(|&place| keys[place]).collect();
        of.sort_unstable();
        of
    };
    let one = split(&keys, 0.1, 42);
    assert_eq!((one.eval.len(), one.train.len()), (10, 90));
    assert!(
        one.eval
            .iter()
            .all(|&eval| one.train.iter().all(|&train| keys[train] != keys[eval])),
        "equal ones stay together"
    );
    let backwards: Vec<u64> = keys.iter().rev().copied().collect();
    let other = split(&backwards, 0.1, 42);
    assert_eq!(keys_of(&one.eval, &keys), keys_of(&other.eval, &backwards));
    assert_ne!(split(&keys, 0.1, 43), one);
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
    assert_eq!((leak.kind, leak.lines), ("leaks", vec![10]));
}

#[test]
fn unused_answers_of_preference_pairs_are_reported() {
    let preference = |n: usize| {
        format!("{{\"prompt\":\"tell{n} about{n}\",\"chosen\":\"this{n} then{n}\",\"rejected\":\"not{n} so{n}\"}}")
    };
    let lines: Vec<String> = (0..60).map(preference).collect();
    let actual = report(&lines, None, 64);
    let finding = actual.findings.iter().find(|finding| finding.kind == "preferences");
    let finding = finding.expect("a finding");
    assert!(
        finding.message.contains("'rejected' is not used yet"),
        "{}",
        finding.message
    );
    assert_eq!(actual.examples, 60);
    assert!(!kinds(&report(&sound(), None, 64)).contains(&"preferences"));
}
