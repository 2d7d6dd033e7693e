//! The client against a real process: the fake worker.

use hearth_protocol::{
    Event, FinishReason, GenerateRequest, LoadRequest, Message, Problem, ProblemCode, Prompt, Request, Responses, Role,
    StartError, Summary, Worker, WorkerCommand,
};
use std::{path::PathBuf, time::Duration};
use tokio::time::{Instant, sleep};

/// The command that starts the fake worker, with another argument than `worker`.
fn command(argument: &str) -> WorkerCommand {
    WorkerCommand {
        arguments: vec![argument.into()],
        ..WorkerCommand::new(env!("CARGO_BIN_EXE_fake-worker"))
    }
}

async fn start_worker() -> Worker {
    Worker::start(&command("worker")).await.expect("a good start")
}

async fn start_error(command: &WorkerCommand) -> StartError {
    match Worker::start(command).await {
        Ok(_) => panic!("a good start"),
        Err(error) => error,
    }
}

fn chat(worker: &Worker, text: &str) -> Responses {
    worker.request(Request::Generate(GenerateRequest::new(Prompt::Chat(vec![
        Message::of_text(Role::User, text.to_owned()),
    ]))))
}

/// The text of a generation, and its summary or problem.
async fn answer(mut events: Responses) -> (String, Result<Summary, Problem>) {
    let mut whole_text = String::new();
    loop {
        match events.next().await.expect("a last event") {
            Event::Text { text, .. } => whole_text += &text,
            Event::Started { .. } | Event::Prefill { .. } => {}
            Event::Finished(summary) => return (whole_text, Ok(summary)),
            Event::Failed(problem) => return (whole_text, Err(problem)),
            event => panic!("{event:?}"),
        }
    }
}

/// The next piece of text.
async fn piece(events: &mut Responses) -> String {
    loop {
        if let Event::Text { text, .. } = events.next().await.expect("more events") {
            return text;
        }
    }
}

