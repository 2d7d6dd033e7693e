//! The rows of the fault table: a worker's caches.

use crate::table::Row;
use hearth_engine::{Engine, packed};
use hearth_protocol::{GenerateRequest, LoadRequest, Prompt, PromptCacheFolder, SamplingParams};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

pub const ALL: &[Row] = &[
    Row {
        name: "packed weights",
        ordered: true,
        prepare: |_| {},
        work: |folder| answer(folder, Cache::PackedWeights, 1).map(drop),
        check: |folder, _| check(folder, Cache::PackedWeights),
    },
    Row {
        name: "the first answer of a conversation",
        ordered: true,
        prepare: |_| {},
        work: |folder| answer(folder, Cache::Prompt, 1).map(drop),
        check: |folder, _| check(folder, Cache::Prompt),
    },
    Row {
        name: "an answer that is appended to a conversation",
        ordered: true,
        prepare: |folder| drop(answer(folder, Cache::Prompt, 1).expect("an answer")),
        work: |folder| answer(folder, Cache::Prompt, 2).map(drop),
        check: |folder, _| check(folder, Cache::Prompt),
    },
];

/// The cache under test.
#[derive(Clone, Copy, PartialEq)]
enum Cache {
    PackedWeights,
    Prompt,
    None,
}

/// Loads the model with a cache in the folder, and answers a prompt of `turns` turns. Returns the
/// answer's tokens.
fn answer(folder: &Path, cache: Cache, turns: usize) -> Result<String, String> {
    let work = folder.join("work");
    fs::create_dir_all(&work).map_err(|error| format!("The folder cannot be made: {error}."))?;
    packed::set_cache_folder((cache == Cache::PackedWeights).then(|| work.join("packed")));
    let load_request = LoadRequest {
        path: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/llama.gguf"),
        context: Some(512),
        device: Some("cpu".to_owned()),
        prompt_cache: (cache == Cache::Prompt).then(|| PromptCacheFolder {
            path: work.join("prompt-cache"),
            max_bytes: 1 << 30,
        }),
        ..LoadRequest::default()
    };
    let mut engine =
        Engine::load(&load_request, &mut |_, _| ControlFlow::Continue(())).map_err(|problem| problem.to_string())?;
    let request = GenerateRequest {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        max_tokens: Some(12),
        conversation: Some(1),
        ..GenerateRequest::new(Prompt::Raw(
            "A tale of a fox in the wood and of its home. ".repeat(4 * turns),
        ))
    };
    let summary = engine.generate(&request, Instant::now(), &|| false, &mut |_| {});
    let summary = summary.map_err(|problem| problem.to_string())?;
    if cache == Cache::Prompt {
        engine.save_prompt_cache(&|| false);
    }
    Ok(format!("{:?}", summary.ids))
}

/// Checks that the answers equal the answers of an engine without caches, in any state of the
/// files, and that no incomplete file remains afterwards.
fn check(folder: &Path, cache: Cache) {
    static EXPECTED: OnceLock<[String; 2]> = OnceLock::new();
    let without_cache = |turns| answer(folder, Cache::None, turns).expect("an answer");
    let expected = EXPECTED.get_or_init(|| [without_cache(1), without_cache(2)]);
    for (turns, expected) in (1..).zip(expected) {
        assert_eq!(answer(folder, cache, turns).as_ref(), Ok(expected), "of {turns} turns");
    }
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    };
    match cache {
        Cache::PackedWeights => {
            let names = names(&folder.join("work/packed"));
            assert!(matches!(&names[..], [name] if name.ends_with(".packed")), "{names:?}");
        }
        Cache::Prompt => {
            let names = names(&folder.join("work/prompt-cache/1"));
            assert!(matches!(&names[..], [name] if name.ends_with(".kv")), "{names:?}");
        }
        Cache::None => {}
    }
}
