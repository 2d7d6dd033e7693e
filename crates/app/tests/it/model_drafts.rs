//! The draft that a model is loaded with: chosen, planned, missing, and its figures in an answer.

use crate::{harness::Harness, support};
use hearth_app::wire::{DraftKind, DraftProblem, DraftSetting, LoadSettings, MessageState, ModelState, Settings};
use std::fs;

/// A library of `large`, `small` with the same vocabulary, and `other` with another one.
fn models_with_drafts() -> Harness {
    let folder = tempfile::tempdir().expect("a folder");
    let models = folder.path().join("bundled");
    for (file, parameters, token) in [("large", 96, "a"), ("small", 32, "a"), ("other", 8, "b")] {
        support::model_with_vocabulary(&models, &format!("{file}.gguf"), parameters, &[token]);
    }
    Harness::open(folder)
}

impl Harness {
    /// Sets the draft of `large`. Returns the kind of draft that it is then loaded with, and why
    /// the chosen draft model is not used.
    async fn draft(&mut self, draft: DraftSetting) -> (Option<DraftKind>, Option<DraftProblem>) {
        let drafts = [("large".to_owned(), draft)].into();
        let settings = Settings {
            drafts,
            ..self.snapshot().await.unwrap().settings
        };
        self.set_settings(settings).await.unwrap();
        self.load_model("large".into()).await.unwrap();
        let answer = self.answer("say one").await;
        assert_eq!(
            (answer.state, answer.model.as_deref()),
            (MessageState::Complete, Some("A tiny model"))
        );
        match self.app.model_state().await.unwrap() {
            ModelState::Ready {
                info, draft_problem, ..
            } => (info.draft, draft_problem),
            state => panic!("not loaded: {state:?}"),
        }
    }
}

/// The setting of a model as the draft.
fn draft_model(id: &str) -> DraftSetting {
    DraftSetting::Model { model: id.to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_loaded_with_its_draft_or_with_a_notice() {
    let mut harness = models_with_drafts();
    let models = harness.snapshot().await.unwrap().models;
    let drafts: Vec<_> = models
        .iter()
        .map(|model| (model.id.as_str(), model.drafts.join(" ")))
        .collect();
    assert_eq!(
        drafts,
        [
            ("large", "small".to_owned()),
            ("other", String::new()),
            ("small", String::new())
        ]
    );
    assert_eq!(harness.draft(DraftSetting::Auto).await, (Some(DraftKind::Ngram), None));
    assert_eq!(harness.draft(DraftSetting::None).await, (None, None));
    assert_eq!(
        harness.draft(DraftSetting::FirstLayers).await,
        (Some(DraftKind::FirstLayers), None)
    );
    assert_eq!(
        harness.draft(draft_model("small")).await,
        (Some(DraftKind::Model), None)
    );
    let name = || "A tiny model".to_owned();
    let unfit = DraftProblem::CannotDraft { name: name() };
    assert_eq!(
        harness.draft(draft_model("other")).await,
        (Some(DraftKind::Ngram), Some(unfit.clone()))
    );
    // The same draft, for another reason: nothing is reloaded, but the reason is shown.
    assert_eq!(
        harness.draft(draft_model("never")).await,
        (Some(DraftKind::Ngram), Some(DraftProblem::Missing))
    );
    assert_eq!(
        harness.draft(draft_model("large")).await,
        (Some(DraftKind::Ngram), Some(unfit))
    );
    let small = harness.folder.path().join("bundled/small.gguf");
    fs::write(&small, "no model").unwrap();
    let unreadable = DraftProblem::Unreadable {
        name: "small".to_owned(),
    };
    assert_eq!(
        harness.draft(draft_model("small")).await,
        (Some(DraftKind::Ngram), Some(unreadable))
    );
    fs::remove_file(&small).unwrap();
    assert_eq!(
        harness.draft(draft_model("small")).await,
        (Some(DraftKind::Ngram), Some(DraftProblem::Missing))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_belongs_to_one_model_and_is_planned() {
    let harness = models_with_drafts();
    let plan = async |model: &str, draft: DraftSetting| {
        let load_settings = LoadSettings {
            draft,
            ..LoadSettings::default()
        };
        let plan = harness.plan(model.into(), load_settings).await.unwrap();
        plan.devices.iter().map(|device| device.draft).max()
    };
    assert_eq!(plan("large", DraftSetting::Auto).await, Some(0));
    assert_eq!(plan("large", draft_model("small")).await, Some(500));
    assert_eq!(plan("large", draft_model("other")).await, Some(0), "it cannot draft");
    assert_eq!(plan("small", draft_model("large")).await, Some(0), "it is larger");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_draft_is_no_longer_in_use() {
    let mut harness = models_with_drafts();
    let path = support::model_with_vocabulary(harness.folder.path(), "mine.gguf", 8, &["a"]);
    let mine = harness.add_model(path).await.unwrap();
    assert_eq!(
        harness.draft(draft_model(&mine.id)).await,
        (Some(DraftKind::Model), None)
    );
    harness.remove_model(mine.id).await.unwrap();
    assert_eq!(harness.app.model_state().await.unwrap(), ModelState::None);
    assert_eq!(harness.answer("say two").await.text(), "two");
    let state = harness.app.model_state().await.unwrap();
    assert!(
        matches!(&state, ModelState::Ready { info, draft_problem: Some(DraftProblem::Missing), .. }
            if info.draft == Some(DraftKind::Ngram)),
        "{state:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_has_the_figures_of_its_draft() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("draft this").await;
    let draft = answer.stats.as_ref().and_then(|stats| stats.draft).expect("a draft");
    assert_eq!(
        (
            draft.kind,
            draft.drafted,
            draft.accepted,
            draft.gain,
            draft.used,
            draft.stopped
        ),
        (DraftKind::Model, 40, 25, 1.75, 0.5, false)
    );
    let kept = harness.conversation(answer.conversation).await;
    assert_eq!(kept.messages.last(), Some(&answer));
}
