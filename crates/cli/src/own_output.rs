//! Standard output for one kind of message alone.
//!
//! A graphics driver or a library may print at any time. In a worker such a line would stand between two messages, or within one. So
//! what was standard output becomes a file that this program alone knows, and standard output becomes standard error, which is a log.

use std::fs::File;
use std::io;

/// Gives what standard output was. From then on what is printed goes to standard error.
///
/// # Errors
/// The system does not allow it.
pub fn take() -> io::Result<File> {
    let own = duplicate()?;
    redirect()?;
    Ok(own)
}

#[cfg(unix)]
fn duplicate() -> io::Result<File> {
    use std::os::fd::AsFd;
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(windows)]
fn duplicate() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    io::stdout().as_handle().try_clone_to_owned().map(File::from)
}

#[cfg(unix)]
fn redirect() -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let (error, output) = (io::stderr().as_raw_fd(), io::stdout().as_raw_fd());
    // SAFETY: both are open for as long as the process lives; no memory is touched.
    match unsafe { libc::dup2(error, output) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// For the system, and for the C runtime, which drivers share.
#[cfg(windows)]
fn redirect() -> io::Result<()> {
    use std::os::windows::io::AsRawHandle;
    use windows_sys::Win32::System::Console::{STD_OUTPUT_HANDLE, SetStdHandle};
    // SAFETY: the handle is open for as long as the process lives.
    if unsafe { SetStdHandle(STD_OUTPUT_HANDLE, io::stderr().as_raw_handle()) } == 0 {
        return Err(io::Error::last_os_error());
    }
    const OUTPUT: libc::c_int = 1;
    const ERROR: libc::c_int = 2;
    // SAFETY: numbers; no memory is touched. A process without a console may have neither, and then nothing prints through them.
    let _ = unsafe { libc::dup2(ERROR, OUTPUT) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::Command;

    /// Set for the process that loses its standard output.
    const CHILD: &str = "HEARTH_TEST_OWN_OUTPUT";

    #[test]
    fn what_a_library_prints_goes_to_the_log_and_not_between_messages() {
        if std::env::var_os(CHILD).is_some() {
            let mut own = take().unwrap();
            own.write_all(b"first message\n").unwrap();
            as_a_library("printed by a driver\n");
            own.write_all(b"second message\n").unwrap();
            std::process::exit(0);
        }
        let name = "own_output::tests::what_a_library_prints_goes_to_the_log_and_not_between_messages";
        let said = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let (output, log) = (
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr),
        );
        assert!(output.ends_with("first message\nsecond message\n"), "{output}");
        assert!(
            !output.contains("driver") && log.contains("printed by a driver\n"),
            "{log}"
        );
    }

    #[cfg(unix)]
    fn as_a_library(text: &str) {
        // SAFETY: the memory is that of a text that is there.
        unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
    }

    #[cfg(not(unix))]
    fn as_a_library(text: &str) {
        print!("{text}");
        io::stdout().flush().unwrap();
    }
}
