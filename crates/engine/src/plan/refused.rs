//! What GPUs have refused in the life of this process: plans made later ask for less.

use std::sync::{Mutex, MutexGuard};

/// For each GPU's id the fewest bytes that it refused.
static REFUSED: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<(String, u64)>> {
    REFUSED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Notes that a GPU could not hold so many bytes.
pub fn note(id: &str, bytes: u64) {
    let mut all = all();
    match all.iter_mut().find(|(other, _)| other == id) {
        Some((_, least)) => *least = bytes.clamp(1, *least),
        None => all.push((id.to_owned(), bytes.max(1))),
    }
}

/// The fewest bytes that a GPU refused; none where it refused nothing.
pub fn least(id: &str) -> Option<u64> {
    all().iter().find(|(other, _)| other == id).map(|(_, bytes)| *bytes)
}
