//! What a model thinks and what it says: told apart by the markers around its thoughts.

mod markers;
mod passage;
#[cfg(test)]
mod specification;
mod splitter;

pub(crate) use markers::{Markers, PromptEnd};
pub(crate) use passage::{Input, Passage};
pub(crate) use splitter::{Piece, Splitter};
