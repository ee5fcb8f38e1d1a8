//! Users: who may run work here, and with which groups. Only this machine's own files say.

use nix::unistd::{Gid, Uid, User, getegid, geteuid, getgrouplist};
use serde::{Deserialize, Serialize};
use std::{ffi::CString, fs};

/// Where the least user id of a person is written.
const LOGIN_DEFS: &str = "/etc/login.defs";
const UID_MIN: u32 = 1_000;
const NOBODY: u32 = 65_534;

/// Whom a process runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
    /// What the user's entry says.
    pub account: Account,
}

/// What a user's entry says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Name.
    pub name: String,
    /// Home directory.
    pub home: String,
    /// Shell.
    pub shell: String,
}

/// The least user id of a person.
pub fn least_person() -> u32 {
    let text = fs::read_to_string(LOGIN_DEFS).unwrap_or_default();
    let mut lines = text.lines().map(str::split_whitespace);
    let found = lines.find_map(|mut words| (words.next()? == "UID_MIN").then(|| words.next())?);
    found.and_then(|word| word.parse().ok()).unwrap_or(UID_MIN)
}

/// Whom a job of this user runs as. Its groups come from this machine; `gid` is taken if the user
/// is in it. `root_jobs` says whether root, system users and unknown users may have jobs.
///
/// # Errors
/// The user may have no jobs here; why, and the way out.
pub fn identity(uid: u32, gid: u32, root_jobs: bool) -> Result<Identity, String> {
    let (own_uid, own_gid) = (geteuid(), getegid());
    if !own_uid.is_root() && own_uid.as_raw() != uid {
        return Err(format!(
            "a job of user {uid} can't run: this agent runs as user {own_uid} and starts jobs of \
             that user alone; run it as root to serve several users"
        ));
    }
    if own_uid.is_root() && !root_jobs && (uid < least_person() || uid == NOBODY) {
        return Err(format!(
            "user {uid} is root or a system user and has no jobs here: submit as a person, or \
             start the agent with --allow-root-jobs"
        ));
    }
    let user = User::from_uid(Uid::from_raw(uid))
        .map_err(|e| format!("user {uid} can't be looked up: {e}"))?;
    let Some(user) = user else {
        if own_uid.is_root() && !root_jobs {
            return Err(format!(
                "user {uid} is not known on this node: create the account"
            ));
        }
        let gid = if own_uid.is_root() {
            gid
        } else {
            own_gid.as_raw()
        };
        let account = Account {
            name: uid.to_string(),
            home: "/".into(),
            shell: "/bin/sh".into(),
        };
        return Ok(Identity {
            uid,
            gid,
            groups: vec![gid],
            account,
        });
    };
    let name = CString::new(user.name.as_str()).map_err(|e| e.to_string())?;
    let groups = getgrouplist(&name, user.gid)
        .map_err(|e| format!("groups of user {uid} can't be looked up: {e}"))?;
    let groups: Vec<u32> = groups.into_iter().map(Gid::as_raw).collect();
    let gid = if !own_uid.is_root() {
        own_gid.as_raw()
    } else if groups.contains(&gid) {
        gid
    } else {
        user.gid.as_raw()
    };
    let account = Account {
        name: user.name,
        home: user.dir.to_string_lossy().into_owned(),
        shell: user.shell.to_string_lossy().into_owned(),
    };
    Ok(Identity {
        uid,
        gid,
        groups,
        account,
    })
}
