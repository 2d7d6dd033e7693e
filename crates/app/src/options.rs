//! Folders, commands and services of an [`App`](crate::App).

use crate::{
    library::{
        self, Place,
        hub::{Keychain, SystemKeychain},
        probe::ProbeCommand,
    },
    power::{AlwaysOn, Power},
    relocation::location,
    wire::{Problem, ProblemCode},
};
use hearth_protocol::{DataReason, WorkerCommand};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Folders, commands and services of an [`App`].
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder with the file that names the data folder, if that was moved.
    pub base: PathBuf,
    /// The data folder (store, runs, downloaded models), created if missing.
    pub data: PathBuf,
    /// Folders of bundled models; some may not exist.
    pub bundled: Vec<PathBuf>,
    /// Folders of sample datasets; some may not exist.
    pub samples: Vec<PathBuf>,
    /// The folder of packed weights. `None` switches the cache off.
    pub packed: Option<PathBuf>,
    /// The cache file of model metadata. `None` switches the cache off.
    pub metadata_file: Option<PathBuf>,
    /// Folders of other programs, whose models are listed unless the settings exclude them.
    pub programs: Vec<Place>,
    /// The command that starts a worker.
    pub worker: WorkerCommand,
    /// The command that starts a probe, which reads untrusted files.
    pub probe: ProbeCommand,
    /// The machine's power supply, on which runs depend.
    pub power: Arc<dyn Power>,
    /// Holds the token of the hub.
    pub keychain: Arc<dyn Keychain>,
    /// Time after which an unused model is unloaded. `None` means that it stays loaded until its
    /// memory is needed.
    pub idle_unload: Option<Duration>,
    /// Idle time of the chat before a paused run resumes, so that it does not resume between two
    /// answers.
    pub chat_idle_delay: Duration,
    /// Delay before the CPU is measured again if other programs slowed its check down. It doubles
    /// after each attempt.
    pub remeasure_delay: Duration,
    /// Time limit for the active run to complete its step and write a checkpoint when the app
    /// closes.
    pub shutdown_timeout: Duration,
}

/// See [`Options::idle_unload`]: longer than the user takes to read an answer, and short enough to
/// free the memory of an unattended machine.
const IDLE_UNLOAD: Duration = Duration::from_secs(30 * 60);

/// See [`Options::chat_idle_delay`].
const CHAT_IDLE_DELAY: Duration = Duration::from_secs(2);

/// See [`Options::remeasure_delay`].
const REMEASURE_DELAY: Duration = Duration::from_secs(60);

/// See [`Options::shutdown_timeout`]: longer than most steps, and about as long as users wait.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

impl Options {
    /// Options from environment variables. The worker is `HEARTH_WORKER`, or the `hearth` beside
    /// this executable; `resources` is the package's resource folder. The power supply is
    /// [`AlwaysOn`].
    ///
    /// # Errors
    /// The system has no folder for app data, or the folder that the data was moved to is missing.
    pub fn from_environment(resources: Option<&Path>) -> Result<Self, Problem> {
        let no_folder = || Problem::new(ProblemCode::Store, DataReason::NoDataFolder);
        let base = library::base_folder().ok_or_else(no_folder)?;
        location::check(&base)?;
        let configured = std::env::var_os("HEARTH_WORKER").filter(|path| !path.is_empty());
        let default = || {
            let executable = std::env::current_exe().unwrap_or_default();
            executable.with_file_name(format!("hearth{}", std::env::consts::EXE_SUFFIX))
        };
        let worker = WorkerCommand::new(configured.map_or_else(default, PathBuf::from));
        Ok(Self {
            data: location::data_of(base.clone()),
            base,
            bundled: library::bundled_folders(resources),
            samples: library::sample_folders(resources),
            packed: library::packed_folder(),
            metadata_file: library::metadata_file(),
            programs: Place::of_programs(),
            probe: (&worker).into(),
            worker,
            power: Arc::new(AlwaysOn),
            keychain: Arc::new(SystemKeychain::default()),
            idle_unload: Some(IDLE_UNLOAD),
            chat_idle_delay: CHAT_IDLE_DELAY,
            remeasure_delay: REMEASURE_DELAY,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
        })
    }
}
