//! Headers of adapters, and which models they fit by them.

use crate::adapter::fixtures::{adapter, model, path, shape, shape_with_layers, with_manifest};
use crate::adapter::hostile::{LLAMA, corrupt};
use hearth_formats::adapter::{AdapterError, AdapterHeader, BaseShape, Mismatch};
use hearth_formats::shape::FeedForwardShape;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

fn header(name: &str) -> AdapterHeader {
    AdapterHeader::open(&path(&format!("adapters/{name}"))).unwrap_or_else(|error| panic!("{error}"))
}

/// A copy of the llama's PEFT folder, with its settings and its table of tensors changed.
fn changed(folder: &Path, settings: Value, table: impl FnOnce(String) -> String) {
    let source = path("adapters/llama");
    let mut config: Value = serde_json::from_slice(&fs::read(source.join("adapter_config.json")).unwrap()).unwrap();
    for (key, value) in settings.as_object().unwrap() {
        config[key] = value.clone();
    }
    fs::write(folder.join("adapter_config.json"), config.to_string()).unwrap();
    let file = fs::read(source.join("adapter_model.safetensors")).unwrap();
    let end = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let table = table(String::from_utf8(file[8..end].to_vec()).unwrap());
    let mut out = (table.len() as u64).to_le_bytes().to_vec();
    out.extend(table.as_bytes());
    out.extend(&file[end..]);
    fs::write(folder.join("adapter_model.safetensors"), out).unwrap();
}

#[test]
fn sizes_decide_which_model_an_adapter_fits() {
    for name in ["llama", "llama.gguf"] {
        let header = header(name);
        assert_eq!(header.fits(&shape("llama")), Ok(()), "{name}");
        let more_layers = shape_with_layers("llama", 9);
        assert!(
            !header.is_whole
                || header.fits(&more_layers)
                    == Err(Mismatch::Layers {
                        adapter: header.layers,
                        model: 9
                    })
        );
        let fewer_layers = shape_with_layers("llama", 1);
        assert!(
            matches!(header.fits(&fewer_layers), Err(Mismatch::Layers { model: 1, .. })),
            "{name}"
        );
        assert!(header.fits(&shape("llama3")).is_err(), "{name}");
        let mut wide = shape("llama");
        for layer in &mut wide.layers {
            layer.width = 30;
            layer.feed_forward = Some(FeedForwardShape::Gated { width: 7 });
        }
        assert!(matches!(header.fits(&wide), Err(Mismatch::Linear { .. })), "{name}");
    }
    // PEFT names no architecture; a GGUF does.
    assert_eq!(header("llama").architecture, None);
    let mismatch = header("llama.gguf").fits(&shape("qwen2"));
    assert_eq!(
        mismatch,
        Err(Mismatch::Architecture {
            adapter: "llama".to_owned()
        })
    );
}

#[test]
fn the_base_that_hearth_records_is_read_from_both_formats() {
    let folder = tempfile::tempdir().unwrap();
    let base = model("llama");
    let adapter = with_manifest("llama", &base);
    let (peft, gguf) = (folder.path().join("peft"), folder.path().join("a.gguf"));
    adapter.write_peft(&peft, &shape("llama")).unwrap();
    adapter.write_gguf(&gguf, &shape("llama")).unwrap();
    for path in [peft, gguf] {
        let header = AdapterHeader::open(&path).unwrap();
        assert_eq!(
            header.base,
            adapter.manifest.as_ref().map(|manifest| manifest.base.clone())
        );
        assert_eq!(header.architecture.as_deref(), Some("llama"));
        let other = BaseShape {
            vocab: 7,
            ..shape("llama")
        };
        assert_eq!(header.fits(&other), Err(Mismatch::Base));
    }
}

