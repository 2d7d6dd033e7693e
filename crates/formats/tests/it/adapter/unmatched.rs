//! Entries of PEFT's settings that match no module.

use crate::adapter::fixtures::{path, shape};
use hearth_formats::adapter::{AdapterFile, AdapterHeader};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A copy of the tiny llama's adapter with other settings.
fn changed(folder: &Path, settings: &Value) {
    let source = path("adapters/llama");
    let mut config: Value = serde_json::from_slice(&fs::read(source.join("adapter_config.json")).unwrap()).unwrap();
    for (key, value) in settings.as_object().unwrap() {
        config[key] = value.clone();
    }
    fs::write(folder.join("adapter_config.json"), config.to_string()).unwrap();
    let tensors = "adapter_model.safetensors";
    fs::copy(source.join(tensors), folder.join(tensors)).unwrap();
}

/// Settings, the setting with entries that match no module, and these entries.
fn cases() -> Vec<(Value, &'static str, Vec<&'static str>)> {
    let targets = [
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    ];
    let and = |name| json!([targets.as_slice(), &[name]].concat());
    vec![
        (json!({}), "", vec![]),
        (
            json!({"alpha_pattern": {"^q_proj": 100}}),
            "alpha_pattern",
            vec!["^q_proj"],
        ),
        (
            json!({"alpha_pattern": {"q_proj": 9, "q_prj": 4}}),
            "alpha_pattern",
            vec!["q_prj"],
        ),
        (
            json!({"alpha_pattern": {"model.layers.0.self_attn.q_proj": 4}}),
            "",
            vec![],
        ),
        (json!({"alpha_pattern": {"^model.layers.1.mlp.up_proj": 4}}), "", vec![]),
        (json!({"alpha_pattern": {r"up_proj\Z": 4}}), "", vec![]),
        // The first one counts, but the second one matches too.
        (
            json!({"alpha_pattern": {"q_proj": 2, "self_attn.q_proj": 3}}),
            "",
            vec![],
        ),
        (
            json!({"alpha_pattern": {"layers.2.*": 2}}),
            "alpha_pattern",
            vec!["layers.2.*"],
        ),
        (json!({"rank_pattern": {"kproj": 8}}), "rank_pattern", vec!["kproj"]),
        // Modules for which Hearth reads no tensors.
        (json!({"target_modules": and("lm_head")}), "", vec![]),
        (json!({"target_modules": and("embed_tokens")}), "", vec![]),
        (json!({"target_modules": "lm_head"}), "", vec![]),
        (
            json!({"target_modules": and("lm_heads")}),
            "target_modules",
            vec!["lm_heads"],
        ),
        (json!({"target_modules": and("proj")}), "target_modules", vec!["proj"]),
        (json!({"target_modules": and("layers.1.mlp.up_proj")}), "", vec![]),
        (json!({"target_modules": "all-linear"}), "", vec![]),
        (json!({"target_modules": "All-Linear"}), "", vec![]),
        (json!({"target_modules": ".*_proj"}), "", vec![]),
        (json!({"target_modules": "q_proj"}), "target_modules", vec!["q_proj"]),
        // The pattern is not supported, so the tensors determine the targets.
        (json!({"target_modules": "(?!x).*_proj"}), "", vec![]),
        (json!({"exclude_modules": ["lm_head", "norm", "mlp"]}), "", vec![]),
        (
            json!({"exclude_modules": ["vision_tower"]}),
            "exclude_modules",
            vec!["vision_tower"],
        ),
        (json!({"exclude_modules": "lm_.*"}), "", vec![]),
        (
            json!({"exclude_modules": "visual.*"}),
            "exclude_modules",
            vec!["visual.*"],
        ),
        (
            json!({"exclude_modules": ["lm_head"], "target_modules": and("lm_head")}),
            "",
            vec![],
        ),
        (
            json!({"exclude_modules": ["lm_head"], "target_modules": and("qproj")}),
            "target_modules",
            vec!["qproj"],
        ),
        (
            json!({"modules_to_save": ["classifier", "score"]}),
            "modules_to_save",
            vec!["classifier", "score"],
        ),
        (json!({"modules_to_save": []}), "", vec![]),
    ]
}

