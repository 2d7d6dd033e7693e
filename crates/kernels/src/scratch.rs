//! Room for what lives as long as one call: kept for the next call, because the pages of a fresh buffer of some
//! megabytes take the system as long to find as a tenth of the product that fills it.

use bytemuck::{AnyBitPattern, NoUninit};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Bytes that are kept at most.
const MOST: usize = 128 * 1024 * 1024;

/// Buffers that nobody uses.
static KEPT: Mutex<Vec<Vec<u32>>> = Mutex::new(Vec::new());

/// Elements of 32 bits that hold anything at first, in a buffer that is given back when dropped.
pub(crate) struct Scratch<E> {
    /// All that the buffer has, which may be more than was asked for.
    words: Vec<u32>,
    length: usize,
    elements: PhantomData<E>,
}

impl<E> Scratch<E> {
    /// Room for so many elements: the smallest buffer that will do, or a new one.
    pub fn new(length: usize) -> Self {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = kept.iter().enumerate().filter(|(_, words)| words.len() >= length);
        let best = fitting.min_by_key(|(_, words)| words.len()).map(|(at, _)| at);
        let best = best.map(|at| kept.swap_remove(at));
        drop(kept);
        let mut words = best.unwrap_or_else(|| vec![0; length]);
        if cfg!(debug_assertions) {
            // Not a number, in f32 and bf16: who reads what it did not write shall see it.
            words.fill(u32::MAX);
        }
        Self {
            words,
            length,
            elements: PhantomData,
        }
    }
}

impl<E> Drop for Scratch<E> {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.words);
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = |words: &Vec<u32>| size_of_val(&words[..]);
        if kept.iter().map(bytes).sum::<usize>() + bytes(&words) <= MOST {
            kept.push(words);
        }
    }
}

impl<E: AnyBitPattern> Deref for Scratch<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        bytemuck::cast_slice(&self.words[..self.length])
    }
}

impl<E: AnyBitPattern + NoUninit> DerefMut for Scratch<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        bytemuck::cast_slice_mut(&mut self.words[..self.length])
    }
}

/// Gives all kept room back to the system: what training and long prompts needed is of no use to a chat that waits.
pub fn release() {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_as_long_as_asked_and_comes_back() {
        // Longer than what other tests use, so that the buffer is found again.
        let length = (1 << 22) + 12_345;
        let mut first = Scratch::<f32>::new(length);
        first.fill(1.0);
        assert_eq!(first.len(), length);
        let at = first.as_ptr();
        drop(first);
        let again = Scratch::<f32>::new(length - 1);
        assert_eq!((again.as_ptr(), again.len()), (at, length - 1));
    }
}
