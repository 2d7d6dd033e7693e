//! The meaning of protocol values on which more than one crate relies.

use hearth_protocol::{
    BackendOption, DeviceCheck, DeviceInfo, DraftChoice, Effort, GenerateRequest, LoadRequest, Mismatch, Prompt,
    Request, Role, assume_objects, device_names, parse_json_schema,
};
use serde_json::Value;

#[test]
fn a_device_is_named_by_its_id_or_its_identity() {
    let device = |identity: &str| DeviceInfo {
        id: "gpu0".to_owned(),
        identity: identity.to_owned(),
        ..DeviceInfo::default()
    };
    for (identity, name, expected) in [
        ("pci:1", "gpu0", true),
        ("pci:1", "pci:1", true),
        ("pci:1", "gpu1", false),
        ("", "", false),
    ] {
        assert_eq!(device(identity).is(name), expected, "{name}");
    }
    assert_eq!(device_names("gpu0, pci:1 ").collect::<Vec<_>>(), ["gpu0", "pci:1"]);
}

#[test]
fn a_mismatch_comes_from_the_check() {
    let option = |check| BackendOption {
        check,
        ..BackendOption::default()
    };
    let check = |mismatch: Option<&str>| DeviceCheck {
        mismatch: mismatch.map(|detail| Mismatch::Detail {
            detail: detail.to_owned(),
        }),
        ..DeviceCheck::ASSUMED_GPU
    };
    assert_eq!(option(None).mismatch(), None);
    assert_eq!(option(Some(check(None))).mismatch(), None);
    let option_with_mismatch = option(Some(check(Some("Wrong."))));
    assert_eq!(
        option_with_mismatch.mismatch().map(ToString::to_string).as_deref(),
        Some("Wrong.")
    );
}

#[test]
fn a_check_with_a_negative_or_infinite_measurement_is_not_sound() {
    assert!(DeviceCheck::ASSUMED_CPU.is_sound());
    for invalid in [f64::NAN, f64::INFINITY, -1.0] {
        let fields: [fn(&mut DeviceCheck) -> &mut f64; 5] = [
            |check| &mut check.bytes_per_second,
            |check| &mut check.step_seconds,
            |check| &mut check.layer_seconds,
            |check| &mut check.macs_per_second,
            |check| &mut check.seconds,
        ];
        for field in fields {
            let mut check = DeviceCheck::ASSUMED_CPU;
            *field(&mut check) = invalid;
            assert!(!check.is_sound(), "{check:?}");
        }
    }
}

#[test]
fn a_turn_is_512_tokens_of_prefill_and_128_of_decode() {
    let check = DeviceCheck {
        bytes_per_second: 100.0,
        step_seconds: 2.0,
        layer_seconds: 0.5,
        macs_per_second: 50.0,
        ..DeviceCheck::ASSUMED_CPU
    };
    assert_eq!(check.decode_seconds(300.0, 4.0), 4.0 * 0.5 + 3.0);
    let turn_seconds = 512.0 * 10.0 / 50.0 + 128.0 * (2.0 + 5.0);
    assert_eq!(check.turn_seconds_of(10.0, 300.0, 4.0), turn_seconds);
    // A billion weights in 18 bytes per 32, and 16 layers.
    assert_eq!(check.turn_seconds(), check.turn_seconds_of(1e9, 1e9 * 0.5625, 16.0));
}

#[test]
fn a_schema_is_a_json_object_of_at_most_64_kilobytes() {
    let schema = parse_json_schema(r#"{"type": "object"}"#).expect("a schema");
    assert_eq!(schema["type"], "object");
    let too_long = format!(r#"{{"title": "{}"}}"#, "a".repeat(64 << 10));
    for (text, expected) in [
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        (&too_long, "at most 65536"),
    ] {
        let problem = parse_json_schema(text).expect_err(expected);
        assert!(problem.to_string().contains(expected), "{problem}");
    }
}

/// The window reads the same cases, in `ui/tests/unit/jsonSchema.test.ts`.
#[test]
fn schemas_with_properties_and_without_a_type_are_objects() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("assumed_objects.json")).expect("cases");
    for case in cases {
        let mut schema = case["schema"].as_object().expect("a schema").clone();
        let is_assumed = assume_objects(&mut schema);
        let expected = case.get("read").unwrap_or(&case["schema"]);
        assert_eq!(Value::Object(schema), *expected, "{}", case["about"]);
        assert_eq!(is_assumed, case.get("read").is_some(), "{}", case["about"]);
    }
}

#[test]
fn names_match_chat_templates() {
    assert_eq!(
        [Role::System, Role::User, Role::Assistant].map(Role::name),
        ["system", "user", "assistant"]
    );
    assert_eq!(
        [Effort::Low, Effort::Medium, Effort::High].map(Effort::name),
        ["low", "medium", "high"]
    );
}

#[test]
fn a_file_is_read_only_for_a_draft_model() {
    let path = std::path::PathBuf::from("draft.gguf");
    assert_eq!(DraftChoice::Model { path: path.clone() }.path(), Some(&path));
    assert_eq!(DraftChoice::Auto.path(), None);
}

#[test]
fn long_requests_are_cancellable_and_others_are_not() {
    let cancellable = [
        Request::Load(LoadRequest::default()),
        Request::Generate(GenerateRequest::new(Prompt::Raw("a".to_owned()))),
        Request::Measure,
    ];
    assert!(cancellable.iter().all(Request::is_cancellable));
    let others = [
        Request::Unload,
        Request::Devices,
        Request::Shutdown,
        Request::Cancel { request: 1 },
    ];
    assert!(!others.iter().any(Request::is_cancellable));
}