#[test]
fn the_name_of_the_base_is_data() {
    let folder = tempfile::tempdir().unwrap();
    let mut named = adapter("llama.gguf");
    named.base_name = Some("Llama\u{7} 3.2".to_owned());
    let gguf = folder.path().join("a.gguf");
    named.write_gguf(&gguf, &shape("llama")).unwrap();
    let header = AdapterHeader::open(&gguf).unwrap();
    assert_eq!(
        (header.base_name.as_deref(), header.is_repository),
        (Some("Llama 3.2"), false)
    );
    changed(
        folder.path(),
        json!({"base_model_name_or_path": "owner/Base-1B"}),
        |table| table,
    );
    let header = AdapterHeader::open(folder.path()).unwrap();
    assert_eq!(
        (header.base_name.as_deref(), header.is_repository),
        (Some("owner/Base-1B"), true)
    );
}

#[test]
fn no_values_are_read() {
    let folder = tempfile::tempdir().unwrap();
    changed(folder.path(), json!({}), |table| table);
    // All values become NaN, which only a reader of values sees.
    let tensors = folder.path().join("adapter_model.safetensors");
    let mut file = fs::read(&tensors).unwrap();
    let end = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    file[end..].fill(0xff);
    fs::write(&tensors, file).unwrap();
    AdapterHeader::open(folder.path()).expect("its header is whole");
}

#[test]
fn hostile_headers_are_refused() {
    let refused = |settings: Value, from: &str, to: &str, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        changed(folder.path(), settings, |table| {
            assert!(table.contains(from), "{from}");
            table.replace(from, to)
        });
        let error = AdapterHeader::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    };
    let layer = format!("layers.{}.", usize::MAX);
    refused(json!({"target_modules": "all-linear"}), "layers.0.", &layer, "at most");
    refused(json!({"target_modules": ["x"]}), "layers.0.", &layer, "at most");
    refused(
        json!({"target_modules": ["q_proj"]}),
        "layers.0.",
        &layer,
        "lists it as a target",
    );
    refused(json!({}), "\"shape\":[", "\"shape\":[-", "corrupt");
    refused(json!({}), "lora_A", "lora_X", "targets");
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let folder = tempfile::tempdir().unwrap();
    changed(folder.path(), json!({}), |_| format!("{{\"a\":{nested}}}"));
    let error = AdapterHeader::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("recursion limit"), "{error}");
    changed(folder.path(), json!({}), |table| table);
    fs::write(folder.path().join("adapter_config.json"), &nested).unwrap();
    assert!(AdapterHeader::open(folder.path()).is_err());
}

#[test]
fn a_header_of_a_gigabyte_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    changed(folder.path(), json!({}), |table| table);
    let length: u64 = 1 << 30;
    // A sparse file: reading it would take a gigabyte.
    let mut file = File::create(folder.path().join("adapter_model.safetensors")).unwrap();
    file.write_all(&length.to_le_bytes()).unwrap();
    file.set_len(length + 8).unwrap();
    let error = AdapterHeader::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("at most"), "{error}");
    for cut in [0, 4, 8, 100] {
        file.set_len(cut).unwrap();
        assert!(AdapterHeader::open(folder.path()).is_err(), "{cut}");
    }
}

/// A text of a header: long, with control characters and others of several bytes.
fn hostile_text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        any::<String>(),
        "[a-z./\u{0}\u{202e}\u{e9}-]{0,30}",
        "(https://huggingface.co/)?[a-zA-Z.-]{1,120}/[a-zA-Z.-]{1,120}",
        Just("\u{1f600}".repeat(300)),
    ];
    prop::collection::vec(pieces, 1..4).prop_map(|pieces| pieces.concat())
}

/// A value of a setting.
fn hostile_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        hostile_text().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::collection::vec(hostile_text().prop_map(Value::from), 0..4).prop_map(Value::from),
        prop::collection::vec(any::<i32>().prop_map(Value::from), 0..4).prop_map(Value::from),
        prop::collection::btree_map(hostile_text(), any::<u32>(), 0..3).prop_map(|map| json!(map)),
        Just(Value::Null),
    ]
}

