//! Translation of tokens between two vocabularies.

/// Maps the tokens of a target to tokens of a draft with another vocabulary, and back if a token
/// has the same text in both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenMap {
    /// For each token of the target, the draft's tokens that spell it. Empty if it has no spelling.
    to_draft: Vec<Box<[u32]>>,
    /// For each token of the draft, the target's token with the same text.
    to_target: Vec<Option<u32>>,
}

impl TokenMap {
    /// A map by token id. Ids beyond the end of a list have no counterpart.
    pub fn new(to_draft: Vec<Box<[u32]>>, to_target: Vec<Option<u32>>) -> Self {
        Self { to_draft, to_target }
    }

    /// The draft's tokens that spell a token of the target.
    pub fn draft_tokens(&self, token: u32) -> &[u32] {
        self.to_draft.get(token as usize).map_or(&[], |tokens| tokens)
    }

    /// The target's token with the same text as a token of the draft.
    pub fn target_token(&self, token: u32) -> Option<u32> {
        self.to_target.get(token as usize).copied().flatten()
    }
}
