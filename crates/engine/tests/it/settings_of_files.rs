//! Tests settings of a model's file that Hearth does not support or does not know.

use crate::common::*;
use hearth_formats::gguf::Value;
use hearth_protocol::{Event, ModelInfo, Notice, PlanRequest, Problem, Request};

/// Loads the fixture of an architecture with a metadata key of the architecture. Asserts that a
/// plan succeeds if the load does.
fn load_with_key(architecture: &str, key: &str, value: Value) -> Result<ModelInfo, Problem> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let model = fixture(&format!("models/{architecture}.gguf"));
    write_with_keys(&path, &model, &[(&format!("{architecture}.{key}"), value)]);
    let mut worker = Worker::start();
    let plan = worker.call(Request::Plan(PlanRequest {
        path: path.clone(),
        ..PlanRequest::default()
    }));
    let result = match worker.call(Request::Load(load(path, 64))) {
        Event::Loaded(info) => Ok(info),
        Event::Failed(problem) => Err(problem),
        other => panic!("{other:?}"),
    };
    worker.close();
    assert_eq!(matches!(plan, Event::Failed(_)), result.is_err(), "{plan:?}");
    result
}

#[test]
fn a_model_with_an_unsupported_setting_is_refused_by_name() {
    for (architecture, key, value) in [
        ("gemma3", "embedding_scale", Value::F32(2.0)),
        ("llama", "block_count", Value::U32(1)),
        ("qwen3", "nextn_predict_layers", Value::U32(2)),
        ("qwen2", "attention.clamp_kqv", Value::F32(8.0)),
    ] {
        let refused = load_with_key(architecture, key, value).expect_err("it is refused");
        let expected = match key {
            "nextn_predict_layers" => "only the layers that predict",
            _ => key,
        };
        assert!(refused.to_string().contains(expected), "{key}: {refused:?}");
        assert!(!refused.to_string().contains("corrupt"), "{key}: {refused:?}");
    }
}

#[test]
fn an_unknown_setting_is_a_notice() {
    for architecture in ["gemma3", "llama", "qwen2", "qwen3"] {
        let notices = |key: &str, value| load_with_key(architecture, key, value).expect("it loads").notices;
        let neutral = notices("final_logit_softcapping", Value::F32(0.0));
        let unknown = notices("a_new_setting", Value::F32(30.0));
        let names = vec![format!("{architecture}.a_new_setting")];
        let count = |notices: &[Notice]| {
            let is_unknown_setting = |notice: &&Notice| matches!(notice, Notice::UnknownSettings { .. });
            notices.iter().filter(is_unknown_setting).count()
        };
        assert_eq!((count(&neutral), count(&unknown)), (0, 1), "{unknown:?}");
        assert!(unknown.contains(&Notice::UnknownSettings { names }), "{unknown:?}");
    }
}
