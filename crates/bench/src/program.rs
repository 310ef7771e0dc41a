//! Runs programs to completion, with a time limit.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Limit for each output of a program, in bytes. Output beyond it is discarded.
const MOST_BYTES: u64 = 16 << 20;

/// Runs a program to completion and returns its output. Kills the program's process group if, after `limit`, the program still runs, or a
/// process that it left behind keeps the output open.
///
/// # Errors
/// Returns an error if the program cannot be started, or exceeds the limit.
pub(crate) fn output(command: &mut Command, limit: Duration) -> io::Result<Output> {
    fed(command, Vec::new(), limit)
}

/// Like [`output`]; the program gets `input` on its standard input. It is no error if the program does not read all of it.
///
/// # Errors
/// As [`output`].
pub(crate) fn fed(command: &mut Command, input: Vec<u8>, limit: Duration) -> io::Result<Output> {
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        std::thread::spawn(move || {
            // A program that ends early has closed the pipe; its exit status tells why it ended.
            let _ = pipe.write_all(&input);
        });
    }
    let (out, err) = (read(child.stdout.take()), read(child.stderr.take()));
    let end = Instant::now() + limit;
    let left = || end.saturating_duration_since(Instant::now());
    let texts = out.recv_timeout(left()).and_then(|out| Ok((out, err.recv_timeout(left())?)));
    let status = loop {
        match child.try_wait() {
            Ok(None) if texts.is_ok() && !left().is_zero() => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) | Err(_) => break None,
            Ok(status) => break status,
        }
    };
    if let (Ok((stdout, stderr)), Some(status)) = (texts, status) {
        return Ok(Output { status, stdout: stdout?, stderr: stderr? });
    }
    // The process group has the ID of its first process. The kernel cannot have reused this ID: either the first process is still our
    // child, or another process of the group still holds a pipe.
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("timed out after {limit:?}")))
}

/// Reads a pipe to its end on a separate thread, which sends the bytes to the returned receiver.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.map_or(Ok(()), |mut pipe| {
            pipe.by_ref().take(MOST_BYTES).read_to_end(&mut bytes)?;
            // A program whose output is closed would end early.
            io::copy(&mut pipe, &mut io::sink()).map(drop)
        });
        // After a timeout the receiver is gone.
        let _ = sender.send(read.map(|()| bytes));
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str, limit: Duration) -> io::Result<Output> {
        output(Command::new("/bin/sh").args(["-c", line]), limit)
    }

    #[test]
    fn a_program_with_too_much_output_ends_by_itself() -> io::Result<()> {
        let said = shell("head -c 17000000 /dev/zero && exit 3", Duration::from_secs(60))?;
        assert_eq!((said.stdout.len() as u64, said.status.code()), (MOST_BYTES, Some(3)));
        Ok(())
    }

    #[test]
    fn both_outputs_are_complete() -> io::Result<()> {
        // Each output is larger than a pipe's buffer.
        let said =
            shell("head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2; exit 3", Duration::from_secs(60))?;
        assert_eq!((said.stdout.len(), said.stderr.len(), said.status.code()), (300_000, 200_000, Some(3)));
        assert!(output(&mut Command::new("/nowhere"), Duration::from_secs(1)).is_err());
        Ok(())
    }

    #[test]
    fn a_program_gets_its_input() -> io::Result<()> {
        let fed = |line: &str, bytes| {
            fed(Command::new("/bin/sh").args(["-c", line]), vec![b'x'; bytes], Duration::from_secs(60))
        };
        // The input is larger than a pipe's buffer.
        let said = fed("wc -c", 300_000)?;
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "300000");
        assert_eq!(fed("exit 3", 300_000)?.status.code(), Some(3));
        Ok(())
    }

    #[test]
    fn a_timeout_ends_a_program_with_its_children() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("pid");
        // The second line ends at once, and leaves a background process that holds its output open.
        for line in ["sleep 1000 & echo $! > FILE; wait", "sleep 1000 & echo $! > FILE"] {
            let line = line.replace("FILE", &file.display().to_string());
            let said = shell(&line, Duration::from_millis(500)).map_err(|e| e.to_string());
            assert!(said.is_err_and(|s| s.contains("timed out after 500ms")), "{line}");
            let pid = std::fs::read_to_string(&file)?;
            let ended = || {
                let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
                stat.map_or(true, |s| s.contains(") Z "))
            };
            let end = Instant::now() + Duration::from_secs(10);
            while !ended() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(ended(), "{pid} still runs");
        }
        Ok(())
    }
}
