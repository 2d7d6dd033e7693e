//! Pauses of a run for the chat and on a low battery, and the machine's power supply.

use crate::harness::{
    Harness, PATIENCE, request_of,
    runs::{start_run, wait_for_pause, wait_until_running},
    under_way,
};
use hearth_app::{
    power::{Power, Supply},
    wire::{Event, PauseReason, RunState},
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// A power supply that a test controls and observes.
#[derive(Debug, Default)]
struct FakePower {
    low: bool,
    awake: watch::Sender<bool>,
}

impl Power for FakePower {
    fn supply(&self) -> Supply {
        if self.low {
            Supply::Battery { charge: 0.1 }
        } else {
            Supply::Mains
        }
    }

    fn keep_awake(&self, awake: bool) {
        self.awake.send_replace(awake);
    }
}

/// [`Harness::tiny`] with a fake power supply: a low battery, or mains power.
fn with_fake_power(low: bool) -> (Harness, Arc<FakePower>) {
    let power = Arc::new(FakePower {
        low,
        ..FakePower::default()
    });
    (Harness::tiny_with(|options| options.power = power.clone()), power)
}

/// Waits until the flag has this value.
async fn wait_for_value(flag: &watch::Sender<bool>, expected: bool) {
    let mut changes = flag.subscribe();
    let wait = changes.wait_for(|value| *value == expected);
    timeout(PATIENCE, wait)
        .await
        .expect("a change")
        .expect("a power supply");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_pauses_for_the_chat() {
    let mut harness = Harness::tiny_with(|options| options.chat_idle_delay = Duration::ZERO);
    let id = start_run(&harness, "learn 100000").await.id;
    wait_until_running(&mut harness, id).await;
    let sent = harness.say(None, "slow").await;
    wait_for_pause(&mut harness, id, PauseReason::Chat).await;
    harness.stop(sent.conversation.id).await.unwrap();
    wait_until_running(&mut harness, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_stays_paused_between_two_answers() {
    let mut harness = Harness::tiny_with(|options| options.chat_idle_delay = Duration::from_secs(3600));
    let id = start_run(&harness, "learn 100000").await.id;
    wait_until_running(&mut harness, id).await;
    let first = harness.say(None, "slow").await;
    wait_for_pause(&mut harness, id, PauseReason::Chat).await;
    harness.stop(first.conversation.id).await.unwrap();
    let mut states = Vec::new();
    let mut note = |event: &Event| {
        if let Event::RunChanged { run } = event {
            states.push(run.state.clone());
        }
    };
    let ends = |event: &Event, answer: i64| match event {
        Event::MessageChanged { message } => message.id == answer && !under_way(message),
        _ => false,
    };
    let answer = first.answer.id;
    harness
        .next(|event| {
            note(&event);
            ends(&event, answer).then_some(())
        })
        .await;
    let answer = harness.say(None, "say one").await.answer.id;
    harness
        .next(|event| {
            note(&event);
            ends(&event, answer).then_some(())
        })
        .await;
    // The worker acts on requests in order: it would have resumed before it stops.
    harness.stop_run(id).await.unwrap();
    harness
        .next(|event| {
            note(&event);
            matches!(event, Event::RunChanged { run } if run.adapter.is_some()).then_some(())
        })
        .await;
    assert!(!states.contains(&RunState::Running), "{states:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_low_battery_pauses_a_run() {
    let (mut harness, _) = with_fake_power(true);
    let id = start_run(&harness, "learn 100000").await.id;
    wait_for_pause(&mut harness, id, PauseReason::Battery).await;
    harness.resume_run(id).await.unwrap();
    wait_until_running(&mut harness, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_works_stays_awake() {
    let (mut harness, power) = with_fake_power(false);
    let id = start_run(&harness, "learn 100000").await.id;
    wait_until_running(&mut harness, id).await;
    wait_for_value(&power.awake, true).await;
    harness.pause_run(id).await.unwrap();
    wait_for_value(&power.awake, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_is_told_whether_there_is_mains_power() {
    let (mut mains, _) = with_fake_power(false);
    assert!(!request_of(&mains.answer("show").await).on_battery);
    // It is read in the background.
    let (mut battery, _) = with_fake_power(true);
    let is_on_battery = async { while !request_of(&battery.answer("show").await).on_battery {} };
    timeout(PATIENCE, is_on_battery).await.expect("the worker is told");
}