/// Waits for a worker's death. Returns the text before it and its message, the same for the answer
/// and the worker.
async fn wait_for_death(worker: &Worker, events: Responses) -> (String, String) {
    let (text, result) = answer(events).await;
    let problem = result.expect_err("a death");
    assert_eq!(problem.code, ProblemCode::WorkerDied);
    assert_eq!(worker.died().await, problem);
    assert!(!worker.is_alive());
    (text, problem.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers() {
    let worker = start_worker().await;
    let mut load = worker.request(Request::Load(LoadRequest {
        path: std::env::current_exe().unwrap(),
        context: Some(512),
        ..LoadRequest::default()
    }));
    assert!(matches!(load.next().await, Some(Event::Progress { .. })));
    assert!(matches!(load.next().await, Some(Event::Loaded(info)) if info.context == 512));
    assert_eq!(load.next().await, None);
    let (text, result) = answer(chat(&worker, "say line one\nand \u{2028} \u{0} two")).await;
    assert_eq!(text, "line one\nand \u{2028} \u{0} two");
    assert_eq!(result.map(|summary| summary.finish_reason), Ok(FinishReason::Stop));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_requests_are_in_progress_at_a_time() {
    let worker = start_worker().await;
    let mut slow = chat(&worker, "slow");
    piece(&mut slow).await;
    let (text, _) = answer(chat(&worker, "say something else")).await;
    assert_eq!(text, "something else");
    assert!(matches!(worker.call(Request::Devices).await, Ok(Event::Devices { .. })));
    let mut other = chat(&worker, "slow");
    piece(&mut other).await;
    slow.cancel();
    slow.cancel();
    let (_, result) = answer(slow).await;
    assert_eq!(result.map(|summary| summary.finish_reason), Ok(FinishReason::Cancelled));
    // The other one continues.
    piece(&mut other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_request_is_cancelled() {
    let command = WorkerCommand {
        cancelled_within: Duration::from_secs(1),
        ..command("worker")
    };
    let worker = Worker::start(&command).await.expect("a good start");
    let mut slow = chat(&worker, "slow");
    piece(&mut slow).await;
    drop(slow);
    // A request without an answer would have failed by then.
    let cancel_limit = sleep(command.cancelled_within + Duration::from_millis(200));
    while answer(chat(&worker, "cancelled")).await.0 != "1" {
        sleep(Duration::from_millis(10)).await;
    }
    cancel_limit.await;
    assert!(worker.is_alive());
    assert_eq!(answer(chat(&worker, "say yes")).await.0, "yes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unanswered_cancel_fails_only_its_request() {
    let command = WorkerCommand {
        cancelled_within: Duration::from_millis(200),
        silent_within: Duration::from_millis(600),
        ..command("worker")
    };
    for order in ["mute", "deaf"] {
        let worker = Worker::start(&command).await.expect("a good start");
        let mut other = chat(&worker, "slow");
        piece(&mut other).await;
        let mut cancelled = chat(&worker, order);
        assert!(matches!(cancelled.next().await, Some(Event::Started { .. })));
        cancelled.cancel();
        let problem = answer(cancelled).await.1.expect_err("it was cancelled");
        assert_eq!(problem.code, ProblemCode::Cancelled);
        assert!(problem.to_string().contains("did not confirm it"), "{problem}");
        // The other one continues beyond the time after which a silent worker is killed.
        let deadline = Instant::now() + 2 * command.silent_within;
        while Instant::now() < deadline {
            piece(&mut other).await;
        }
        assert!(worker.is_alive());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_sends_nothing_after_a_cancel_is_killed() {
    let defaults = command("worker");
    assert_eq!(
        (defaults.cancelled_within, defaults.silent_within),
        (Duration::from_secs(3), Duration::from_secs(30))
    );
    let command = WorkerCommand {
        cancelled_within: Duration::from_millis(100),
        silent_within: Duration::from_millis(300),
        ..defaults
    };
    let worker = Worker::start(&command).await.expect("a good start");
    let mut mute = chat(&worker, "mute");
    assert!(matches!(mute.next().await, Some(Event::Started { .. })));
    mute.cancel();
    assert!(answer(mute).await.1.is_err());
    let problem = worker.died().await;
    assert_eq!(problem.code, ProblemCode::WorkerDied);
    assert!(problem.to_string().contains("sent nothing for 1 seconds"), "{problem}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dies_mid_answer() {
    let worker = start_worker().await;
    let other = chat(&worker, "slow");
    let (text, message) = wait_for_death(&worker, chat(&worker, "die")).await;
    assert_eq!(text, "Half an answer", "output before the death is delivered");
    assert!(message.contains("exit code 5"), "{message}");
    let (_, result) = answer(other).await;
    assert_eq!(result.expect_err("it died").to_string(), message);
    let (_, result) = answer(chat(&worker, "say anything")).await;
    assert_eq!(result.expect_err("it is dead").to_string(), message);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_from_outside() {
    let worker = start_worker().await;
    let mut events = chat(&worker, "deaf");
    piece(&mut events).await;
    let id = worker.process_id().expect("a running process").to_string();
    let status = if cfg!(windows) {
        std::process::Command::new("taskkill")
            .args(["/F", "/PID", &id])
            .status()
    } else {
        std::process::Command::new("kill").args(["-KILL", &id]).status()
    };
    assert!(status.unwrap().success());
    let expected = if cfg!(windows) {
        "exited unexpectedly"
    } else {
        "was killed"
    };
    let (_, message) = wait_for_death(&worker, events).await;
    assert!(message.contains(expected), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_memory_is_distinguished_from_a_crash() {
    let worker = start_worker().await;
    let (text, result) = answer(chat(&worker, "starve")).await;
    assert_eq!(text, "Half an ");
    let problem = result.expect_err("a death");
    assert_eq!(problem.code, ProblemCode::OutOfMemory);
    assert!(problem.to_string().contains("ran out of memory"), "{problem}");
}

/// Asserts that a worker is killed after this order, with this text and message.
async fn assert_is_killed(order: &str, expected_text: &str, expected_message: &str) {
    let worker = start_worker().await;
    let (text, message) = wait_for_death(&worker, chat(&worker, order)).await;
    assert_eq!(text, expected_text, "{order}");
    assert!(message.contains(expected_message), "{order}: {message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_an_invalid_message() {
    assert_is_killed("babble", "Half an ", "not a message").await;
    assert_is_killed("stray", "Half an ", "was not asked for").await;
    assert_is_killed("huge", "Half an ", "a line without an end").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_it_answered_twice() {
    let worker = start_worker().await;
    let (_, result) = answer(chat(&worker, "twice")).await;
    assert!(result.is_ok(), "the first answer is whole");
    assert!(worker.died().await.to_string().contains("was not asked for"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_at_start() {
    let mut command = command("silent");
    command.ready_within = Duration::from_millis(300);
    assert!(matches!(start_error(&command).await, StartError::NotReady { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_at_start() {
    assert!(matches!(
        start_error(&command("garbage")).await,
        StartError::NotAWorker { .. }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_version() {
    let error = start_error(&command("old")).await;
    assert!(matches!(&error, StartError::OtherVersion { version } if version == "0.0.1"));
    let problem = Problem::from(error);
    assert_eq!(problem.code, ProblemCode::Updated);
    assert!(problem.to_string().contains("Restart Hearth"), "{problem}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exits_at_start() {
    let error = start_error(&command("fall")).await;
    assert!(matches!(error, StartError::Died(_)));
    assert!(error.to_string().contains("exit code 3"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_executable() {
    let error = start_error(&WorkerCommand::new(PathBuf::from("no-such-folder/hearth"))).await;
    assert!(matches!(error, StartError::Missing(_)));
    assert!(error.to_string().contains("no-such-folder"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_fails_its_requests() {
    let worker = start_worker().await;
    let mut slow = chat(&worker, "slow");
    piece(&mut slow).await;
    worker.kill();
    assert_eq!(
        answer(slow).await.1.expect_err("it was killed").code,
        ProblemCode::WorkerDied
    );
    assert!(!worker.is_alive());
    assert_eq!(worker.died().await.code, ProblemCode::WorkerDied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shuts_down_when_asked() {
    let worker = start_worker().await;
    worker.shut_down(Duration::from_secs(60)).await;
    assert!(worker.died().await.to_string().contains("exit code 0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_when_dropped() {
    let worker = start_worker().await;
    let mut events = chat(&worker, "deaf");
    piece(&mut events).await;
    drop(worker);
    let (_, result) = answer(events).await;
    assert_eq!(result.expect_err("it ended").code, ProblemCode::WorkerDied);
}
