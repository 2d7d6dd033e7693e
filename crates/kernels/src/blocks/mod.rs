//! The formats in which weights are stored: one file a format, one dispatch point, [`Quant`].

mod block;
mod error;
mod floats;
mod iq4_nl;
mod iq4_xs;
mod levels;
mod nibble_pairs;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod quant;
mod search;
mod two_bits;

pub use block::{Block, CHUNK, GROUP, Group, HALF_GROUP, Half};
pub use error::BlockError;
pub use floats::{Bf16, F32, Float, Fp16};
pub use iq4_nl::Iq4Nl;
pub use iq4_xs::Iq4Xs;
#[cfg(feature = "gpu")]
pub(crate) use levels::LEVELS;
pub use nibble_pairs::SixBits;
pub use q2_k::Q2K;
pub use q3_k::Q3K;
pub use q4_0::Q4_0;
pub use q4_1::Q4_1;
pub use q4_k::Q4K;
pub use q5_0::Q5_0;
pub use q5_1::Q5_1;
pub use q5_k::Q5K;
pub use q6_k::Q6K;
pub use q8_0::Q8_0;
pub use quant::Quant;
pub(crate) use quant::with_format;
