//! Workers that crash, fail, run out of memory, hang or send malformed output: each fails at most
//! the answers in progress.

use crate::{
    harness::{Harness, failure, options},
    support,
};
use hearth_app::{
    App, Options,
    wire::{Event, MessageState, ModelState, Problem, ProblemCode},
};
use hearth_protocol::WorkerCommand;
use std::time::Duration;
use tokio::sync::mpsc;

/// [`Harness::tiny`] with a short timeout for a request that its worker does not cancel.
fn with_short_cancel_timeout() -> Harness {
    Harness::tiny_with(|options| options.worker.cancelled_within = Duration::from_millis(300))
}

/// The problem of the event that a worker has died.
fn worker_death(event: &Event) -> Option<Problem> {
    match event {
        Event::WorkerDied { model, problem } if model == "tiny" => Some(problem.clone()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_its_worker_does_not_cancel_is_stopped() {
    let mut harness = with_short_cancel_timeout();
    let sent = harness.say(None, "deaf").await;
    harness.streaming(sent.answer.id).await;
    harness.stop(sent.conversation.id).await.unwrap();
    let answer = harness.ended(sent.answer.id).await;
    assert_eq!(answer.state, MessageState::Stopped);
    assert!(answer.text().starts_with("word "));
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_never_answers_is_replaced() {
    let mut harness = with_short_cancel_timeout();
    let sent = harness.say(None, "mute").await;
    harness
        .next(|event| match event {
            Event::MessageChanged { message } => matches!(message.state, MessageState::Prefill { .. }).then_some(()),
            _ => None,
        })
        .await;
    harness.stop(sent.conversation.id).await.unwrap();
    assert_eq!(harness.ended(sent.answer.id).await.state, MessageState::Stopped);
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_a_worker_fails_one_answer() {
    let mut harness = Harness::tiny();
    let (answer, said) = harness.answer_and("die", worker_death).await;
    assert_eq!(said.code, ProblemCode::WorkerDied);
    assert_eq!((answer.text().as_str(), failure(&answer)), ("Half an answer", &said));
    let kept = harness.conversation(answer.conversation).await;
    assert_eq!(kept.messages[1], answer);
    let again = harness.regenerate(answer.id, None).await.unwrap();
    harness.ended(again.answer.id).await;
    assert_eq!(
        harness.answer("say again").await.text(),
        "again",
        "a new worker reloads the model"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_fails_all_answers_in_progress_and_the_next_is_given() {
    let mut harness = Harness::tiny();
    let slow = harness.say(None, "slow").await;
    harness.streaming(slow.answer.id).await;
    let died = harness.say(None, "die").await;
    let failed = harness.all_ended([slow.answer.id, died.answer.id]).await;
    assert!(failed[0].text().starts_with("word "));
    assert_eq!(failure(&failed[0]), failure(&failed[1]));
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_memory_is_distinguished_from_a_crash() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("starve").await;
    let problem = failure(&answer);
    assert_eq!(
        (answer.text().as_str(), problem.code),
        ("Half an ", ProblemCode::OutOfMemory)
    );
    assert!(problem.to_string().contains("shorter context"), "{problem}");
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_output_of_a_worker_fails_one_answer() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("babble").await;
    assert_eq!(
        (answer.text().as_str(), failure(&answer).code),
        ("Half an ", ProblemCode::WorkerDied)
    );
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_were_not_asked_for_cost_no_more_than_one_answer() {
    let mut harness = Harness::tiny();
    for order in ["stray", "huge"] {
        let answer = harness.answer(order).await;
        let problem = failure(&answer);
        assert_eq!(
            (answer.text().as_str(), problem.code),
            ("Half an ", ProblemCode::WorkerDied),
            "{order}"
        );
        assert_eq!(harness.answer("say again").await.text(), "again", "{order}");
    }
    let (answer, _) = harness.answer_and("twice", worker_death).await;
    assert_eq!(answer.state, MessageState::Complete);
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_generation_is_reported() {
    let mut harness = Harness::tiny();
    let answer = harness.answer("fail").await;
    assert_eq!(
        (answer.text().as_str(), failure(&answer).code),
        ("Half an ", ProblemCode::Template)
    );
    assert_eq!(harness.conversation(answer.conversation).await.messages[1], answer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_does_not_fit_is_reported() {
    let mut harness = Harness::new(&["refuse.gguf"]);
    let answer = harness.answer("say one").await;
    assert_eq!(failure(&answer).code, ProblemCode::OutOfMemory);
    assert!(
        matches!(harness.snapshot().await.unwrap().model_state, ModelState::Failed { model, .. } if model == "refuse")
    );
    assert_eq!(
        failure(&harness.answer("say two").await).code,
        ProblemCode::OutOfMemory,
        "retried, and reported again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_while_loading_is_reported() {
    let mut harness = Harness::new(&["fatal.gguf", "tiny.gguf"]);
    let answer = harness.answer("say one").await;
    assert!(failure(&answer).to_string().contains("exit code 4"), "{answer:?}");
    harness.load_model("tiny".into()).await.unwrap();
    assert_eq!(harness.answer("say again").await.text(), "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_cannot_start_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    support::model(&folder.path().join("bundled"), "tiny.gguf");
    let (send, events) = mpsc::unbounded_channel();
    let options = Options {
        worker: WorkerCommand::new("no-such-folder/hearth"),
        ..options(&folder)
    };
    let app = App::open(options, move |announced| drop(send.send(announced.event))).unwrap();
    let mut harness = Harness { app, events, folder };
    let answer = harness.answer("say one").await;
    assert!(failure(&answer).to_string().contains("no-such-folder"));
    assert_eq!(harness.devices().await.unwrap_err().code, ProblemCode::WorkerDied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_whose_gpu_failed_is_loaded_on_the_cpu() {
    let mut harness = Harness::tiny();
    let on_the_cpu = |event: &Event| match event {
        Event::ModelState {
            state: ModelState::Ready { info, .. },
        } if info.gpu_layers == 0 => Some(info.clone()),
        _ => None,
    };
    let (answer, info) = harness.answer_and("fault", on_the_cpu).await;
    assert_eq!(
        (answer.text().as_str(), failure(&answer).code),
        ("Half an ", ProblemCode::GpuFailed)
    );
    assert!(
        info.notices
            .iter()
            .any(|notice| notice.to_string().contains("on the CPU")),
        "{info:?}"
    );
    assert_eq!(
        harness.answer("say again").await.text(),
        "again",
        "without another load"
    );
    assert_eq!(
        harness.snapshot().await.unwrap().model_state,
        ModelState::Ready {
            model: "tiny".into(),
            info,
            draft_problem: None,
        }
    );
}
