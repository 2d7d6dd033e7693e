//! The shape of an attention layer, and its RoPE.

#[cfg(feature = "gpu")]
use crate::per_device::{PerDevice, RopeTable};
use hearth_kernels::attention::Heads;
use hearth_kernels::rope::Rope;
#[cfg(feature = "gpu")]
use std::sync::Arc;

/// The shape of one attention layer, and its RoPE.
#[derive(Debug, Clone)]
pub struct AttentionSpec {
    /// Heads, their width, the scale of scores and the window.
    pub heads: Heads,
    /// RoPE of Q and K.
    pub rope: SharedRope,
}

/// RoPE shared by layers, with its table cached per GPU.
#[derive(Debug, Clone)]
pub struct SharedRope {
    rope: Rope,
    #[cfg(feature = "gpu")]
    pub(super) tables: Arc<PerDevice<RopeTable>>,
}

impl From<Rope> for SharedRope {
    fn from(rope: Rope) -> Self {
        Self {
            rope,
            #[cfg(feature = "gpu")]
            tables: Arc::default(),
        }
    }
}

impl std::ops::Deref for SharedRope {
    type Target = Rope;

    fn deref(&self) -> &Rope {
        &self.rope
    }
}
