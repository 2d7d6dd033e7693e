//! Gradients on a GPU. One unit computes each element of a result, without atomics, so that results
//! are reproducible.

mod attention;
mod cross_entropy;
mod dropout;
mod glu;
mod linear;
mod norm;
mod norm_over_heads;
mod qk_norm_rope;
mod tokens;
mod weight;

pub use attention::attend_batch_backward;
pub use cross_entropy::cross_entropy_in_place;
pub use dropout::dropout_rows;
pub use glu::glu_backward;
pub use linear::linear_backward;
pub use norm::rms_norm_backward;
pub use qk_norm_rope::qk_norm_rope_backward;
pub use weight::{weight_backward, weight_backward_with_limit};
