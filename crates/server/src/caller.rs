//! Who asks, by the credentials of their end of the socket.

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::ffi::CString;

/// Members of this group may touch the jobs of others.
pub const ADMINS: &str = "cleave-admin";

/// Whoever is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Primary group of the process.
    pub gid: u32,
    /// Login name, or the number of a user that has none.
    pub name: String,
    /// Root, the user who runs the server, or a member of [`ADMINS`].
    pub admin: bool,
}

impl Caller {
    /// The user and group that the kernel vouches for. Asks the user database, which may take long.
    pub fn of(uid: u32, gid: u32) -> Self {
        let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        let admin = uid == 0
            || uid == rustix::process::geteuid().as_raw()
            || user.as_ref().is_some_and(is_admin);
        let name = user.map_or_else(|| uid.to_string(), |user| user.name);
        Self {
            uid,
            gid,
            name,
            admin,
        }
    }

    /// Whether they may see and end the jobs of this user.
    pub fn may_touch(&self, uid: u32) -> bool {
        self.admin || self.uid == uid
    }
}

fn is_admin(user: &User) -> bool {
    let Ok(Some(admins)) = Group::from_name(ADMINS) else {
        return false;
    };
    let groups = || -> Option<Vec<Gid>> {
        let name = CString::new(user.name.as_bytes()).ok()?;
        getgrouplist(&name, user.gid).ok()
    };
    groups().is_some_and(|groups| groups.contains(&admins.gid))
}
