//! Maps the tokens of a target to the tokens of its draft model.

use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_llm::draft::TokenMap;
use std::collections::HashMap;

/// Minimum fraction of the target's tokens that the draft must have. With fewer, most drafts end
/// after few tokens.
const MIN_SHARED: f64 = 0.5;

/// Maximum bytes of a token that is spelled with other tokens. Longer tokens are rare, and a file
/// may have huge ones.
const MAX_SPELLED: usize = 64;

/// Maps the tokens of a target to the tokens of a draft, and back. `None` if both have the same
/// tokens.
///
/// # Errors
/// The draft has too few of the target's tokens. The error is their fraction.
pub(super) fn map(target: &Tokenizer, draft: &Tokenizer) -> Result<Option<TokenMap>, f64> {
    if is_same(target, draft) {
        return Ok(None);
    }
    let draft_ids: HashMap<Key, u32> = keys(draft).collect();
    let draft_id = |id: u32| Key::new(target, id).and_then(|key| draft_ids.get(&key).copied());
    let mut to_target = vec![None; draft.vocab_size()];
    let target_ids = 0..target.vocab_size() as u32;
    let text_tokens = target_ids.clone().filter(|id| !target.is_special(*id)).count();
    let mut shared = 0;
    for id in target_ids.clone() {
        if let Some(draft_id) = draft_id(id) {
            to_target[draft_id as usize] = Some(id);
            shared += usize::from(!target.is_special(id));
        }
    }
    let fraction = shared as f64 / text_tokens.max(1) as f64;
    if fraction < MIN_SHARED {
        return Err(fraction);
    }
    let to_draft = target_ids.map(|id| match draft_id(id) {
        Some(draft_id) => Box::from([draft_id]),
        None => spell(target, id, draft),
    });
    Ok(Some(TokenMap::new(to_draft.collect(), to_target)))
}

/// Identity of a token across vocabularies.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    /// The name of a special token.
    Special(&'a str),
    /// The bytes of another token.
    Text(&'a [u8]),
}

impl<'a> Key<'a> {
    fn new(tokenizer: &'a Tokenizer, id: u32) -> Option<Self> {
        if tokenizer.is_special(id) {
            tokenizer.token_text(id).map(Self::Special)
        } else {
            tokenizer.token_bytes(id).map(Self::Text)
        }
    }
}

fn keys(tokenizer: &Tokenizer) -> impl Iterator<Item = (Key<'_>, u32)> {
    // In reverse, so that the first of several tokens with one key remains in the map.
    let ids = (0..tokenizer.vocab_size() as u32).rev();
    ids.filter_map(|id| Some((Key::new(tokenizer, id)?, id)))
}

/// Whether both have the same tokens.
fn is_same(target: &Tokenizer, draft: &Tokenizer) -> bool {
    target.vocab_size() == draft.vocab_size()
        && (0..target.vocab_size() as u32).all(|id| Key::new(target, id) == Key::new(draft, id))
}

/// Encodes a token that the draft does not have with the draft's tokens. Empty if the token is no
/// text or too long.
fn spell(target: &Tokenizer, id: u32, draft: &Tokenizer) -> Box<[u32]> {
    let bytes = if target.is_special(id) {
        None
    } else {
        target.token_bytes(id)
    };
    let text = bytes.filter(|bytes| bytes.len() <= MAX_SPELLED);
    let text = text.and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.map_or_else(Box::default, |text| draft.encode(text, Special::Text).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_formats::gguf::Gguf;
    use std::path::PathBuf;

    const NAMES: [&str; 8] = [
        "smollm",
        "llama-bpe",
        "qwen2",
        "qwen35",
        "gpt-2",
        "spm",
        "spm-gemma",
        "../models/llama",
    ];

    fn tokenizer(name: &str) -> Tokenizer {
        let path = format!(
            "{}/../../tests/fixtures/tokenizer/{name}.gguf",
            env!("CARGO_MANIFEST_DIR")
        );
        Tokenizer::from_gguf(&Gguf::open(PathBuf::from(path)).expect("a fixture")).expect("its tokenizer")
    }

    #[test]
    fn a_vocabulary_needs_no_map_to_itself() {
        for name in NAMES {
            assert_eq!(map(&tokenizer(name), &tokenizer(name)), Ok(None), "{name}");
        }
    }

    #[test]
    fn tokens_are_mapped_where_their_texts_agree_and_spelled_elsewhere() {
        let (mut mapped, mut refused) = (0, 0);
        for target in NAMES.map(tokenizer) {
            for draft in NAMES.map(tokenizer) {
                let map = match map(&target, &draft) {
                    Ok(Some(map)) => map,
                    Ok(None) => continue,
                    Err(shared) => {
                        assert!((0.0..MIN_SHARED).contains(&shared));
                        refused += 1;
                        continue;
                    }
                };
                mapped += 1;
                for id in 0..target.vocab_size() as u32 {
                    let (tokens, text) = (map.draft_tokens(id), target.token_bytes(id).unwrap_or_default());
                    let spelled: Vec<u8> = tokens
                        .iter()
                        .flat_map(|id| draft.token_bytes(*id))
                        .flatten()
                        .copied()
                        .collect();
                    // SentencePiece spells a text with a space before it.
                    let is_text = spelled == text || spelled.strip_prefix(b" ") == Some(text);
                    assert!(tokens.is_empty() || is_text, "{text:?} became {spelled:?}");
                    if let ([draft_id], true) = (tokens, spelled == text) {
                        let target_id = map.target_token(*draft_id);
                        assert_eq!(target_id.and_then(|id| target.token_bytes(id)), Some(text));
                    }
                }
            }
        }
        assert!(mapped > 0 && refused > 0, "{mapped} mapped, {refused} refused");
    }
}
