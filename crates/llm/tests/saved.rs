//! Sessions that are saved and restored, with the tiny random models of `tests/fixtures/models`.

use hearth_formats::gguf::Gguf;
use hearth_kernels::attention::KvFormat;
use hearth_llm::{LoadOptions, Model, SavedError, SavedKey, Session};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

const KEY: SavedKey = [7; 32];

fn model(name: &str) -> Arc<Model> {
    let base = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    let gguf = Gguf::open(base.join(name).with_extension("gguf")).expect("the fixture opens");
    let model = Model::load(&gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(()));
    Arc::new(model.expect("it loads"))
}

fn session(model: &Arc<Model>, context: usize, format: KvFormat) -> Session {
    Session::with_cache(model.clone(), context, format).expect("a session")
}

/// Two tiles of tokens, and five more.
fn ids() -> Vec<u32> {
    (0..37).map(|i| i * 5 % 61).collect()
}

fn saved(session: &Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    session.save(&KEY, &mut bytes).expect("it is saved");
    bytes
}

#[test]
fn a_restored_session_goes_on_to_the_same_bits() {
    for (name, format) in [
        ("llama", KvFormat::F16),
        ("llama", KvFormat::Q8_0),
        ("gemma3", KvFormat::F16),
    ] {
        let (model, ids) = (model(name), ids());
        let mut first = session(&model, 64, format);
        first.extend(&ids[..32]).expect("it runs");
        let bytes = saved(&first);
        let went_on = first.extend(&ids[32..]).expect("it runs");
        assert_eq!(saved(&first), bytes, "tokens that fill no tile leave nothing behind");

        let mut second = session(&model, 48, format);
        assert_eq!(
            second.saved_tokens(&KEY, &mut &*bytes).expect("its beginning"),
            ids[..32]
        );
        second.extend(&[1, 2, 3]).expect("it runs");
        second.restore(&KEY, &mut &*bytes).expect("it is restored");
        assert_eq!(second.tokens(), &ids[..32]);
        assert_eq!(
            second.extend(&ids[32..]).expect("it runs"),
            went_on,
            "{name} {format:?}"
        );
    }
}

#[test]
fn what_is_damaged_or_of_another_is_refused() {
    let model = model("llama");
    let mut first = session(&model, 64, KvFormat::Q8_0);
    first.extend(&ids()).expect("it runs");
    let bytes = saved(&first);
    let told = first.savable_bytes() as usize;
    assert!((told..told + 100).contains(&bytes.len()));

    let mut other = session(&model, 64, KvFormat::Q8_0);
    let mut refused = |bytes: &[u8], what: &str| {
        assert!(other.restore(&KEY, &mut &*bytes).is_err(), "{what}");
        assert!(other.tokens().is_empty());
    };
    for at in 0..bytes.len() {
        refused(&bytes[..at], &format!("cut at {at}"));
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        refused(&damaged, &format!("another bit at {at}"));
    }

    assert!(matches!(other.restore(&[8; 32], &mut &*bytes), Err(SavedError::Other)));
    let mut f16 = session(&model, 64, KvFormat::F16);
    assert!(matches!(f16.restore(&KEY, &mut &*bytes), Err(SavedError::Other)));
    let mut short = session(&model, 16, KvFormat::Q8_0);
    assert!(matches!(short.restore(&KEY, &mut &*bytes), Err(SavedError::Session(_))));
    assert!(other.restore(&KEY, &mut &*bytes).is_ok());
}