/// Settings of PEFT, each of any kind of value.
fn hostile_settings() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "peft_type",
        "base_model_name_or_path",
        "r",
        "lora_alpha",
        "target_modules",
        "rank_pattern",
        "alpha_pattern",
        "layers_to_transform",
        "layers_pattern",
        "exclude_modules",
        "use_rslora",
        "bias",
    ]);
    prop::collection::btree_map(names, hostile_value(), 0..4).prop_map(|settings| json!(settings))
}

/// Checks that a header, or the message of its error, is small and has no control characters: both
/// are shown in the window.
fn check(header: Result<AdapterHeader, AdapterError>) -> Result<(), TestCaseError> {
    let header = match header {
        Ok(header) => header,
        Err(error) => {
            let message = error.problem.to_string();
            prop_assert!(
                message.len() < 1000 && !message.contains(char::is_control),
                "{message:?}"
            );
            return Ok(());
        }
    };
    prop_assert!((1..=4096).contains(&header.layers), "{}", header.layers);
    let is_known = |name: &str| (1..=16).contains(&name.len()) && name.is_ascii();
    prop_assert!(header.linears.iter().all(|linear| is_known(&linear.name)));
    let is_plain = |text: &str| text.chars().count() <= 200 && !text.contains(char::is_control);
    let files = header.base.as_ref().map(|base| base.file.as_str());
    prop_assert!(header.base_name.as_deref().into_iter().chain(files).all(is_plain));
    prop_assert!(
        !header.is_repository
            || header
                .base_name
                .as_deref()
                .is_some_and(|name| name.matches('/').count() == 1)
    );
    let json = serde_json::to_string(&header).unwrap();
    prop_assert!(json.len() < 8192, "{json}");
    for model in ["llama", "qwen2"] {
        let _ = header.fits(&shape(model));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn hostile_headers_are_refused_or_bounded(
        settings in hostile_settings(),
        name in hostile_text(),
        (from, to) in (prop::sample::select(vec!["layers.1.", "q_proj", "lora_A", "\"shape\":[4,", "F32"]), hostile_text()),
        layer in any::<u64>(),
        tensors in corrupt(&LLAMA[1]),
        file in corrupt(&LLAMA[2]),
        manifest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let peft = folder.path();
        let config = peft.join("adapter_config.json");
        let matrices = peft.join("adapter_model.safetensors");
        changed(peft, settings, |table| table);
        check(AdapterHeader::open(peft))?;
        changed(peft, json!({"base_model_name_or_path": name}), |table| table);
        let header = AdapterHeader::open(peft);
        prop_assert!(header.is_ok(), "{header:?}");
        check(header)?;
        changed(peft, json!({}), |table| table.replace("layers.1.", &format!("layers.{layer}.")));
        check(AdapterHeader::open(peft))?;
        let to = to.replace(['"', '\\'], "");
        changed(peft, json!({}), |table| table.replacen(from, &to, 1));
        check(AdapterHeader::open(peft))?;
        fs::write(&matrices, &tensors).unwrap();
        check(AdapterHeader::open(peft))?;
        fs::write(&config, &manifest).unwrap();
        check(AdapterHeader::open(peft))?;
        changed(peft, json!({}), |table| table);
        fs::write(peft.join("hearth.json"), &manifest).unwrap();
        check(AdapterHeader::open(peft))?;

        let gguf = folder.path().join("a.gguf");
        fs::write(&gguf, &file).unwrap();
        check(AdapterHeader::open(&gguf))?;
        let mut named = adapter("llama.gguf");
        named.base_name = Some(name);
        named.write_gguf(&gguf, &shape("llama")).unwrap();
        let header = AdapterHeader::open(&gguf);
        prop_assert!(header.is_ok(), "{header:?}");
        check(header)?;
    }
}
