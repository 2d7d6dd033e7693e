//! Application logic, wire types, the store and the library of models.
//!
//! [`App`] has one method per action of the user and emits events. It depends neither on a window
//! nor on Burn: models run and train in worker processes.

mod adapter_match;
mod adapters;
mod announce;
mod app;
mod archive;
mod cache_files;
mod caches;
mod cancellation;
mod chat;
mod conversations;
mod convert;
mod data_folder;
mod data_work;
mod datasets;
mod device_name;
mod downloads;
mod export;
mod folders;
mod foreign_lock;
mod hardware;
mod hub_token;
mod import;
mod inside;
pub mod library;
pub mod link;
pub mod link_queue;
mod lock;
mod model_lookup;
mod models;
mod options;
mod path_text;
mod percent;
mod permissions;
pub mod power;
mod presets;
mod prompt_cache;
mod ratings;
mod relocation;
mod remeasure;
mod remote_models;
mod remove_path;
mod report;
mod runs;
mod saved_prompts;
mod saving;
mod settings;
mod shared;
pub mod store;
mod task;
mod text_files;
mod title;
mod tune;
mod unsent;
mod updates;
pub mod wire;

pub use app::App;
pub use archive::backup_file_name;
pub use datasets::DATASET_EXTENSIONS;
pub use export::file_name;
pub use options::Options;
pub use path_text::{check_local, path_text};
pub use presets::file_stem as preset_file_stem;
