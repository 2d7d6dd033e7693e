//! Arbitrary bytes as a KV snapshot: only complete segments are restored, and the session
//! continues.

use super::model::load;
use crate::seeds::{self, Seed, VOCAB};
use hearth_formats::gguf::{Gguf, TensorType};
use hearth_kernels::attention::{KvFormat, KvLayer};
use hearth_llm::{Model, SavedCells, Session, SnapshotKey};
use std::io::Cursor;
use std::sync::{Arc, LazyLock};

const KEY: SnapshotKey = [7; 32];
const CONTEXT: usize = 80;
/// Bytes before the first segment.
const HEADER_BYTES: usize = 72;

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| {
    let gguf = Gguf::from_bytes(seeds::model("llama", TensorType::Q4_0)).expect("a model");
    Arc::new(load(&gguf).expect("it loads"))
});

fn session(format: KvFormat) -> Session {
    Session::with_cache(MODEL.clone(), CONTEXT, format).expect("a session")
}

fn format(flags: u8) -> KvFormat {
    if flags & 1 == 0 { KvFormat::F16 } else { KvFormat::Q8_0 }
}

/// The input: flags (cache format, whether to fix the checksums), then the file.
pub fn run(bytes: &[u8]) -> bool {
    let Some((&flags, bytes)) = bytes.split_first() else {
        return false;
    };
    let mut bytes = bytes.to_vec();
    if flags & 2 == 2 {
        fix_checksums(&mut bytes, format(flags));
    }
    let mut session = session(format(flags));
    session.push(3).expect("a token of the vocabulary");
    let Ok(found) = session.saved(&KEY, &mut Cursor::new(&bytes)) else {
        assert!(session.restore(&KEY, &mut &*bytes, usize::MAX).is_err());
        assert_eq!(session.tokens(), [3], "the session is unchanged");
        return false;
    };
    let restored = session
        .restore(&KEY, &mut &*bytes, usize::MAX)
        .expect("its header is valid");
    assert_eq!(restored.tokens(), session.tokens());
    assert!(found.tokens().starts_with(restored.tokens()));
    assert!(restored.bytes() <= bytes.len() as u64 && session.tokens().len() <= CONTEXT);
    let whole = !restored.tokens().is_empty();
    if session.tokens().len() < CONTEXT {
        session.push(1).expect("capacity for one more token");
        assert_eq!(session.logits().len(), VOCAB);
    }
    whole
}

/// Writes the correct checksum of each segment.
fn fix_checksums(bytes: &mut [u8], format: KvFormat) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    // All layers of the model have the same shape.
    let (config, group) = (MODEL.config(), &MODEL.groups()[0]);
    let mut sum = crc32fast::hash(&bytes[..HEADER_BYTES]);
    let mut at = HEADER_BYTES;
    while let Some(count) = bytes.get(at..at + 4).and_then(|count| count.try_into().ok()) {
        let count = u32::from_ne_bytes(count) as usize;
        if count == 0 || count > CONTEXT || !count.is_multiple_of(KvLayer::TILE) {
            return;
        }
        let layer = KvLayer::bytes_for(format, count, group.kv_heads, group.head_dim);
        let end = at + 4 * (2 + count) + config.n_layers() * layer;
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
    let seed = |flags: u8| {
        let mut session = session(format(flags));
        let (mut saved, mut bytes) = (SavedCells::default(), vec![flags]);
        for end in [32, 64] {
            let ids: Vec<u32> = (session.tokens().len() as u32..end)
                .map(|i| i * 5 % VOCAB as u32)
                .collect();
            session.extend(&ids).expect("tokens of the vocabulary");
            session.save(&KEY, &mut saved, &mut bytes).expect("it is saved");
        }
        Seed::new(format!("{:?}", format(flags)), bytes)
    };
    (0..4).map(seed).collect()
}
