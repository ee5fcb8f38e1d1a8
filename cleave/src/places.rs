//! Where a server keeps its things, and where its clients look for it.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The variable that names a server's socket.
pub const SOCKET: &str = "CLEAVE_SOCKET";
/// The socket of the server of the whole machine.
pub const MACHINE_SOCKET: &str = "/run/cleave/cleave.sock";
/// Where the server of the whole machine keeps its state.
const MACHINE_DIRECTORY: &str = "/var/lib/cleave";
/// Bytes of a socket's path at most: `sun_path` less the final zero.
const LONGEST_SOCKET: usize = 107;

/// What the defaults depend on.
pub struct Person {
    /// Whether the process is root's.
    pub root: bool,
    /// `$HOME`.
    pub home: Option<PathBuf>,
    /// `$XDG_STATE_HOME`.
    pub state: Option<PathBuf>,
    /// `$XDG_RUNTIME_DIR`.
    pub runtime: Option<PathBuf>,
}

impl Person {
    /// Whoever runs this process.
    pub fn here() -> Self {
        let path = |name| {
            let path = env::var_os(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        Self {
            root: rustix::process::geteuid().is_root(),
            home: path("HOME"),
            state: path("XDG_STATE_HOME"),
            runtime: path("XDG_RUNTIME_DIR"),
        }
    }

    /// Where their server keeps its state.
    pub fn directory(&self) -> anyhow::Result<PathBuf> {
        if self.root {
            return Ok(MACHINE_DIRECTORY.into());
        }
        let home = || Some(self.home.as_ref()?.join(".local/state"));
        let state = self.state.clone().or_else(home);
        let state = state.map(|state| state.join("cleave"));
        state
            .ok_or_else(|| anyhow::anyhow!("there is no $HOME: say where to keep state with --dir"))
    }

    /// Where their server listens.
    pub fn socket(&self) -> anyhow::Result<PathBuf> {
        if self.root {
            return Ok(MACHINE_SOCKET.into());
        }
        match &self.runtime {
            Some(runtime) => Ok(runtime.join("cleave/cleave.sock")),
            None => Ok(self.directory()?.join("cleave.sock")),
        }
    }
}

/// Where a client looks: what it is told, then the user's own server, then the machine's.
pub fn find_socket(given: Option<&Path>) -> PathBuf {
    if let Some(path) = given {
        return path.into();
    }
    if let Some(path) = env::var_os(SOCKET).filter(|path| !path.is_empty()) {
        return path.into();
    }
    let machine = PathBuf::from(MACHINE_SOCKET);
    match Person::here().socket() {
        Ok(own) if own.exists() || !machine.exists() => own,
        _ => machine,
    }
}

/// Whether a socket can have this path.
pub fn check_socket(path: &Path) -> anyhow::Result<()> {
    let length = path.as_os_str().len();
    anyhow::ensure!(
        length <= LONGEST_SOCKET,
        "{}: {length} bytes, and the path of a socket has {LONGEST_SOCKET} at most: \
         choose a shorter --dir or --socket",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_follow_the_person() {
        let path = |text: &str| Some(PathBuf::from(text));
        let person = |root, state, runtime| Person {
            root,
            home: path("/h"),
            state,
            runtime,
        };
        let cases = [
            (
                person(true, None, path("/run/user/0")),
                "/var/lib/cleave",
                MACHINE_SOCKET,
            ),
            (
                person(false, None, None),
                "/h/.local/state/cleave",
                "/h/.local/state/cleave/cleave.sock",
            ),
            (
                person(false, path("/s"), path("/r")),
                "/s/cleave",
                "/r/cleave/cleave.sock",
            ),
        ];
        for (person, directory, socket) in cases {
            assert_eq!(person.directory().unwrap(), Path::new(directory));
            assert_eq!(person.socket().unwrap(), Path::new(socket));
        }
        let nobody = Person {
            root: false,
            home: None,
            state: None,
            runtime: None,
        };
        assert!(
            nobody
                .directory()
                .unwrap_err()
                .to_string()
                .contains("--dir")
        );
        assert!(check_socket(Path::new(&"x".repeat(107))).is_ok());
        assert!(check_socket(Path::new(&"x".repeat(108))).is_err());
    }
}
