//! The vocabulary of a draft model beside its target's.

use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_llm::draft::TokenMap;
use std::collections::HashMap;

/// The least share of the target's tokens that the draft must have: with fewer, most drafts end at
/// their first tokens.
const MIN_SHARED: f64 = 0.5;

/// Most bytes of a token that is spelled: longer ones are rare, and a file may have huge ones.
const MAX_SPELLED: usize = 64;

/// A map between the tokens of a target and a draft; `None` if both have the same.
///
/// # Errors
/// The share of the target's tokens that the draft has, if it is too small.
pub(super) fn map(target: &Tokenizer, draft: &Tokenizer) -> Result<Option<TokenMap>, f64> {
    if is_same(target, draft) {
        return Ok(None);
    }
    let texts = |of: &Tokenizer| (0..of.vocab_size() as u32).filter(|id| !of.is_special(*id)).count();
    let ids: HashMap<Key, u32> = keys(draft).collect();
    let mut to_target = vec![None; draft.vocab_size()];
    let same = |id: u32| key(target, id).and_then(|key| ids.get(&key).copied());
    let all = 0..target.vocab_size() as u32;
    let mut shared = 0;
    for id in all.clone() {
        if let Some(same) = same(id) {
            to_target[same as usize] = Some(id);
            shared += usize::from(!target.is_special(id));
        }
    }
    let share = shared as f64 / texts(target).max(1) as f64;
    if share < MIN_SHARED {
        return Err(share);
    }
    let to_draft = all.map(|id| match same(id) {
        Some(same) => Box::from([same]),
        None => spell(target, id, draft),
    });
    Ok(Some(TokenMap::new(to_draft.collect(), to_target)))
}

/// A token's text; of a special token its name.
type Key<'a> = (bool, &'a [u8]);

fn key(tokenizer: &Tokenizer, id: u32) -> Option<Key<'_>> {
    if tokenizer.is_special(id) {
        tokenizer.token_text(id).map(|text| (true, text.as_bytes()))
    } else {
        tokenizer.token_bytes(id).map(|bytes| (false, bytes))
    }
}

fn keys(tokenizer: &Tokenizer) -> impl Iterator<Item = (Key<'_>, u32)> {
    // The first of several with one text wins.
    let all = (0..tokenizer.vocab_size() as u32).rev();
    all.filter_map(|id| Some((key(tokenizer, id)?, id)))
}

/// Whether both have the same tokens.
fn is_same(target: &Tokenizer, draft: &Tokenizer) -> bool {
    target.vocab_size() == draft.vocab_size()
        && (0..target.vocab_size() as u32).all(|id| key(target, id) == key(draft, id))
}

/// The draft's tokens for the text of a token that it does not have; none if it is no text, or too
/// long.
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
                    if let ([only], true) = (tokens, spelled == text) {
                        let back = map.target_token(*only);
                        assert_eq!(back.and_then(|back| target.token_bytes(back)), Some(text));
                    }
                }
            }
        }
        assert!(mapped > 0 && refused > 0, "{mapped} mapped, {refused} refused");
    }
}
