//! The home of one attempt: a directory with its lock, its socket, its exit file and its output.
//!
//! The lock is held by the attempt's shim for as long as that lives; the agent takes it before the
//! shim exists and passes it on, so there is no moment in between. The exit file is there if and
//! only if the attempt has ended with everything it started.

use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::{
        fd::AsRawFd,
        unix::{
            fs::{DirBuilderExt, OpenOptionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
};

/// Differs after each start of the machine.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The home of one attempt.
#[derive(Clone, Debug)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// The home with this number under an agent's directory.
    pub fn of(dir: &Path, serial: u64) -> Self {
        Self::at(all(dir).join(serial.to_string()))
    }

    /// The home at a path.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it, empty, and takes its lock.
    pub fn create(&self) -> io::Result<File> {
        match fs::remove_dir_all(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)?;
        let lock = private(&self.path.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(lock)
    }

    /// Whether a shim lives here.
    pub fn is_alive(&self) -> bool {
        let Ok(lock) = File::open(self.path.join("lock")) else {
            return false;
        };
        flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
    }

    /// Waits until no shim lives here any more.
    pub fn await_end(&self) {
        if let Ok(lock) = File::open(self.path.join("lock")) {
            while flock(&lock, FlockOperation::LockExclusive) == Err(rustix::io::Errno::INTR) {}
        }
    }

    /// Opens its socket. Paths of sockets are short, so it is reached through the directory.
    pub fn listen(&self) -> io::Result<UnixListener> {
        let dir = File::open(&self.path)?;
        UnixListener::bind(socket(&dir))
    }

    /// Speaks to the shim.
    pub fn connect(&self) -> io::Result<UnixStream> {
        let dir = File::open(&self.path)?;
        UnixStream::connect(socket(&dir))
    }

    /// The exit code, once all is over.
    pub fn exit_code(&self) -> Option<i32> {
        let text = fs::read_to_string(self.path.join("exit")).ok()?;
        text.trim().parse().ok()
    }

    /// Writes the exit code so that it is there whole or not at all.
    pub fn write_exit(&self, code: i32) -> io::Result<()> {
        let new = self.path.join("exit.new");
        let mut file = private(&new)?;
        writeln!(file, "{code}")?;
        file.sync_all()?;
        fs::rename(new, self.path.join("exit"))?;
        File::open(&self.path)?.sync_all()
    }

    /// A variable by which the processes of this attempt are known among all of the machine.
    pub fn mark(&self) -> (String, String) {
        ("CLEAVE_HOME".into(), self.path.display().to_string())
    }

    /// Writes down who leads the job's session, for whoever cleans up after a shim that was killed.
    pub fn write_session(&self, pid: i32) -> io::Result<()> {
        let boot = fs::read_to_string(BOOT)?;
        write!(private(&self.path.join("session"))?, "{pid} {boot}")
    }

    /// Who led the job's session, unless the machine was restarted since.
    pub fn session(&self) -> Option<i32> {
        let text = fs::read_to_string(self.path.join("session")).ok()?;
        let (pid, boot) = text.split_once(' ')?;
        (fs::read_to_string(BOOT).ok()? == boot).then(|| pid.parse().ok())?
    }

    /// Where the shim's task is until the shim has it.
    pub fn task(&self) -> PathBuf {
        self.path.join("task")
    }

    /// Where the shim's own last words go.
    pub fn trouble(&self) -> PathBuf {
        self.path.join("trouble")
    }

    /// Bytes of everything in it.
    pub fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let sizes = entries.filter_map(|entry| entry.metadata().ok());
        sizes.map(|data| data.len()).sum()
    }
}

/// Where all homes of an agent are.
pub fn all(dir: &Path) -> PathBuf {
    dir.join("a")
}

/// A new or emptied file that only its owner can read.
pub fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

fn socket(dir: &File) -> String {
    format!("/proc/self/fd/{}/sock", dir.as_raw_fd())
}
