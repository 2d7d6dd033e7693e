//! `hearth probe --files`, with failures by file name. The tests of this crate start it; it is not
//! part of Hearth.

use hearth_app::{
    library::probe::{ProbeRequest, ProbeResponse, serve},
    wire::{Problem, ProblemCode},
};
use std::{process::exit, thread, time::Duration};

fn main() {
    assert!(
        std::env::args().skip(1).eq(["probe", "--files"]),
        "it is started like `hearth`"
    );
    let served = serve(std::io::stdin().lock(), std::io::stdout(), act);
    exit(if served.is_ok() { 0 } else { 1 });
}

/// Acts by the file's name, or like a real probe.
fn act(request: &ProbeRequest) -> ProbeResponse {
    let path = request.path();
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("abort") => std::process::abort(),
        #[cfg(unix)]
        // SAFETY: the call ends this process and accesses no memory.
        Some("killed") => unsafe {
            libc::raise(libc::SIGKILL);
            unreachable!("a process does not survive it");
        },
        Some("exit") => std::process::exit(7),
        Some("model-only") if !matches!(request, ProbeRequest::Model { .. }) => std::process::exit(9),
        Some("silence") => std::process::exit(0),
        Some("panic") => panic!("a bug"),
        Some("hang") => loop {
            thread::park();
        },
        Some("late") => {
            thread::sleep(Duration::from_secs(2));
            request.execute()
        }
        Some("greedy") => {
            let mut all = Vec::new();
            // Exceeds the limit in steps.
            while all.len() < 64 {
                all.push(vec![1u8; 256 << 20]);
            }
            let pieces = format!("{} pieces", all.len());
            ProbeResponse::Problem(Problem::detail(ProblemCode::FileInvalid, pieces))
        }
        Some("babble") => {
            println!("a line that is no answer");
            request.execute()
        }
        _ => request.execute(),
    }
}
