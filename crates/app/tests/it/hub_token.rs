//! The token of the hub: in the keychain, and nowhere else.

use crate::harness::{Harness, options};
use crate::support::keychain::FakeKeychain;
use hearth_app::{
    Options,
    library::hub::KeychainError,
    wire::{HubToken, KeychainState, Problem, ProblemCode, Settings, TokenSource},
};
use std::{fs, path::Path, sync::Arc};

const TOKEN: &str = "hf_TheSecretOfThisTest";

fn with(keychain: FakeKeychain) -> Harness {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options {
        keychain: Arc::new(keychain),
        ..options(&folder)
    };
    Harness::with(folder, options)
}

/// Every file below a folder that has the token in it.
fn files_with_token(folder: &Path) -> Vec<String> {
    let mut actual = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            actual.extend(files_with_token(&path));
        } else if fs::read(&path).is_ok_and(|bytes| bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes()))
        {
            actual.push(path.display().to_string());
        }
    }
    actual
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_saved_and_removed() {
    let harness = with(FakeKeychain::empty());
    let before = harness.hub_token().await.unwrap();
    assert_eq!(before.keychain, KeychainState::Empty);
    let saved = harness.set_hub_token(format!(" {TOKEN}\n")).await.unwrap();
    assert_eq!(saved, harness.hub_token().await.unwrap());
    let expected = match std::env::var_os("HF_TOKEN") {
        Some(_) => TokenSource::Environment,
        None => TokenSource::Keychain,
    };
    assert_eq!((saved.source, saved.keychain), (Some(expected), KeychainState::Saved));
    // Another hub does not get it.
    let mirror = Settings {
        hub_endpoint: Some("https://mirror.example".into()),
        ..Settings::default()
    };
    harness.set_settings(mirror).await.unwrap();
    let unsent = harness.hub_token().await.unwrap();
    assert_eq!(
        unsent,
        HubToken {
            is_sent: false,
            ..saved
        }
    );
    assert_eq!(harness.remove_hub_token().await.unwrap().keychain, KeychainState::Empty);
    assert_eq!(
        harness.remove_hub_token().await.unwrap().keychain,
        KeychainState::Empty,
        "again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_written_nowhere() {
    let harness = with(FakeKeychain::empty());
    harness.set_hub_token(TOKEN.into()).await.unwrap();
    harness.set_settings(Settings::default()).await.unwrap();
    let report = harness.report().await.unwrap();
    assert!(!report.contains(TOKEN));
    harness.shut_down().await.unwrap();
    assert_eq!(files_with_token(harness.folder.path()), [] as [&str; 0]);
    // The search finds what is there.
    fs::write(harness.folder.path().join("data/leak"), format!("a {TOKEN}.")).unwrap();
    assert_eq!(files_with_token(harness.folder.path()).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_keychain_a_sentence_says_what_to_do() {
    let problem_of = |problem: KeychainError| async {
        let harness = with(FakeKeychain::failing(problem));
        let state = harness.hub_token().await.unwrap().keychain;
        let problems: [Problem; 2] = [
            harness.set_hub_token(TOKEN.into()).await.unwrap_err(),
            harness.remove_hub_token().await.unwrap_err(),
        ];
        for problem in &problems {
            assert_eq!(problem.code, ProblemCode::Keychain);
            assert!(
                problem.to_string().contains("HF_TOKEN") && problem.to_string().ends_with('.'),
                "{problem}"
            );
            assert!(!problem.to_string().contains(TOKEN));
        }
        state
    };
    assert_eq!(problem_of(KeychainError::Missing).await, KeychainState::Missing);
    assert_eq!(problem_of(KeychainError::Locked).await, KeychainState::Locked);
    assert_eq!(
        problem_of(KeychainError::Failed("it is broken".into())).await,
        KeychainState::Locked
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_token_is_refused() {
    let harness = with(FakeKeychain::empty());
    for text in ["", "  ", "two words", "a\nb", "\u{fc}mlaut", &"a".repeat(5000)] {
        let problem = harness.set_hub_token(text.into()).await.unwrap_err();
        assert_eq!(problem.code, ProblemCode::BadRequest, "{text}");
    }
    assert_eq!(harness.hub_token().await.unwrap().keychain, KeychainState::Empty);
}
