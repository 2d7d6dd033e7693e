//! The Hugging Face hub and other places on the network that models and adapters come from.
//!
//! Nothing here runs without a request by the user. Every response is bounded in size and time, and
//! untrusted: a file is moved into place only if its size and hash match.

mod adapters;
mod address;
mod byte_parts;
mod client;
mod deadline;
mod expected;
mod header;
mod header_len;
mod keychain;
mod ollama;
mod reference;
mod remote;
mod repository;
mod search;
mod server_info;
mod token;
mod variants;

pub use client::{Hub, Ranges};
pub use expected::Expected;
pub use header::{HeaderFile, sweep_headers};
pub use keychain::{Keychain, KeychainError, SystemKeychain};
pub use reference::{Reference, Selection, is_endpoint};
pub use remote::{Origin, Remote, RemoteFile, RemotePart};
pub use repository::Repository;
pub use search::SearchResult;
pub use server_info::ServerInfo;
pub use token::Token;
pub use variants::{Kind, Variant, quantization};

pub(crate) use address::is_private_host;
pub(super) use client::{Failure, ResponseRange};
pub(crate) use client::{HUB, is_offline};
pub(super) use header_len::{HeaderLenError, extent};
pub(super) use ollama::{Manifest, remote as ollama};
pub(crate) use reference::{MAIN, decode_strictly, without_query};
pub(crate) use token::token;
