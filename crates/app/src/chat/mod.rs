//! The chat: one task that owns the selected model and the answers in progress.
//!
//! Each answer is a separate task, which waits for the selected model, follows its worker and saves
//! the text, so that no answer delays another. The workers belong to the host of all models
//! ([`hearth_protocol::ModelHost`]).

mod answer;
mod live_models;
mod lookup;
mod measuring;
mod prompt;
mod request;
mod selection;
mod stats;
mod target;
mod titling;
mod training_prompt;
pub(crate) mod unsent_count;

pub(crate) use target::Target;

use crate::{
    prompt_cache,
    shared::Shared,
    wire::{ChatReason, LoadSettings, Message, MessageState, ModelState, Problem, ProblemCode, UnsentCount},
};
use answer::{Answer, Stop, Wait};
use hearth_protocol::{LoadRequest, Model, ModelStatus, Request};
use live_models::LiveModels;
use lookup::{Lookup, LookupOutcome, LookupQuery, ModelLocks};
use selection::Selection;
use std::{
    collections::{HashMap, HashSet},
    mem,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use titling::TitleJob;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, JoinSet},
};

/// A command to the chat task.
pub(crate) enum Command {
    /// Generates this answer, which is in the store already.
    Answer(Box<Message>),
    /// Continues this answer.
    Continue {
        message: Box<Message>,
        previous_state: MessageState,
    },
    /// Stops the answers of a conversation.
    Stop {
        conversation: i64,
        done: oneshot::Sender<()>,
    },
    /// Stops these answers at once; their text up to now is saved.
    StopAnswers {
        messages: HashSet<i64>,
        done: oneshot::Sender<()>,
    },
    /// Removes the prompt cache of a conversation.
    RemovePromptCache { conversation: i64 },
    /// Loads a model and selects it for new answers.
    Load(Box<Target>),
    /// Stops all answers and unloads all models.
    Unload,
    /// Unloads every model that uses a file, also as a draft, and waits until it is no longer in
    /// use. Stops their answers.
    Remove { path: PathBuf, done: oneshot::Sender<()> },
    /// Reloads the selected model if its settings have changed.
    ApplySettings,
    /// Sends the state of the selected model.
    State(oneshot::Sender<ModelState>),
    /// Sends the states of all models that are loaded, being loaded or could not be loaded.
    LiveModels(oneshot::Sender<Vec<ModelState>>),
    /// Counts the tokens of an unsent message.
    CountUnsent {
        count: Box<unsent_count::Count>,
        reply: unsent_count::Reply,
    },
    /// Measures the speed of the selected model.
    Measure(measuring::Reply),
    /// Cancels the measurement.
    StopMeasuring,
    /// Stops all answers.
    ShutDown(oneshot::Sender<()>),
}

/// The end of a task of the chat.
enum TaskEnd {
    Answer(i64, Option<TitleJob>),
    Measurement,
    Lookup(Lookup, Result<LookupOutcome, Problem>),
}

/// An answer that is waiting or in progress.
struct Running {
    conversation: i64,
    stop: watch::Sender<Stop>,
    /// The model that generates it, once that is loaded.
    model: Arc<OnceLock<Model>>,
    /// The selection of the answer's or its conversation's model. `None` means that it waits for
    /// the chat's.
    own_selection: Option<watch::Sender<Option<Selection>>>,
    task: JoinHandle<()>,
}

