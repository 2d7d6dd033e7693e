//! Tokens of one vocabulary in another.

/// Maps the tokens of a target to the tokens of a draft with another vocabulary, and back where
/// their texts agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenMap {
    /// For each token of the target, the draft's tokens that spell it; none if there are none.
    to_draft: Vec<Box<[u32]>>,
    /// For each token of the draft, the target's token with the same text.
    to_target: Vec<Option<u32>>,
}

impl TokenMap {
    /// A map of these tokens; ids beyond either have no counterpart.
    pub fn new(to_draft: Vec<Box<[u32]>>, to_target: Vec<Option<u32>>) -> Self {
        Self { to_draft, to_target }
    }

    /// The draft's tokens that spell a token of the target.
    pub fn draft_tokens(&self, token: u32) -> &[u32] {
        self.to_draft.get(token as usize).map_or(&[], |tokens| tokens)
    }

    /// The target's token with the text of one of the draft.
    pub fn target_token(&self, token: u32) -> Option<u32> {
        self.to_target.get(token as usize).copied().flatten()
    }
}
