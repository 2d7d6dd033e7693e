//! Separates a model's thoughts from its answer by the markers around them.

#[cfg(test)]
mod families;
mod markers;
mod passage;
#[cfg(test)]
mod specification;
mod splitter;

pub(crate) use markers::{Markers, PromptEnd};
pub(crate) use passage::{Input, Passage};
pub(crate) use splitter::{Piece, Splitter};
