//! The shape of an attention layer, and the change of Q and K before it.

#[cfg(feature = "gpu")]
use crate::per_device::{PerDevice, RopeTable};
use hearth_kernels::attention::{Heads, QkNormWidth, Temperature};
use hearth_kernels::rope::Rope;
#[cfg(feature = "gpu")]
use std::sync::Arc;

/// The shape of one attention layer, and the change of Q and K before it: norms, RoPE, temperature.
#[derive(Debug, Clone)]
pub struct AttentionSpec {
    /// Heads, their width, the scale and softcap of scores, and the window.
    pub heads: Heads,
    /// The width of the norms of Q and K, if there are any.
    pub norm_width: QkNormWidth,
    /// RoPE of Q and K; `None` if they have no positions (NoPE).
    pub rope: Option<SharedRope>,
    /// The temperature of Q by position.
    pub temperature: Option<Temperature>,
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
