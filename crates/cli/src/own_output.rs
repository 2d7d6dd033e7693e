//! A private copy of standard output for messages.
//!
//! A graphics driver or a library may print to standard output at any time. In a worker this would
//! corrupt the messages. So standard output is duplicated into a private file, and file descriptor
//! 1 is redirected to standard error, which is the log.

use std::fs::File;
use std::io;

/// Returns the original standard output, and redirects later output to standard error.
///
/// # Errors
/// A system call failed.
pub fn take() -> io::Result<File> {
    let output = duplicate()?;
    redirect()?;
    Ok(output)
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
    // SAFETY: both descriptors stay open for the process's lifetime; no memory is accessed.
    match unsafe { libc::dup2(error, output) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Redirects both the Win32 handle and the C runtime's descriptor, which drivers use.
#[cfg(windows)]
fn redirect() -> io::Result<()> {
    use std::os::windows::io::AsRawHandle;
    use windows_sys::Win32::System::Console::{STD_OUTPUT_HANDLE, SetStdHandle};
    // SAFETY: the handle stays open for the process's lifetime.
    if unsafe { SetStdHandle(STD_OUTPUT_HANDLE, io::stderr().as_raw_handle()) } == 0 {
        return Err(io::Error::last_os_error());
    }
    const OUTPUT: libc::c_int = 1;
    const ERROR: libc::c_int = 2;
    // SAFETY: the arguments are integers; no memory is accessed. The call fails in a process
    // without a console, where these descriptors have no output.
    let _ = unsafe { libc::dup2(ERROR, OUTPUT) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::Command;

    /// Environment variable of the child process, which redirects its standard output.
    const CHILD: &str = "HEARTH_TEST_OWN_OUTPUT";

    #[test]
    fn output_of_libraries_goes_to_the_log() {
        if std::env::var_os(CHILD).is_some() {
            let mut output = take().unwrap();
            output.write_all(b"first message\n").unwrap();
            print_as_library("printed by a driver\n");
            output.write_all(b"second message\n").unwrap();
            std::process::exit(0);
        }
        let name = "own_output::tests::output_of_libraries_goes_to_the_log";
        let child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&child.stdout);
        let log = String::from_utf8_lossy(&child.stderr);
        assert!(output.ends_with("first message\nsecond message\n"), "{output}");
        assert!(!output.contains("driver"), "{output}");
        assert!(log.contains("printed by a driver\n"), "{log}");
    }

    #[cfg(unix)]
    fn print_as_library(text: &str) {
        // SAFETY: pointer and length belong to a live `&str`.
        unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
    }

    #[cfg(not(unix))]
    fn print_as_library(text: &str) {
        print!("{text}");
        io::stdout().flush().unwrap();
    }
}
