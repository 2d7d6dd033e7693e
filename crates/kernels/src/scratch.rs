//! Room for results: kept for the next one when dropped, because the pages of a fresh buffer of some megabytes take the system as
//! long to find, and as long to fill with zeros, as a tenth of the product that fills it.

use bytemuck::{AnyBitPattern, NoUninit};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Bytes that are kept at most.
const MOST: usize = 1 << 30;
/// Words of a buffer that is worth keeping: less is the allocator's to keep.
const LEAST: usize = 16 * 1024;

/// Buffers that nobody uses.
static KEPT: Mutex<Vec<Vec<u32>>> = Mutex::new(Vec::new());

/// Elements of 16 or 32 bits that hold anything at first, in a buffer that is given back when dropped.
pub struct Scratch<E> {
    /// All that the buffer has, which may be more than was asked for.
    words: Vec<u32>,
    length: usize,
    elements: PhantomData<E>,
}

impl<E> Scratch<E> {
    /// Room for so many elements: the smallest buffer that will do and is not much larger, or a new one.
    pub fn new(length: usize) -> Self {
        let count = (length * size_of::<E>()).div_ceil(size_of::<u32>());
        let mut words = kept(count).unwrap_or_else(|| vec![0; count]);
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

/// A buffer of `count` words or a few more. Where there is none, others are let go in its place, so that what is kept does not grow by
/// what nobody asks for any more.
fn kept(count: usize) -> Option<Vec<u32>> {
    if count < LEAST {
        return None;
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let fitting = kept.iter().enumerate();
    let fitting = fitting.filter(|(_, words)| (count..=count + count / 4).contains(&words.len()));
    if let Some((at, _)) = fitting.min_by_key(|(_, words)| words.len()) {
        return Some(kept.swap_remove(at));
    }
    let mut freed = 0;
    while freed < count
        && let Some(words) = kept.pop()
    {
        freed += words.len();
    }
    None
}

impl<E> Drop for Scratch<E> {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.words);
        if words.len() < LEAST {
            return;
        }
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
        &bytemuck::cast_slice(&self.words)[..self.length]
    }
}

impl<E: AnyBitPattern + NoUninit> DerefMut for Scratch<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.length]
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
        drop(again);
        let halves = Scratch::<half::bf16>::new(2 * length - 1);
        assert_eq!((halves.as_ptr().cast(), halves.len()), (at, 2 * length - 1));
    }
}
