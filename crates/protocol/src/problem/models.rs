//! Models and adapters of the library, and downloads: what can go wrong.
//!
//! Paths are texts, because a path that is not UTF-8 has no JSON.

use serde::{Deserialize, Serialize};

/// Models and adapters of the library, and downloads: what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ModelsReason {
    /// No model of the library or the catalog has a name.
    UnknownModel {
        /// The requested name.
        name: String,
        /// Ids of the library's models.
        known: Vec<String>,
    },
    /// The same, and the library has no model.
    UnknownModelOfNone {
        /// The requested name.
        name: String,
    },
    /// A model of the catalog is not in the library.
    NotDownloaded {
        /// The requested name.
        name: String,
        /// The model's id in the catalog.
        id: String,
        /// Ids of the library's models.
        known: Vec<String>,
    },
    /// The same, and the library has no model.
    NotDownloadedOfNone {
        /// The requested name.
        name: String,
        /// The model's id in the catalog.
        id: String,
    },
    /// No model of the catalog has a name.
    NotInCatalog {
        /// The requested name.
        name: String,
        /// Ids of the catalog.
        known: Vec<String>,
    },
    /// A model was removed from the library.
    ModelGone,
    /// A file does not exist.
    NoSuchFile {
        /// The file.
        path: String,
    },
    /// A path that the user chose cannot be resolved.
    NoAccess {
        /// The path.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// The file of a listed model cannot be opened.
    Unreadable {
        /// The file.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// The path of a file is not valid Unicode.
    UnreadablePath {
        /// The file.
        path: String,
    },
    /// A file was not read, for no known reason.
    NotRead {
        /// The file.
        path: String,
    },
    /// The process that reads files was not started.
    ReaderNotStarted {
        /// The file to read.
        path: String,
        /// The program.
        program: String,
        /// The system's error.
        detail: String,
    },
    /// Reading a file took too long.
    ReaderTimedOut {
        /// The file.
        path: String,
        /// The time limit in seconds.
        seconds: u64,
    },
    /// The process that read a file reached its memory limit.
    ReaderOutOfMemory {
        /// The file.
        path: String,
    },
    /// The process that read a file exited.
    ReaderExited {
        /// The file.
        path: String,
        /// The exit code.
        exit_code: i32,
    },
    /// A signal ended the process that read a file.
    ReaderSignaled {
        /// The file.
        path: String,
        /// The signal's number.
        signal: i32,
    },
    /// The process that read a file was killed, as for lack of memory.
    ReaderKilled {
        /// The file.
        path: String,
    },
    /// The process that read a file panicked.
    ReaderPanicked {
        /// The file.
        path: String,
    },
    /// The name of a file's architecture is too long.
    ArchitectureTooLong {
        /// The file.
        path: String,
        /// Its length in bytes.
        length: u64,
    },
    /// A chat template is too long to be shown.
    TemplateTooLong {
        /// The file.
        path: String,
        /// Its length in bytes.
        length: u64,
        /// The longest that is shown, in bytes.
        limit: u64,
    },
    /// A file is an adapter, and a model was asked for.
    IsAdapter {
        /// The file.
        path: String,
    },
    /// A path is not valid UTF-8, so that the store cannot have it.
    NonUtf8Path {
        /// The path.
        path: String,
    },
    /// A bundled model cannot be removed.
    Bundled {
        /// Its name.
        name: String,
    },
    /// The user put a file into the models folder.
    AddedByHand {
        /// The file.
        path: String,
    },
    /// A file belongs to another program or to a folder of the user.
    Foreign {
        /// The file.
        path: String,
    },
    /// A model is being downloaded, so it is not deleted.
    DownloadInProgress {
        /// Its name.
        name: String,
    },
    /// Deleting a file failed.
    NotDeleted {
        /// The file.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// Writing a file failed.
    NotWritten {
        /// The file.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// A download failed.
    DownloadFailed {
        /// Name of the model or file.
        name: String,
        /// Its address, without a query.
        url: String,
        /// Why.
        fetch_failure: FetchFailure,
        /// Whether a retry reuses the bytes received so far.
        kept: Kept,
    },
    /// A file changed on its server while it was downloaded.
    ChangedMeanwhile {
        /// Name of the model or file.
        name: String,
        /// Its address, without a query.
        url: String,
    },
    /// A file on a server is of no use.
    Flawed {
        /// Name of the model or file.
        name: String,
        /// Its address, without a query.
        url: String,
        /// Why.
        flaw: Flaw,
    },
    /// A download has another digest than the published one.
    HashMismatch {
        /// Name of the model or file.
        name: String,
        /// Its address, without a query.
        url: String,
        /// The download's SHA-256.
        found: String,
    },
    /// A request for a repository, a file or a model failed.
    RequestFailed {
        /// The requested item.
        item: String,
        /// Why.
        fetch_failure: FetchFailure,
    },
    /// A search of the hub failed.
    SearchFailed {
        /// Why.
        fetch_failure: FetchFailure,
    },
    /// A repository has neither models nor adapters.
    NothingToDownload {
        /// `owner/name`.
        repository: String,
    },
    /// A repository has no model of a name.
    NoSuchVariant {
        /// `owner/name`.
        repository: String,
        /// The requested name.
        wanted: String,
        /// The names in it.
        known: Vec<String>,
    },
    /// A name from a server cannot be a file's name on every system.
    UnsafeName {
        /// The name.
        name: String,
    },
    /// A text names no model on the network.
    BadReference {
        /// The text.
        reference: String,
    },
    /// An address is not encrypted.
    Unencrypted {
        /// The address.
        url: String,
    },
    /// The disk has no room for a download.
    NoSpace {
        /// Name of the model.
        name: String,
        /// Folder of downloads.
        folder: String,
        /// The required space.
        needed_bytes: u64,
        /// The free space.
        free_bytes: u64,
    },
    /// A setting switches the network off.
    OfflineBySetting,
    /// An environment variable switches the network off.
    OfflineByVariable {
        /// The variable.
        variable: String,
    },
    /// A file is being downloaded already, perhaps by another process.
    AlreadyDownloading {
        /// Its name.
        name: String,
    },
    /// A model was deleted while another version of it was downloaded.
    DeletedMeanwhile {
        /// Its file.
        path: String,
    },
    /// Another program changed a download before it was complete.
    AlteredMeanwhile {
        /// The file.
        path: String,
    },
    /// The user cancelled a download.
    DownloadCancelled,
    /// A download failed, for a reason that cannot be read.
    DownloadLost,
    /// A download is no longer in the list.
    DownloadRemoved,
    /// A text is no token of the hub.
    NotAToken,
    /// The system has no keychain.
    KeychainMissing,
    /// The keychain is locked, or the user or the system refuses access.
    KeychainLocked,
    /// The keychain failed.
    KeychainFailed {
        /// The system's error.
        detail: String,
    },
    /// The keychain has several entries for the token.
    KeychainAmbiguous,
    /// The token is too long for the keychain.
    KeychainTooLong,
    /// The keychain's entry for the token is damaged.
    KeychainDamaged,
    /// The call to the keychain ended without a result.
    KeychainEnded,
    /// Hearth did not download a model, so no server is known.
    UpdateNoRecord,
    /// The record of a download has no hashes.
    UpdateNoHashes,
    /// The record of a download has no version.
    UpdateNoRecordedVersion,
    /// The record of a download has its address without the query.
    UpdateNoQuery,
    /// The server names no version.
    UpdateNoVersion,
    /// The check for updates ended before this server was asked.
    UpdateTooLate,
    /// An adapter was removed.
    AdapterGone,
    /// The files of an adapter are missing.
    AdapterMoved {
        /// Name of the adapter.
        name: String,
        /// Where they were.
        path: String,
    },
    /// The base model of an adapter was removed, and no other one fits.
    AdapterModelGone {
        /// Name of the base model.
        model: String,
    },
    /// An adapter does not fit the model in use.
    AdapterMismatch {
        /// Name of the adapter.
        name: String,
    },
    /// The same of an adapter whose base model is known.
    AdapterOfOtherModel {
        /// Name of the adapter.
        name: String,
        /// Name of its base model.
        base: String,
    },
    /// An adapter fits no model of the library.
    AdapterWithoutModel {
        /// Name of the adapter.
        name: String,
    },
}

/// Why a request brought nothing of use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FetchFailure {
    /// The address is malformed.
    InvalidAddress {
        /// The HTTP library's error.
        detail: String,
    },
    /// The server's name has no address.
    HostNotFound,
    /// The server does not accept the connection, or ended it.
    Unreachable {
        /// The system's error.
        detail: String,
    },
    /// The server did not respond in time.
    TimedOut,
    /// The response arrives too slowly.
    TooSlow,
    /// The connection broke during the response.
    Broken {
        /// The system's error.
        detail: String,
    },
    /// The response ended early.
    EndedEarly,
    /// Another error of the HTTP library.
    Other {
        /// The HTTP library's error.
        detail: String,
    },
    /// The system starts no more threads.
    NoThreads {
        /// The system's error.
        detail: String,
    },
    /// The target of a redirect is malformed.
    InvalidRedirect,
    /// There are too many redirects.
    RedirectLoop,
    /// A redirect leads to an address without encryption.
    InsecureRedirect,
    /// A redirect leads from the internet into a private network.
    PrivateRedirect,
    /// A server other than the hub refuses access.
    AccessRefused {
        /// HTTP status: `403 Forbidden`.
        status: String,
    },
    /// The hub requires a login, but is asked without encryption.
    LoginUnencrypted,
    /// The hub refuses the login.
    LoginRefused,
    /// The hub requires a login, or does not have the item.
    LoginRequired,
    /// The server does not have the item.
    NotFound,
    /// The server responded with another error.
    BadStatus {
        /// HTTP status: `503 Service Unavailable`.
        status: String,
    },
    /// A web page came instead of data, as of a network that requires a login.
    WebPage,
    /// The hub's response is malformed.
    UnexpectedResponse,
    /// The response is larger than Hearth accepts.
    TooLarge,
    /// The header that names the range of a response is malformed.
    MalformedRange,
    /// The requested range lies beyond the end of the file.
    BeyondEnd,
    /// The response has another range than the requested one.
    OtherRange,
    /// The file has another size than announced.
    OtherSize,
    /// The file is longer than announced.
    TooLong,
    /// The file changed while it was downloaded.
    Changed,
    /// The server does not name the file's size.
    NoSize,
    /// The hub publishes no checksum of an adapter's file.
    NoChecksum,
    /// An adapter's configuration is too long.
    ConfigTooLong {
        /// Its length in bytes.
        length: u64,
        /// The longest that is accepted, in bytes.
        limit: u64,
    },
    /// The file is not a GGUF file of a supported version.
    NotGguf,
    /// The header of a GGUF file is longer than the file.
    HeaderBeyondEnd,
    /// The header of a GGUF file is too large.
    HeaderTooLarge,
    /// The headers of a split model are too large together.
    HeadersTooLarge,
    /// Ollama's registry has the model in another format than GGUF.
    OtherFormat,
}

/// Why a file on a server is of no use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Flaw {
    /// It has no bytes.
    Empty,
    /// HTML came in its place.
    WebPage,
    /// It is of another format.
    NotGguf,
    /// It has its promised length, but the data of its last tensor ends beyond it.
    MissingTensors {
        /// Its length in bytes.
        length: u64,
        /// Where the last tensor ends.
        end: u64,
    },
    /// It has its promised length, but its header is longer.
    MissingHeader {
        /// Its length in bytes.
        length: u64,
    },
}

/// Whether a retry of a failed download reuses the bytes received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Kept {
    /// The next try goes on where this one ended.
    Resumes,
    /// The server has no ranges, or no version by which the rest can be told from another file's.
    Restarts,
    /// Nothing has arrived.
    Nothing,
}
