//! Servers that answer slowly or never: what is asked of them ends, and takes few threads.

use crate::{
    data_harness::Harness,
    support::{
        self,
        hub::{FakeHub, Reply, repository, tagged_repository},
    },
};
use hearth_app::{
    library::{
        self, Hub, LibraryError,
        hub::{HeaderFile, Reference},
    },
    wire::Settings,
};
use std::{
    fs,
    io::Read,
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// A model of some kilobytes: a byte every 20 ms takes minutes.
fn model() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = support::write(folder.path(), "a.gguf", &support::metadata(), "weight", 5_000);
    fs::read(path).expect("a file")
}

/// Asserts that something fails, and long before the server is done.
#[track_caller]
fn ends_soon<T>(what: &str, work: impl FnOnce() -> Result<T, LibraryError>) {
    let begin = Instant::now();
    let error = work().err().unwrap_or_else(|| panic!("{what}: it came"));
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "{what}: {:?}",
        begin.elapsed()
    );
    assert!(error.is_temporary(), "{what}: {error}");
}

fn impatient(hub: &FakeHub) -> Hub {
    Hub {
        patience: Duration::from_millis(300),
        ..hub.hub.clone()
    }
}

#[test]
fn a_server_that_dribbles_holds_no_header_config_or_list() {
    let folder = tempfile::tempdir().expect("a folder");
    let find_remote = |hub: &Hub, source: &str| library::remote(hub, &Reference::parse(source, hub)?);

    let files = [("n-Q8_0.gguf", model())];
    let hub = FakeHub::with(repository("o/n", &files), &[Reply::Good, Reply::Dribble]);
    let remote = find_remote(&hub.hub, "o/n").expect("a model");
    ends_soon("a header", || {
        HeaderFile::fetch(&impatient(&hub), &remote, folder.path())
    });

    let hub = FakeHub::with(repository("o/n", &files), &[Reply::Dribble]);
    ends_soon("a list of files", || find_remote(&impatient(&hub), "o/n"));

    let config = [
        ("adapter_config.json", vec![b' '; 5_000]),
        ("adapter_model.safetensors", vec![0; 9]),
    ];
    let bodies = tagged_repository("o/a", &["peft"], &config);
    let hub = FakeHub::with(bodies, &[Reply::Good, Reply::Dribble]);
    ends_soon("a configuration", || find_remote(&impatient(&hub), "o/a"));

    let hub = FakeHub::with(
        repository("o/lora", &[("lora.gguf", model())]),
        &[Reply::Good, Reply::Dribble],
    );
    ends_soon("the type of a file", || find_remote(&impatient(&hub), "o/lora"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_do_not_answer_take_few_threads() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", server.local_addr().expect("an address"));
    // `None` once connections are closed.
    let open = Arc::new(Mutex::new(Some(Vec::new())));
    let taken = open.clone();
    thread::spawn(move || {
        for mut connection in server.incoming().flatten() {
            let _ = connection.read(&mut [0; 1024]);
            taken
                .lock()
                .expect("connections")
                .iter_mut()
                .for_each(|open| open.push(connection.try_clone()));
        }
    });
    let harness = Harness::new();
    let settings = Settings {
        hub_endpoint: Some(endpoint),
        ..Settings::default()
    };
    harness
        .app
        .set_settings(settings)
        .await
        .expect("a mirror on this machine");
    let asked: Vec<_> = (0..40)
        .map(|at| {
            let app = harness.app.clone();
            tokio::spawn(async move { drop(app.hub_repository(format!("o/n{at}")).await) })
        })
        .collect();
    let count = || open.lock().expect("connections").as_ref().map_or(0, Vec::len);
    let until = Instant::now() + Duration::from_secs(20);
    while count() < 8 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(count(), 8, "requests at a time");
    asked.iter().for_each(|task| task.abort());
    // The retries fail as well, so that nothing is left of them when the test ends.
    open.lock().expect("connections").take();
}
