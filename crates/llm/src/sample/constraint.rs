//! Constraints on the tokens of an answer, such as a grammar.

use std::fmt::Debug;

/// A constraint on the next token of an answer, with the state after its tokens so far.
pub trait Constraint: Debug + Send {
    /// Sets the logits of tokens that may not follow to minus infinity.
    ///
    /// # Errors
    /// If it cannot decide which tokens may follow: the reason, as a sentence.
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), String>;

    /// Records the next token of the answer.
    fn accept(&mut self, token: u32);

    /// Whether the answer is complete, so that no token may follow.
    fn is_complete(&self) -> bool;

    /// A copy in the same state.
    fn boxed(&self) -> Box<dyn Constraint>;
}