#[test]
fn entries_that_match_no_module_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (settings, setting, entries) in cases() {
        changed(folder.path(), &settings);
        let header = AdapterHeader::open(folder.path()).unwrap_or_else(|error| panic!("{settings}: {error}"));
        let adapter = AdapterFile::open(folder.path(), &shape("llama")).unwrap();
        assert_eq!(header.unmatched, adapter.unmatched, "{settings}");
        let actual: Vec<_> = header
            .unmatched
            .iter()
            .map(|actual| (&*actual.setting, &actual.entries))
            .collect();
        if entries.is_empty() {
            assert_eq!(actual, [], "{settings}")
        } else {
            assert_eq!(
                actual,
                [(setting, &entries.iter().map(ToString::to_string).collect())],
                "{settings}"
            )
        }
    }
}

/// The headers do not say how many layers the model has, which the adapter's last target does not
/// tell.
#[test]
fn entries_for_layers_beyond_the_last_target_need_a_model() {
    let folder = tempfile::tempdir().unwrap();
    for (settings, setting) in [
        (json!({"exclude_modules": ["layers.2.mlp"]}), "exclude_modules"),
        (
            json!({"exclude_modules": r"model\.layers\.[2-9]\..*"}),
            "exclude_modules",
        ),
        (json!({"exclude_modules": r".*layers\.\d\d\..*"}), "exclude_modules"),
        (
            json!({"target_modules": ["q_proj", "layers.2.mlp.up_proj"]}),
            "target_modules",
        ),
    ] {
        changed(folder.path(), &settings);
        let header = AdapterHeader::open(folder.path()).unwrap_or_else(|error| panic!("{settings}: {error}"));
        assert_eq!(header.unmatched, [], "{settings}");
        let adapter = AdapterFile::open(folder.path(), &shape("llama")).unwrap();
        let actual: Vec<_> = adapter.unmatched.iter().map(|actual| &*actual.setting).collect();
        assert_eq!(actual, [setting], "{settings}");
    }
}

/// Renames the layers of an adapter's tensors to those in the text part of a vision-language model.
fn in_vision_language_model(folder: &Path, prefix: &str) {
    let tensors = folder.join("adapter_model.safetensors");
    let file = fs::read(&tensors).unwrap();
    let (length, rest) = file.split_at(8);
    let (table, values) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
    let table = str::from_utf8(table).unwrap().replace("model.model.layers", prefix);
    let mut file = (table.len() as u64).to_le_bytes().to_vec();
    file.extend(table.as_bytes().iter().chain(values));
    fs::write(tensors, file).unwrap();
}

/// Hearth does not know the modules of the vision part.
#[test]
fn entries_for_the_vision_part_of_a_model_are_not_called_unmatched() {
    let folder = tempfile::tempdir().unwrap();
    for prefix in ["model.model.language_model.layers", "model.language_model.model.layers"] {
        for (settings, expected) in [
            (json!({"exclude_modules": ["vision_tower", "visual"]}), vec![]),
            (json!({"exclude_modules": ".*visual.*"}), vec![]),
            (
                json!({"exclude_modules": ["visual"], "target_modules": ["q_proj", "qkv"]}),
                vec![],
            ),
            (json!({"target_modules": ["q_proj", "qproj"]}), vec!["target_modules"]),
            (json!({"alpha_pattern": {"qproj": 1}}), vec!["alpha_pattern"]),
        ] {
            changed(folder.path(), &settings);
            in_vision_language_model(folder.path(), prefix);
            let header = AdapterHeader::open(folder.path()).unwrap_or_else(|error| panic!("{settings}: {error}"));
            let actual: Vec<_> = header.unmatched.iter().map(|actual| &*actual.setting).collect();
            assert_eq!(actual, expected, "{prefix} {settings}");
        }
    }
}

#[test]
fn the_first_unmatched_entries_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let unmatched = |patterns: Value| {
        changed(folder.path(), &json!({ "alpha_pattern": patterns }));
        let mut adapter = AdapterFile::open(folder.path(), &shape("llama")).unwrap();
        // They change nothing.
        assert!(adapter.tensors.values().all(|lora| lora.alpha == 8.0));
        assert_eq!(adapter.unmatched.len(), 1);
        let unmatched = adapter.unmatched.remove(0);
        assert_eq!(unmatched.setting, "alpha_pattern");
        (unmatched.entries, unmatched.more)
    };
    assert_eq!(unmatched(json!({"^q_proj": 100})), (vec!["^q_proj".to_owned()], 0));
    let (entries, more) = unmatched(json!({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}));
    assert_eq!((entries, more), (["a", "b", "c", "d"].map(str::to_owned).to_vec(), 2));
    let (entries, _) = unmatched(json!({ "x\u{7}".repeat(500): 1 }));
    assert!(
        entries[0].len() < 100 && !entries[0].contains(char::is_control),
        "{entries:?}"
    );
}
