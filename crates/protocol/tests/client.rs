//! The client against a real process: the fake worker.

use hearth_protocol::{
    Event, FinishReason, GenerateRequest, LoadRequest, Message, ProblemCode, Prompt, Request, Role, SamplingParams,
    StartError, Worker, WorkerCommand, WorkerMessage,
};
use std::{path::PathBuf, time::Duration};
use tokio::sync::mpsc::Receiver;

/// The command that starts the fake worker, with another argument than `worker`.
fn command(argument: &str) -> WorkerCommand {
    WorkerCommand {
        arguments: vec![argument.into()],
        ..WorkerCommand::new(env!("CARGO_BIN_EXE_fake-worker"))
    }
}

async fn started() -> (Worker, Receiver<WorkerMessage>) {
    Worker::start(&command("worker")).await.expect("a good start")
}

async fn refused(command: &WorkerCommand) -> StartError {
    match Worker::start(command).await {
        Ok(_) => panic!("a good start"),
        Err(error) => error,
    }
}

fn chat(id: u64, text: &str) -> Request {
    Request::Generate(GenerateRequest {
        id,
        prompt: Prompt::Chat(vec![Message {
            role: Role::User,
            content: text.to_owned(),
        }]),
        sampling: SamplingParams::default(),
        max_tokens: None,
        stop: Vec::new(),
        adapters: Vec::new(),
        conversation: None,
    })
}

/// The text before the last event of a generation, and that event.
async fn answer(said: &mut Receiver<WorkerMessage>) -> (String, WorkerMessage) {
    let mut whole = String::new();
    loop {
        match said.recv().await.expect("an end") {
            WorkerMessage::Event(Event::Text { text, .. }) => whole += &text,
            WorkerMessage::Event(Event::Started { .. } | Event::Prefill { .. }) => {}
            end => return (whole, end),
        }
    }
}

fn death(end: WorkerMessage) -> String {
    match end {
        WorkerMessage::Died(problem) => {
            assert_eq!(problem.code, ProblemCode::WorkerDied);
            problem.message
        }
        WorkerMessage::Event(event) => panic!("alive: {event:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers() {
    let (worker, mut said) = started().await;
    let path = std::env::current_exe().unwrap();
    worker
        .send(Request::Load(LoadRequest {
            path,
            context: Some(512),
            ..LoadRequest::default()
        }))
        .unwrap();
    assert!(matches!(
        said.recv().await,
        Some(WorkerMessage::Event(Event::LoadProgress { .. }))
    ));
    assert!(matches!(said.recv().await, Some(WorkerMessage::Event(Event::Loaded(info))) if info.context == 512));
    worker.send(chat(7, "say line one\nand \u{2028} \u{0} two")).unwrap();
    let (text, end) = answer(&mut said).await;
    assert_eq!(text, "line one\nand \u{2028} \u{0} two");
    assert!(matches!(end, WorkerMessage::Event(Event::Finished { id: 7, .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stops_when_cancelled() {
    let (worker, mut said) = started().await;
    worker.send(chat(1, "slow")).unwrap();
    assert!(matches!(
        said.recv().await,
        Some(WorkerMessage::Event(Event::Started { .. }))
    ));
    worker.send(Request::Cancel { id: 1 }).unwrap();
    let (_, end) = answer(&mut said).await;
    assert!(matches!(end, WorkerMessage::Event(Event::Finished { summary, .. })
            if summary.reason == FinishReason::Cancelled));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dies_mid_answer() {
    let (worker, mut said) = started().await;
    worker.send(chat(1, "die")).unwrap();
    let (text, end) = answer(&mut said).await;
    assert_eq!(text, "Half an answer", "output before the death is delivered");
    assert!(death(end).contains("exit code 5"));
    assert!(said.recv().await.is_none(), "nothing comes after death");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_from_outside() {
    let (worker, mut said) = started().await;
    worker.send(chat(1, "deaf")).unwrap();
    let id = worker.process_id().expect("a running process").to_string();
    let kill = if cfg!(windows) {
        std::process::Command::new("taskkill")
            .args(["/F", "/PID", &id])
            .status()
    } else {
        std::process::Command::new("kill").args(["-KILL", &id]).status()
    };
    assert!(kill.unwrap().success());
    let (_, end) = answer(&mut said).await;
    let expected = if cfg!(windows) {
        "exited unexpectedly"
    } else {
        "was killed"
    };
    assert!(death(end).contains(expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_memory_is_distinguished_from_a_crash() {
    let (worker, mut said) = started().await;
    worker.send(chat(1, "starve")).unwrap();
    let (text, end) = answer(&mut said).await;
    assert_eq!(text, "Half an ");
    let WorkerMessage::Died(problem) = end else {
        panic!("alive: {end:?}")
    };
    assert_eq!(problem.code, ProblemCode::OutOfMemory);
    assert!(problem.message.contains("ran out of memory"), "{problem}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_a_malformed_line() {
    let (worker, mut said) = started().await;
    worker.send(chat(1, "babble")).unwrap();
    let (text, end) = answer(&mut said).await;
    assert_eq!(text, "Half an ");
    assert!(death(end).contains("not a message"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_at_start() {
    let mut command = command("silent");
    command.ready_within = Duration::from_millis(300);
    assert!(matches!(refused(&command).await, StartError::NotReady { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_at_start() {
    assert!(matches!(
        refused(&command("garbage")).await,
        StartError::NotAWorker { .. }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_version() {
    assert!(matches!(refused(&command("old")).await, StartError::OtherVersion { version } if version == "0.0.1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exits_at_start() {
    let error = refused(&command("fall")).await;
    assert!(matches!(error, StartError::Died(_)));
    assert!(error.to_string().contains("exit code 3"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_executable() {
    let error = refused(&WorkerCommand::new(PathBuf::from("no-such-folder/hearth"))).await;
    assert!(matches!(error, StartError::Missing(_)));
    assert!(error.to_string().contains("no-such-folder"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shuts_down_when_asked() {
    let (worker, mut said) = started().await;
    worker.shut_down(Duration::from_secs(60)).await;
    assert!(death(said.recv().await.unwrap()).contains("exit code 0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_when_dropped() {
    let (worker, mut said) = started().await;
    worker.send(chat(1, "deaf")).unwrap();
    assert!(said.recv().await.is_some());
    drop(worker);
    while said.recv().await.is_some() {}
}
