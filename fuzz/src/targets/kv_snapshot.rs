//! Any bytes as a saved session: what is restored is whole segments of it, and the session goes on.

use super::model::load;
use crate::seeds::{self, Seed, VOCAB};
use hearth_formats::gguf::{Gguf, TensorType};
use hearth_kernels::attention::{KvFormat, KvLayer};
use hearth_llm::{Model, Saved, SavedKey, Session};
use std::io::Cursor;
use std::sync::{Arc, LazyLock};

const KEY: SavedKey = [7; 32];
const CONTEXT: usize = 80;
/// Bytes before the first segment.
const HEAD: usize = 64;

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| {
    let gguf = Gguf::from_bytes(seeds::model("llama", TensorType::Q4_0)).expect("a model");
    Arc::new(load(&gguf).expect("it loads"))
});

fn session(format: KvFormat) -> Session {
    Session::with_cache(MODEL.clone(), CONTEXT, format).expect("a session")
}

fn format(how: u8) -> KvFormat {
    if how & 1 == 0 { KvFormat::F16 } else { KvFormat::Q8_0 }
}

/// The input: which cache, and whether the sums are to be mended; then the file.
pub fn run(bytes: &[u8]) -> bool {
    let Some((&how, bytes)) = bytes.split_first() else {
        return false;
    };
    let mut bytes = bytes.to_vec();
    if how & 2 == 2 {
        mend(&mut bytes, format(how));
    }
    let mut session = session(format(how));
    session.push(3).expect("a token of the vocabulary");
    let Ok(found) = session.saved(&KEY, &mut Cursor::new(&bytes)) else {
        assert!(session.restore(&KEY, &mut &*bytes, usize::MAX).is_err());
        assert_eq!(session.tokens(), [3], "the session is as it was");
        return false;
    };
    let restored = session
        .restore(&KEY, &mut &*bytes, usize::MAX)
        .expect("its head is right");
    assert_eq!(restored.tokens(), session.tokens());
    assert!(found.tokens().starts_with(restored.tokens()));
    assert!(restored.bytes() <= bytes.len() as u64 && session.tokens().len() <= CONTEXT);
    let whole = !restored.tokens().is_empty();
    if session.tokens().len() < CONTEXT {
        session.push(1).expect("room for one more");
        assert_eq!(session.logits().len(), VOCAB);
    }
    whole
}

/// Gives each segment the sum of what is before it.
fn mend(bytes: &mut [u8], format: KvFormat) {
    if bytes.len() < HEAD {
        return;
    }
    let config = MODEL.config();
    let mut sum = crc32fast::hash(&bytes[..HEAD]);
    let mut at = HEAD;
    while let Some(count) = bytes.get(at..at + 4).and_then(|count| count.try_into().ok()) {
        let count = u32::from_ne_bytes(count) as usize;
        if count == 0 || count > CONTEXT || !count.is_multiple_of(KvLayer::TILE) {
            return;
        }
        let layer = KvLayer::bytes_for(format, count, config.kv_heads, config.head_dim);
        let end = at + 4 * (1 + count) + config.n_layers * layer;
        let Some(segment) = bytes.get(at..end) else {
            return;
        };
        let mut hasher = crc32fast::Hasher::new_with_initial(sum);
        hasher.update(segment);
        sum = hasher.finalize();
        if let Some(place) = bytes.get_mut(end..end + 4) {
            place.copy_from_slice(&sum.to_ne_bytes());
        }
        at = end + 4;
    }
}

pub fn seeds() -> Vec<Seed> {
    let seed = |how: u8| {
        let mut session = session(format(how));
        let (mut saved, mut bytes) = (Saved::default(), vec![how]);
        for end in [32, 64] {
            let ids: Vec<u32> = (session.tokens().len() as u32..end)
                .map(|i| i * 5 % VOCAB as u32)
                .collect();
            session.extend(&ids).expect("tokens of the vocabulary");
            session.save(&KEY, &mut saved, &mut bytes).expect("it is saved");
        }
        Seed::new(format!("{:?}", format(how)), bytes)
    };
    (0..4).map(seed).collect()
}
