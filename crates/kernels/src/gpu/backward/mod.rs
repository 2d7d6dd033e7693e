//! Gradients on a GPU. Each element of a result is written by one unit, which gathers what it is made of, so that a run gives
//! what the run before gave.

mod attention;
mod cross_entropy;
mod dropout;
mod glu;
mod linear;
mod norm;
mod prepare;
mod tokens;
mod weight;

pub use attention::attend_batch_backward;
pub use cross_entropy::cross_entropy_in_place;
pub use dropout::drop_out;
pub use glu::glu_backward;
pub use linear::linear_backward;
pub use norm::rms_norm_backward;
pub use prepare::prepare_backward;
pub use weight::{weight_backward, weight_backward_within};
