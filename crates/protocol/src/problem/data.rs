//! The app's data: the store, its folder, backups, imports and exports: what can go wrong.
//!
//! Paths are texts as they are shown: a path of the system need not be valid Unicode, and JSON has
//! no other text.

use super::Problem;
use serde::{Deserialize, Serialize};

/// The app's data: the store, its folder, backups, imports and exports: what went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DataReason {
    /// The system has no folder for app data.
    NoDataFolder,
    /// The data folder cannot be created, read or written.
    FolderUnusable {
        /// The folder.
        folder: String,
        /// The system's error.
        detail: String,
    },
    /// Another Hearth has the store open.
    InUse {
        /// The data folder.
        folder: String,
    },
    /// The store was written by a newer Hearth.
    StoreNewer {
        /// The store's file.
        path: String,
        /// Its schema version.
        found: i64,
        /// The newest supported schema version.
        known: i64,
    },
    /// The store is corrupt.
    StoreCorrupt {
        /// The store's file.
        path: String,
        /// SQLite's error.
        detail: String,
    },
    /// The store's file is a database of another program.
    StoreOfOtherProgram {
        /// The file.
        path: String,
    },
    /// A store is not as Hearth writes it, although it is not corrupt.
    StoreForeign {
        /// The difference.
        fault: StoreFault,
    },
    /// The backup before a migration failed.
    MigrationBackupFailed {
        /// The folder of backups.
        folder: String,
        /// The system's error.
        detail: String,
    },
    /// The disk of the store is full.
    StoreDiskFull {
        /// The store's file.
        path: String,
    },
    /// Another process holds the store.
    StoreBusy {
        /// The store's file.
        path: String,
    },
    /// A thread of this process has a transaction.
    StoreOccupied,
    /// The data folder is being moved, so nothing is written.
    StoreFrozen,
    /// Another error of SQLite.
    StoreFailed {
        /// SQLite's error.
        detail: String,
    },
    /// The app is closing.
    Closing,
    /// The address of a hub's mirror has another scheme.
    MirrorAddress,

    /// A backup is being written.
    BackupActive,
    /// A backup is being checked and extracted.
    RestoreActive,
    /// The data folder is being moved.
    MoveActive,
    /// A run changes files of the data folder.
    RunActive {
        /// The run's name.
        name: String,
    },
    /// A backup replaces the data at the next start.
    RestorePending,

    /// The disk has too little space for a file.
    NoSpace {
        /// The data to write.
        contents: DiskContents,
        /// Their size.
        bytes: u64,
        /// The folder to write to.
        folder: String,
        /// The free space of its disk.
        free_bytes: u64,
        /// The part of it that has to stay free.
        reserved_bytes: u64,
    },
    /// An answer that is not saved would not be in the backup.
    BackupWithUnsavedAnswer,
    /// A backup was to be written into the data folder.
    BackupInDataFolder,
    /// The data folder has more files than a backup.
    BackupOfTooManyFiles,
    /// A written backup could not be restored.
    BackupNotRestorable {
        /// The error of its store.
        cause: Box<Problem>,
    },
    /// A file or folder of a backup or of its restoration failed.
    BackupFailed {
        /// The file or folder.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// The file is not a backup.
    NotABackup {
        /// The file.
        path: String,
    },
    /// The backup was written by a newer Hearth.
    BackupNewer {
        /// The backup.
        path: String,
        /// The version of that Hearth.
        version: String,
    },
    /// The backup is damaged.
    BackupDamaged {
        /// The backup.
        path: String,
        /// The damage.
        damage: BackupDamage,
    },
    /// The user cancelled a restoration.
    RestoreCancelled,
    /// The start could not put a backup in place.
    RestoreIncomplete {
        /// The data folder.
        folder: String,
        /// The system's error.
        detail: String,
    },
    /// The same, since the file that describes the restoration is unreadable.
    RestoreUnreadable {
        /// The data folder.
        folder: String,
        /// The file's name in it.
        name: String,
    },

    /// The data was moved to a folder that is not available.
    MovedDataMissing {
        /// The folder.
        folder: String,
        /// The file that names it.
        path: String,
        /// The folder that is used without that file.
        base: String,
    },
    /// The file that names the data folder cannot be read.
    MovedDataUnknown {
        /// The file.
        path: String,
        /// The error.
        detail: String,
        /// The folder that is used without that file.
        base: String,
    },
    /// The path of the new data folder is relative.
    MoveToRelative,
    /// The new data folder is in the present one.
    MoveIntoItself,
    /// The data is in the new data folder.
    MoveToSame,
    /// The new data folder has other files.
    MoveToOtherFiles {
        /// The folder.
        folder: String,
    },
    /// The same, since files were added during the move.
    MoveToNewFiles {
        /// The folder.
        folder: String,
    },
    /// A download does not stop for the move.
    MoveWithDownload,
    /// An answer that is not saved would not be moved.
    MoveWithUnsavedAnswer,
    /// The copy of the last move was not deleted.
    MoveWithFormer {
        /// Its folder.
        folder: String,
    },
    /// The user cancelled a move.
    MoveCancelled,
    /// A file or folder of the move failed.
    MoveFailed {
        /// The file or folder.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// No move left a copy.
    NoFormer,
    /// The folder of the copy is not available.
    FormerMissing {
        /// The folder.
        folder: String,
    },
    /// The folder of the copy is the data folder.
    FormerIsPresent,
    /// The list of the files of the copy is unreadable.
    FormerListUnreadable {
        /// The list.
        path: String,
        /// The error.
        detail: String,
        /// The folder of the copy.
        folder: String,
        /// The user's way to free the space.
        cleanup: FormerCleanup,
    },
    /// Hearth was used with the copy after the move.
    FormerUsed {
        /// The folder of the copy.
        folder: String,
        /// The user's way to free the space.
        cleanup: FormerCleanup,
    },
    /// Files of the copy could not be deleted.
    FormerNotDeleted {
        /// The folder of the copy.
        folder: String,
    },

    /// There is no conversation to export.
    NothingToExport,
    /// A file cannot be written.
    FileUnwritable {
        /// The file.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// A file or folder cannot be read.
    FileUnreadable {
        /// The file or folder.
        path: String,
        /// The system's error.
        detail: String,
    },
    /// A path has characters that are not Unicode.
    PathNotText {
        /// The path, with replacements for these.
        path: String,
    },
    /// A text file for a message is a folder or a special file.
    TextNotAFile {
        /// Its name.
        name: String,
    },
    /// A text file is too large for a message.
    TextTooLarge {
        /// Its name.
        name: String,
        /// The limit in MiB.
        limit_mib: u64,
    },
    /// A file for a message is binary.
    TextBinary {
        /// Its name.
        name: String,
    },

    /// A file or folder has no conversations to import.
    NoConversations {
        /// The file or folder.
        path: String,
    },
    /// An import ended early and has saved some conversations.
    ImportInterrupted {
        /// The error that ended it.
        cause: Box<Problem>,
        /// The number of imported conversations.
        count: u32,
    },
    /// The user cancelled an import.
    ImportCancelled,
    /// An export is a special file.
    ImportNotAFile {
        /// Its path.
        path: String,
    },
    /// An archive is damaged.
    ImportDamaged {
        /// The archive.
        path: String,
        /// The error of the archive.
        detail: String,
    },
    /// A file of an export could not be read to its end.
    ImportUnreadable {
        /// The error.
        detail: String,
    },
    /// An export has too much text.
    ImportTooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// A folder or an archive has too many files.
    ImportTooManyFiles {
        /// The limit.
        limit: u64,
    },
    /// An export has too many entries.
    ImportTooManyEntries {
        /// The limit.
        limit: u64,
    },
}

/// The difference between a store and those that Hearth writes. Its text is a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum StoreFault {
    /// It is a database of another program.
    OtherProgram,
    /// Its schema version does not exist.
    UnknownVersion {
        /// The version.
        version: i64,
    },
    /// A table, an index, a trigger or a view differs or is missing.
    ForeignEntry {
        /// Its name.
        name: String,
    },
    /// A message answers a later message.
    MisplacedMessage,
    /// Ids or times are too large.
    LargeNumbers {
        /// Their table.
        table: String,
    },
}

/// The damage of a backup. Its text is a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum BackupDamage {
    /// It is a folder or a special file.
    NotAFile,
    /// The archive cannot be read.
    Archive {
        /// The archive's error.
        detail: String,
    },
    /// The list of its files has files that no backup has, or lacks the store.
    FileList,
    /// A file in it cannot be read.
    Unreadable {
        /// The file's path in the backup.
        name: String,
        /// The archive's error.
        detail: String,
    },
    /// A file in it is larger than in the list.
    TooLarge {
        /// The file's path in the backup.
        name: String,
    },
    /// A file in it has another hash than in the list.
    OtherHash {
        /// The file's path in the backup.
        name: String,
    },
    /// The store in it is corrupt.
    CorruptStore {
        /// SQLite's error.
        detail: String,
    },
    /// The store in it is not as Hearth writes it.
    ForeignStore {
        /// The difference.
        fault: StoreFault,
    },
}

/// Data to write to a disk. Its text is the subject of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum DiskContents {
    /// A new backup of everything.
    NewBackup,
    /// The files of a backup that is restored.
    RestoredBackup,
    /// The data folder.
    DataFolder,
}

/// The user's way to free the space of the copy that a move left. Its text is a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum FormerCleanup {
    /// Deleting the folder.
    DeleteFolder,
    /// Deleting its files but the one that names the data folder.
    KeepPlace,
    /// Starting Hearth with the folder to look at it, or deleting it.
    LookOrDelete,
}
