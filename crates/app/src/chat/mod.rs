//! The chat: one task that owns the selected model and the answers in progress.
//!
//! Each answer is a separate task, which waits for the selected model, follows its worker and saves
//! the text, so that no answer delays another. The workers belong to the host of all models
//! ([`hearth_protocol::ModelHost`]).

mod answer;
mod lookup;
mod measuring;
mod prompt;
mod request;
mod selection;
mod stats;
mod target;
mod training_prompt;

pub(crate) use target::Target;

use crate::{
    prompt_cache,
    shared::Shared,
    wire::{LoadSettings, Message, MessageState, ModelState, Problem, ProblemCode},
};
use answer::{Answer, Stop, Wait};
use hearth_protocol::{LoadRequest, Model, ModelStatus, Request};
use lookup::{Found, Lookup, Turns, Wanted};
use selection::Selection;
use std::{
    collections::HashMap,
    mem,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

/// A command to the chat task.
pub(crate) enum Command {
    /// Generates this answer, which is in the store already.
    Answer(Box<Message>),
    /// Continues this answer.
    Continue {
        message: Box<Message>,
        /// Its state before.
        before: MessageState,
    },
    /// Stops the answers of a conversation.
    Stop {
        conversation: i64,
        done: oneshot::Sender<()>,
    },
    /// Removes the prompt cache of a conversation.
    RemovePromptCache { conversation: i64 },
    /// Loads a model and selects it for new answers.
    Load(Box<Target>),
    /// Unloads the selected model, which stops its answers, and all unused ones.
    Unload,
    /// Unloads every model that uses a file, also as a draft, and waits until it is no longer in
    /// use. Stops their answers.
    Remove { path: PathBuf, done: oneshot::Sender<()> },
    /// Reloads the selected model if its settings have changed.
    ApplySettings,
    /// Sends the state of the selected model.
    State(oneshot::Sender<ModelState>),
    /// Measures the speed of the selected model.
    Measure(measuring::Reply),
    /// Cancels the measurement.
    StopMeasuring,
    /// Stops all answers.
    ShutDown(oneshot::Sender<()>),
}

/// A task of the chat has ended.
enum Ended {
    Answer(i64),
    Measurement,
    Lookup(Lookup, Result<Found, Problem>),
}

/// An answer that is waiting or in progress.
struct Running {
    conversation: i64,
    stop: watch::Sender<Stop>,
    /// The model that gives it, once that is loaded.
    model: Arc<OnceLock<Model>>,
    /// The model that it waits for, if that is not the selected one.
    own: Option<watch::Sender<Option<Selection>>>,
    task: JoinHandle<()>,
}

impl Running {
    /// The model that gives it, or that it alone waits for. `None` means that it waits for the
    /// selected one.
    fn model(&self) -> Option<Model> {
        let own = || Some(self.own.as_ref()?.borrow().as_ref()?.model.clone());
        self.model.get().cloned().or_else(own)
    }

    /// Whether the worker is done with it, so that it only has to be saved.
    fn has_ended(&self) -> bool {
        self.stop.is_closed()
    }
}

struct Chat {
    shared: Arc<Shared>,
    /// The model that new answers wait for.
    selection: watch::Sender<Option<Selection>>,
    /// By message.
    answers: HashMap<i64, Running>,
    turns: Turns,
    /// Number of commands that select a model. A model that was looked up counts in the order of
    /// its command, however long that took.
    order: u64,
    /// The last command that selected a model, or none.
    selected_by: u64,
    /// The last command that applied settings.
    settings_of: u64,
    /// Whether the selected model is looked up for that command.
    is_applying: bool,
    /// Later answers of the selected model, which wait for that.
    waiting: Vec<(Lookup, Found)>,
    /// Cancels the measurement in progress.
    cancel_measuring: Option<watch::Sender<bool>>,
    /// Whether a measurement is in progress, for which answers wait.
    is_measuring: watch::Sender<bool>,
    ended: mpsc::UnboundedSender<Ended>,
}

/// Starts the chat task, which ends when the sender is dropped. Needs a tokio runtime.
pub(crate) fn start(shared: Arc<Shared>) -> mpsc::UnboundedSender<Command> {
    let (send, commands) = mpsc::unbounded_channel();
    let (ended, ends) = mpsc::unbounded_channel();
    let chat = Chat {
        selection: watch::Sender::new(None),
        shared,
        answers: HashMap::new(),
        turns: Turns::default(),
        order: 0,
        selected_by: 0,
        settings_of: 0,
        is_applying: false,
        waiting: Vec::new(),
        cancel_measuring: None,
        is_measuring: watch::Sender::new(false),
        ended,
    };
    tokio::spawn(selection::show(chat.shared.clone(), chat.selection.subscribe()));
    tokio::spawn(chat.run(commands, ends));
    send
}

impl Chat {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>, mut ends: mpsc::UnboundedReceiver<Ended>) {
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.handle_command(command).await,
                    None => return self.end().await,
                },
                Some(ended) = ends.recv() => self.handle_ended(ended),
            }
            if !self.is_applying {
                for (lookup, found) in mem::take(&mut self.waiting) {
                    self.looked_up(lookup, Ok(found));
                }
            }
            let is_busy = !self.answers.is_empty() || self.cancel_measuring.is_some();
            self.shared.set_answering(is_busy);
        }
    }

    // Here and below, the receiver of a reply may have been dropped.
    async fn handle_command(&mut self, command: Command) {
        match command {
            Command::Answer(message) => self.answer(*message, None),
            Command::Continue { message, before } => self.answer(*message, Some(before)),
            Command::Stop { conversation, done } => {
                for running in self.answers.values().filter(|it| it.conversation == conversation) {
                    running.stop.send_replace(Stop::Cancel);
                }
                let _ = done.send(());
            }
            Command::RemovePromptCache { conversation } => {
                let request = Request::RemovePromptCache { conversation };
                self.shared.host.broadcast(&request);
            }
            Command::Load(target) => {
                let (id, settings) = (target.id.clone(), target.settings.clone());
                let order = self.next_order();
                self.select(*target, order).load();
                // They may have changed while the model was looked up.
                if settings != LoadSettings::from_settings(&self.shared.settings(), &id) {
                    self.apply_settings();
                }
            }
            Command::Unload => {
                self.unload().await;
                self.shared.host.unload_idle().await;
            }
            Command::Remove { path, done } => {
                self.remove(&path).await;
                let _ = done.send(());
            }
            Command::ApplySettings => self.apply_settings(),
            Command::State(reply) => {
                let _ = reply.send(selection::state(self.selection.borrow().as_ref()));
            }
            Command::Measure(reply) => self.measure(reply),
            Command::StopMeasuring => self.stop_measuring(),
            Command::ShutDown(done) => {
                self.end().await;
                let _ = done.send(());
            }
        }
    }

    fn handle_ended(&mut self, ended: Ended) {
        // Another one may have begun meanwhile: the same answer may be continued.
        match ended {
            Ended::Answer(id) => {
                if self.answers.get(&id).is_some_and(Running::has_ended) {
                    self.answers.remove(&id);
                }
            }
            Ended::Lookup(lookup, found) => self.looked_up(lookup, found),
            Ended::Measurement => drop(self.cancel_measuring.take_if(|cancel| cancel.is_closed())),
        }
    }

    /// Begins an answer. Its model is the first of these that exists: the model that the message
    /// names, the conversation's model, the selected model, the last answer's model. `before` is
    /// the state of an answer that is continued.
    fn answer(&mut self, message: Message, before: Option<MessageState>) {
        self.stop_measuring();
        let (id, conversation) = (message.id, message.conversation);
        let (reply, selection) = oneshot::channel();
        let order = self.next_order();
        self.look_up(Lookup {
            order,
            wanted: match message.own.as_ref().and_then(|own| own.model.clone()) {
                Some(model) => Wanted::OfAnswer { message: id, model },
                None => Wanted::OfConversation {
                    message: id,
                    conversation,
                },
            },
            reply: Some(reply),
        });
        let (stop, stopped) = watch::channel(Stop::No);
        let model = Arc::<OnceLock<Model>>::default();
        let wait = Wait {
            selection,
            is_measuring: self.is_measuring.subscribe(),
            model: Arc::clone(&model),
        };
        let (shared, ended) = (self.shared.clone(), self.ended.clone());
        let task = tokio::spawn(async move {
            Answer::new(shared, message, before).give(wait, stopped).await;
            // The receiver ends with the runtime.
            let _ = ended.send(Ended::Answer(id));
        });
        let running = Running {
            conversation,
            stop,
            model,
            own: None,
            task,
        };
        self.answers.insert(id, running);
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Begins a lookup.
    fn look_up(&self, lookup: Lookup) {
        let has_selected = self.selected().is_some();
        let (shared, ended, turns) = (self.shared.clone(), self.ended.clone(), self.turns.clone());
        tokio::spawn(async move {
            if let Some((lookup, found)) = lookup.look_up(&shared, has_selected, &turns).await {
                // The receiver ends with the runtime.
                let _ = ended.send(Ended::Lookup(lookup, found));
            }
        });
    }

    /// A model was looked up.
    fn looked_up(&mut self, lookup: Lookup, found: Result<Found, Problem>) {
        // A stopped answer selects no model.
        if lookup.is_unwanted() {
            return;
        }
        let order = lookup.order;
        let message = match lookup.wanted {
            // Later settings are applied.
            Wanted::Selected(_) if order < self.settings_of => return,
            Wanted::Selected(_) => {
                self.is_applying = false;
                // A model whose file is gone stays loaded.
                if let Ok(Found::Own(new)) = found
                    && order > self.selected_by
                {
                    self.reload(*new, order);
                }
                return;
            }
            Wanted::OfAnswer { message, .. } | Wanted::OfConversation { message, .. } => message,
        };
        let found = match found {
            Err(problem) => return lookup.reply(Err(problem)),
            Ok(found) => found,
        };
        let is_alone = matches!(lookup.wanted, Wanted::OfAnswer { .. });
        let selected = self.selected().map(|selected| selected.target.id.clone());
        let is_selected = match (&found, &selected) {
            (Found::Own(own), Some(selected)) => !is_alone && own.id == *selected,
            (Found::Nothing | Found::Chosen(_), selected) => selected.is_some(),
            (Found::Own(_), None) => false,
        };
        if is_selected && self.is_applying && order > self.settings_of {
            return self.waiting.push((lookup, found));
        }
        match found {
            _ if is_selected => {}
            // The target may have the settings from before the change.
            Found::Own(_) | Found::Chosen(_) if order < self.settings_of => {
                let order = self.settings_of;
                return self.look_up(Lookup { order, ..lookup });
            }
            // A later command has selected another model for new answers.
            Found::Own(target) if is_alone || order < self.selected_by => {
                let own = self.own_selection(*target);
                let selection = own.subscribe();
                if let Some(running) = self.answers.get_mut(&message) {
                    running.own = Some(own);
                }
                return lookup.reply(Ok(selection));
            }
            Found::Own(target) | Found::Chosen(target) => drop(self.select(*target, order)),
            // It was unloaded meanwhile.
            Found::Nothing => return self.look_up(lookup),
        }
        lookup.reply(Ok(self.selection.subscribe()));
    }

    /// The selected model, if it can answer.
    fn selected(&self) -> Option<Selection> {
        self.selection
            .borrow()
            .clone()
            .filter(|selected| selected.model.is_live())
    }

    /// A selection for one answer. The selection for new answers does not change.
    fn own_selection(&self, target: Target) -> watch::Sender<Option<Selection>> {
        let model = self.shared.host.model(self.load_request(&target));
        watch::Sender::new(Some(Selection {
            target: Arc::new(target),
            model,
        }))
    }

    /// Selects a model for new answers, and those that wait for a model. `order`: of the command.
    fn select(&mut self, target: Target, order: u64) -> Model {
        self.selected_by = order;
        self.is_applying = false;
        let model = self.shared.host.model(self.load_request(&target));
        let selected = Selection {
            target: Arc::new(target),
            model: model.clone(),
        };
        let before = self.selection.send_replace(Some(selected));
        if let Some(Selection { model: before, .. }) = before.filter(|before| before.model != model) {
            let is_loading = matches!(*before.status().borrow(), ModelStatus::Loading { .. });
            let is_awaited = |running: &Running| running.model().as_ref() == Some(&before);
            if is_loading && !self.answers.values().any(is_awaited) {
                // No answer waits for it any more.
                tokio::spawn(async move { before.unload().await });
            }
        }
        model
    }

    fn load_request(&self, target: &Target) -> LoadRequest {
        let settings = target.settings.clone();
        settings.load(
            target.path.clone(),
            target.draft.clone(),
            prompt_cache::for_worker(&self.shared),
        )
    }

    /// Unloads the selected model and stops its answers.
    async fn unload(&mut self) {
        self.selected_by = self.next_order();
        self.is_applying = false;
        let selected = self.selection.send_replace(None);
        self.stop_measuring();
        let model = selected.map(|selected| selected.model);
        // Also those whose model is not known yet.
        self.stop_answers(|running| running.model().is_none_or(|used| Some(used) == model))
            .await;
        if let Some(model) = model {
            model.unload().await;
        }
    }

    /// Unloads every model that uses a file, also as a draft, and stops its answers.
    async fn remove(&mut self, path: &Path) {
        let is_selected = self
            .selection
            .borrow()
            .as_ref()
            .is_some_and(|selected| selected.model.request().uses(path));
        if is_selected {
            self.unload().await;
        }
        self.stop_answers(|running| running.model().is_some_and(|used| used.request().uses(path)))
            .await;
        self.shared.host.unload(path).await;
    }

    /// Stops answers at once; their text up to now is saved.
    async fn stop_answers(&mut self, which: impl Fn(&Running) -> bool) {
        let stopped: Vec<Running> = self
            .answers
            .extract_if(|_, running| which(running))
            .map(|(_, it)| it)
            .collect();
        for running in &stopped {
            running.stop.send_replace(Stop::Now);
        }
        for running in stopped {
            // A task that panicked has no text to save.
            let _ = running.task.await;
        }
    }

    /// Looks the selected model up, loaded or loading, since the settings for it may have changed.
    fn apply_settings(&mut self) {
        // The limit needs no reload.
        let max_bytes = self.shared.settings().prompt_cache_limit;
        self.shared.host.broadcast(&Request::SetPromptCacheLimit { max_bytes });
        let order = self.next_order();
        self.settings_of = order;
        let selected = self.selected();
        self.is_applying = selected.is_some();
        if let Some(selected) = selected {
            self.look_up(Lookup {
                order,
                wanted: Wanted::Selected(selected.target.id.clone()),
                reply: None,
            });
        }
    }

    /// Reloads the selected model if it is this one and its settings have changed.
    fn reload(&mut self, new: Target, order: u64) {
        let Some(Selection { target, model }) = self.selected().filter(|selected| selected.target.id == new.id) else {
            return;
        };
        if self.load_request(&new) != *model.request() || new.draft_problem != target.draft_problem {
            self.select(new, order).load();
        }
    }

    /// Starts a measurement, or replies why it cannot start.
    fn measure(&mut self, reply: measuring::Reply) {
        let selected = self.selection.borrow().clone();
        let (code, message) = match selected {
            _ if self.cancel_measuring.as_ref().is_some_and(|cancel| !cancel.is_closed()) => (
                ProblemCode::Busy,
                "A measurement is already running. Wait until it is done.",
            ),
            _ if !self.answers.values().all(Running::has_ended) => (
                ProblemCode::Busy,
                "An answer is being generated, which would distort the measurement. Stop it, or wait until it is done.",
            ),
            Some(Selection { target, model }) if matches!(*model.status().borrow(), ModelStatus::Ready(_)) => {
                let (cancel, cancelled) = watch::channel(false);
                let (shared, ended) = (self.shared.clone(), self.ended.clone());
                let in_progress = measuring::InProgress::new(self.is_measuring.clone());
                tokio::spawn(async move {
                    measuring::measure(shared, &target, model, cancelled, in_progress, reply).await;
                    // The receiver ends with the runtime.
                    let _ = ended.send(Ended::Measurement);
                });
                self.cancel_measuring = Some(cancel);
                return;
            }
            _ => (ProblemCode::NoModel, "No model is loaded. Load one, then measure it."),
        };
        let _ = reply.send(Err(Problem {
            code,
            message: message.to_owned(),
        }));
    }

    /// Cancels the measurement.
    fn stop_measuring(&self) {
        if let Some(cancel) = &self.cancel_measuring {
            cancel.send_replace(true);
        }
    }

    /// Stops all answers. The host unloads the models.
    async fn end(&mut self) {
        self.stop_measuring();
        self.selection.send_replace(None);
        self.stop_answers(|_| true).await;
    }
}