impl Running {
    /// The model that generates it, or its own selection. `None` means that it waits for the
    /// selected model.
    fn model(&self) -> Option<Model> {
        let own = || Some(self.own_selection.as_ref()?.borrow().as_ref()?.model.clone());
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
    /// All models that answer or have answered.
    live_models: LiveModels,
    /// By message.
    answers: HashMap<i64, Running>,
    /// Tasks that title conversations.
    titles: JoinSet<()>,
    locks: ModelLocks,
    /// Number of commands that looked up or selected a model. A lookup takes effect in the order of
    /// its command, not of its completion.
    order: u64,
    /// Number of the last command that selected or unloaded a model.
    selection_order: u64,
    /// Number of the last command that applied settings.
    settings_order: u64,
    /// Whether the lookup of the selected model for that command is in progress.
    is_applying: bool,
    /// Completed lookups of later answers with the selected model, which wait for it.
    deferred_lookups: Vec<(Lookup, LookupOutcome)>,
    counts: Arc<unsent_count::Counts>,
    /// Cancels the measurement in progress.
    cancel_measuring: Option<watch::Sender<bool>>,
    /// Whether a measurement is in progress, for which answers wait.
    is_measuring: watch::Sender<bool>,
    task_end: mpsc::UnboundedSender<TaskEnd>,
}

/// Starts the chat task, which ends when the sender is dropped. Needs a tokio runtime.
pub(crate) fn start(shared: Arc<Shared>) -> mpsc::UnboundedSender<Command> {
    let (send, commands) = mpsc::unbounded_channel();
    let (task_end, task_ends) = mpsc::unbounded_channel();
    let chat = Chat {
        selection: watch::Sender::new(None),
        live_models: LiveModels::new(shared.clone()),
        shared,
        answers: HashMap::new(),
        titles: JoinSet::new(),
        locks: ModelLocks::default(),
        order: 0,
        selection_order: 0,
        settings_order: 0,
        is_applying: false,
        deferred_lookups: Vec::new(),
        counts: Arc::default(),
        cancel_measuring: None,
        is_measuring: watch::Sender::new(false),
        task_end,
    };
    tokio::spawn(selection::show(chat.shared.clone(), chat.selection.subscribe()));
    tokio::spawn(chat.run(commands, task_ends));
    send
}

impl Chat {
    async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Command>,
        mut task_ends: mpsc::UnboundedReceiver<TaskEnd>,
    ) {
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.handle_command(command).await,
                    None => return self.end().await,
                },
                Some(task_end) = task_ends.recv() => self.handle_task_end(task_end),
            }
            if !self.is_applying {
                for (lookup, outcome) in mem::take(&mut self.deferred_lookups) {
                    self.apply_lookup(lookup, Ok(outcome));
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
            Command::Continue {
                message,
                previous_state,
            } => self.answer(*message, Some(previous_state)),
            Command::Stop { conversation, done } => {
                for running in self
                    .answers
                    .values()
                    .filter(|running| running.conversation == conversation)
                {
                    running.stop.send_replace(Stop::Cancel);
                }
                let _ = done.send(());
            }
            Command::StopAnswers { messages, done } => {
                self.stop_answers(|id, _| messages.contains(&id)).await;
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
                self.stop_answers(|_, _| true).await;
                self.unload().await;
                self.shared.host.unload_idle().await;
                self.live_models.retain(Model::is_live);
            }
            Command::Remove { path, done } => {
                self.remove(&path).await;
                let _ = done.send(());
            }
            Command::ApplySettings => self.apply_settings(),
            Command::State(reply) => {
                let _ = reply.send(selection::state(self.selection.borrow().as_ref()));
            }
            Command::LiveModels(reply) => {
                let _ = reply.send(self.live_models.states());
            }
            Command::CountUnsent { count, reply } => self.count_unsent(*count, reply),
            Command::Measure(reply) => self.measure(reply),
            Command::StopMeasuring => self.stop_measuring(),
            Command::ShutDown(done) => {
                self.end().await;
                let _ = done.send(());
            }
        }
    }

    fn handle_task_end(&mut self, task_end: TaskEnd) {
        // The same answer may have been continued, or another measurement started, meanwhile.
        match task_end {
            TaskEnd::Answer(id, title_job) => {
                if self.answers.get(&id).is_some_and(Running::has_ended) {
                    self.answers.remove(&id);
                }
                if let Some(title_job) = title_job {
                    // Removes the tasks that have ended.
                    while self.titles.try_join_next().is_some() {}
                    self.titles.spawn(title_job.run(self.shared.clone()));
                }
            }
            TaskEnd::Lookup(lookup, outcome) => self.apply_lookup(lookup, outcome),
            TaskEnd::Measurement => drop(self.cancel_measuring.take_if(|cancel| cancel.is_closed())),
        }
    }

    /// Starts an answer. Its model is the first of these that exists: the model that the message
    /// names, the conversation's model, the selected model, the last loaded model, the default
    /// model. This does not select the first two. `previous_state` is the state of an answer that
    /// is continued.
    fn answer(&mut self, message: Message, previous_state: Option<MessageState>) {
        self.stop_measuring();
        let (id, conversation) = (message.id, message.conversation);
        let (reply, selection) = oneshot::channel();
        let order = self.next_order();
        self.look_up(Lookup {
            order,
            query: match message.overrides.as_ref().and_then(|overrides| overrides.model.clone()) {
                Some(model) => LookupQuery::OfAnswer { message: id, model },
                None => LookupQuery::OfConversation {
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
        let (shared, task_end) = (self.shared.clone(), self.task_end.clone());
        let task = tokio::spawn(async move {
            let title_job = Answer::new(shared, message, previous_state).run(wait, stopped).await;
            // The receiver ends with the runtime.
            let _ = task_end.send(TaskEnd::Answer(id, title_job));
        });
        let running = Running {
            conversation,
            stop,
            model,
            own_selection: None,
            task,
        };
        self.answers.insert(id, running);
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Starts a lookup.
    fn look_up(&self, lookup: Lookup) {
        let has_selected = self.selected().is_some();
        let (shared, task_end, locks) = (self.shared.clone(), self.task_end.clone(), self.locks.clone());
        tokio::spawn(async move {
            if let Some((lookup, outcome)) = lookup.look_up(&shared, has_selected, &locks).await {
                // The receiver ends with the runtime.
                let _ = task_end.send(TaskEnd::Lookup(lookup, outcome));
            }
        });
    }

    /// Tells the answer its model: one that it or its conversation names, or the selected model.
    /// Selects the default model if none is selected.
    fn apply_lookup(&mut self, lookup: Lookup, outcome: Result<LookupOutcome, Problem>) {
        // A stopped answer selects no model.
        if lookup.is_cancelled() {
            return;
        }
        let order = lookup.order;
        let message = match lookup.query {
            // Later settings are applied.
            LookupQuery::Selected(_) if order < self.settings_order => return,
            LookupQuery::Selected(_) => {
                self.is_applying = false;
                // A model whose file is gone stays loaded.
                if let Ok(LookupOutcome::Named(new)) = outcome
                    && order > self.selection_order
                {
                    self.reload(*new, order);
                }
                return;
            }
            LookupQuery::OfAnswer { message, .. } | LookupQuery::OfConversation { message, .. } => message,
        };
        let outcome = match outcome {
            Err(problem) => return lookup.reply(Err(problem)),
            Ok(outcome) => outcome,
        };
        let is_selected = !matches!(outcome, LookupOutcome::Named(_)) && self.selected().is_some();
        if is_selected && self.is_applying && order > self.settings_order {
            return self.deferred_lookups.push((lookup, outcome));
        }
        match outcome {
            _ if is_selected => {}
            // The target may have the settings from before the change.
            LookupOutcome::Named(_) | LookupOutcome::Default(_) if order < self.settings_order => {
                let order = self.settings_order;
                return self.look_up(Lookup { order, ..lookup });
            }
            // The model of one conversation or answer is not selected for others.
            LookupOutcome::Named(target) => {
                let own_selection = self.new_selection(*target);
                let selection = own_selection.subscribe();
                if let Some(running) = self.answers.get_mut(&message) {
                    running.own_selection = Some(own_selection);
                }
                return lookup.reply(Ok(selection));
            }
            LookupOutcome::Default(target) => drop(self.select(*target, order)),
            // It was unloaded meanwhile.
            LookupOutcome::KeepSelected => return self.look_up(lookup),
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

    /// Creates a selection for one answer. The selection for new answers does not change.
    fn new_selection(&self, target: Target) -> watch::Sender<Option<Selection>> {
        let selection = self.live(target);
        watch::Sender::new(Some(selection))
    }

    /// The model of the host for a target. Its state is shown from now on.
    fn live(&self, target: Target) -> Selection {
        self.shared.count_computation();
        let selection = Selection {
            model: self.shared.host.model(self.load_request(&target)),
            target: Arc::new(target),
        };
        self.live_models.add(selection.clone());
        selection
    }

    /// Selects a model for new answers and for those that wait for the selection. `order`: number
    /// of the command.
    fn select(&mut self, target: Target, order: u64) -> Model {
        self.selection_order = order;
        self.is_applying = false;
        let selected = self.live(target);
        let model = selected.model.clone();
        let previous = self.selection.send_replace(Some(selected));
        if let Some(Selection { model: previous, .. }) = previous.filter(|previous| previous.model != model) {
            let is_loading = matches!(*previous.status().borrow(), ModelStatus::Loading { .. });
            let is_awaited = |running: &Running| running.model().as_ref() == Some(&previous);
            if is_loading && !self.answers.values().any(is_awaited) {
                // No answer waits for it any more.
                tokio::spawn(async move { previous.unload().await });
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
        self.selection_order = self.next_order();
        self.is_applying = false;
        let selected = self.selection.send_replace(None);
        self.stop_measuring();
        let model = selected.map(|selected| selected.model);
        // Also those whose model is not known yet.
        self.stop_answers(|_, running| running.model().is_none_or(|used| Some(used) == model))
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
        self.stop_answers(|_, running| running.model().is_some_and(|used| used.request().uses(path)))
            .await;
        self.shared.host.unload(path).await;
        self.live_models.retain(|model| !model.request().uses(path));
    }

    /// Stops answers at once; their text up to now is saved.
    async fn stop_answers(&mut self, should_stop: impl Fn(i64, &Running) -> bool) {
        let stopped: Vec<Running> = self
            .answers
            .extract_if(|id, running| should_stop(*id, running))
            .map(|(_, running)| running)
            .collect();
        for running in &stopped {
            running.stop.send_replace(Stop::Now);
        }
        for running in stopped {
            // A task that panicked has no text to save.
            let _ = running.task.await;
        }
    }

    /// Looks up the selected model, if it is loaded or loading: its settings may have changed.
    fn apply_settings(&mut self) {
        // The limit needs no reload.
        let max_bytes = self.shared.settings().prompt_cache_limit;
        self.shared.host.broadcast(&Request::SetPromptCacheLimit { max_bytes });
        let order = self.next_order();
        self.settings_order = order;
        let selected = self.selected();
        self.is_applying = selected.is_some();
        if let Some(selected) = selected {
            self.look_up(Lookup {
                order,
                query: LookupQuery::Selected(selected.target.id.clone()),
                reply: None,
            });
        }
    }

    /// Reloads the selected model if it has the id of `new` and its settings have changed.
    fn reload(&mut self, new: Target, order: u64) {
        let Some(Selection { target, model }) = self.selected().filter(|selected| selected.target.id == new.id) else {
            return;
        };
        if self.load_request(&new) != *model.request() || new.draft_problem != target.draft_problem {
            self.select(new, order).load();
        }
    }

    /// Counts the tokens of an unsent message, if the model that would answer it is loaded.
    fn count_unsent(&self, unsent_count::Count { draft, model }: unsent_count::Count, reply: unsent_count::Reply) {
        let selection = match model {
            Some(id) => self.live_models.find(&id),
            None => self.selected(),
        };
        match selection {
            Some(selection) => {
                let (shared, counts) = (self.shared.clone(), self.counts.clone());
                unsent_count::start(shared, selection, draft, counts, reply);
            }
            None => drop(reply.send(Ok(UnsentCount::Unavailable))),
        }
    }

    /// Starts a measurement, or replies with the problem that prevents it.
    fn measure(&mut self, reply: measuring::Reply) {
        let selected = self.selection.borrow().clone();
        let (code, reason) = match selected {
            _ if self.cancel_measuring.as_ref().is_some_and(|cancel| !cancel.is_closed()) => {
                (ProblemCode::Busy, ChatReason::Measuring)
            }
            _ if !self.answers.values().all(Running::has_ended) => {
                (ProblemCode::Busy, ChatReason::AnsweringWhileMeasuring)
            }
            Some(Selection { target, model }) if matches!(*model.status().borrow(), ModelStatus::Ready(_)) => {
                let (cancel, cancelled) = watch::channel(false);
                let (shared, task_end) = (self.shared.clone(), self.task_end.clone());
                let in_progress = measuring::InProgress::new(self.is_measuring.clone());
                tokio::spawn(async move {
                    measuring::measure(shared, &target, model, cancelled, in_progress, reply).await;
                    // The receiver ends with the runtime.
                    let _ = task_end.send(TaskEnd::Measurement);
                });
                self.cancel_measuring = Some(cancel);
                return;
            }
            _ => (ProblemCode::NoModel, ChatReason::NothingToMeasure),
        };
        let _ = reply.send(Err(Problem::new(code, reason)));
    }

    /// Cancels the measurement.
    fn stop_measuring(&self) {
        if let Some(cancel) = &self.cancel_measuring {
            cancel.send_replace(true);
        }
    }

    /// Stops all answers. The host unloads the models.
    async fn end(&mut self) {
        self.titles.shutdown().await;
        self.stop_measuring();
        self.selection.send_replace(None);
        self.stop_answers(|_, _| true).await;
    }
}
