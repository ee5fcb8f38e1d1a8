//! Pruning: what over attempts wrote is kept for a while, not for ever.

use super::{Agent, Event};
use crate::{
    home::{self, Home},
    store::StoreError,
};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    thread,
    time::{Duration, SystemTime},
};

/// Attempts, bytes and age up to which output is kept.
const COUNT: usize = 10_000;
const BYTES: u64 = 1 << 30;
const AGE: Duration = Duration::from_secs(7 * 24 * 3_600);

impl Agent {
    /// Prunes on a thread of its own, beginning with what is oldest. What the hands still know of
    /// stays.
    pub(super) fn prune(&mut self) -> Result<(), StoreError> {
        let mut wanted: BTreeSet<u64> = self.store.wanted_homes()?.into_iter().collect();
        wanted.extend(self.live.lock().iter());
        let last = self.store.last_home()?;
        let (dir, events) = (self.dir.clone(), self.events.clone());
        let body = move || {
            let gone = prune(&dir, &wanted, last);
            let _ = events.send(Event::Pruned(gone));
        };
        // If no thread can be had now, one can be later.
        let _ = thread::Builder::new().spawn(body);
        Ok(())
    }
}

/// Removes homes up to number `last`; tells which.
fn prune(dir: &Path, wanted: &BTreeSet<u64>, last: u64) -> Vec<u64> {
    let entries = fs::read_dir(home::all(dir)).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut serials: Vec<u64> = numbers.filter(|serial| *serial <= last).collect();
    serials.sort_unstable_by_key(|serial| std::cmp::Reverse(*serial));
    let (mut count, mut bytes) = (0, 0);
    let mut gone = Vec::new();
    for serial in serials {
        let home = Home::of(dir, serial);
        count += 1;
        bytes += home.bytes();
        let changed = fs::metadata(home.path()).and_then(|data| data.modified());
        let age = changed
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok());
        let old = age.is_some_and(|age| age > AGE);
        let surplus = old || count > COUNT || bytes > BYTES;
        if surplus && !wanted.contains(&serial) && fs::remove_dir_all(home.path()).is_ok() {
            gone.push(serial);
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is old goes, unless it is wanted or newer than what was looked at.
    #[test]
    fn old_homes_go() {
        let dir = std::env::temp_dir().join(format!("cleave-prune-{}", std::process::id()));
        for (serial, days) in [(1, 8), (2, 8), (3, 6), (4, 0), (5, 8)] {
            let home = Home::of(&dir, serial);
            fs::create_dir_all(home.path()).unwrap();
            fs::write(home.path().join("log.0"), "text").unwrap();
            let age = Duration::from_secs(days * 24 * 3_600);
            let changed = SystemTime::now() - age;
            let opened = fs::File::open(home.path()).unwrap();
            opened.set_modified(changed).unwrap();
        }
        assert_eq!(prune(&dir, &BTreeSet::from([2]), 4), [1]);
        assert_eq!(fs::read_dir(home::all(&dir)).unwrap().count(), 4);
        fs::remove_dir_all(&dir).unwrap();
    }
}
