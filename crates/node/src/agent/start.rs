//! Starting an attempt: a home, a task in it, and a shim that holds its lock.

use super::{Agent, Running, watch};
use crate::{
    cgroup,
    home::{self, Home},
    store::StoreError,
    task::task,
    users,
};
use cleave_device::hands::Start;
use cleave_wire::job::Job;
use std::{
    fs::File,
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::{net::UnixListener, process::CommandExt},
    },
    process::{Child, Command, Stdio},
};

impl Agent {
    /// Starts an attempt.
    ///
    /// # Errors
    /// The disk. Inside: it can't be started; why.
    pub(super) fn try_start(&mut self, start: &Start) -> Result<Result<(), String>, StoreError> {
        let Some(job) = self.store.job(&start.id)? else {
            return Ok(Err("the order did not say what to run".into()));
        };
        let uid = job.uid;
        let serial = {
            // A reader that knows the home must find that a shim lives there.
            let mut live = self.live.lock();
            let serial = self.store.new_home(&start.id, uid)?;
            live.insert(serial);
            serial
        };
        let home = Home::of(&self.dir, serial);
        let outcome = self.launch(start, job, serial, &home);
        if let Err(why) = outcome {
            self.live.lock().remove(&serial);
            self.devices.detach(serial);
            if let Some(cgroups) = &self.cgroups {
                cgroup::remove(&cgroups.of(serial));
            }
            self.store.drop_homes(&[serial])?;
            // What is left of it is pruned in time.
            let _ = std::fs::remove_dir_all(home.path());
            return Ok(Err(why));
        }
        Ok(Ok(()))
    }

    fn launch(&mut self, start: &Start, job: Job, serial: u64, home: &Home) -> Result<(), String> {
        let uid = job.uid;
        let identity = users::identity(uid, job.gid, self.root_jobs)?;
        let mut task = task(job, start, identity, &self.around)?;
        let (key, value) = home.mark();
        task.run.env.insert(key, value);
        self.devices
            .attach(serial, start)
            .map_err(|e| format!("the attempt can't take hold of its GPUs: {e}"))?;
        let on_disk = |e: io::Error| format!("the attempt can't be started: {e}");
        let lock = home.create().map_err(on_disk)?;
        if let Some(cgroups) = &self.cgroups {
            let hold = &start.hold;
            let made = cgroups.create(serial, hold.cpu_milli, hold.memory_bytes);
            task.cgroup = Some(made.map_err(on_disk)?);
        }
        let cgroup = task.cgroup.clone();
        let text = serde_json::to_vec(&task).map_err(|e| on_disk(e.into()))?;
        home::private(&home.task())
            .and_then(|mut file| file.write_all(&text))
            .map_err(on_disk)?;
        // It can be spoken to before there is anybody, and watched before there is anything to see:
        // whatever fails, fails before there is a process.
        let listener = home.listen().map_err(on_disk)?;
        let shim = watch::greet(home);
        let watched = watch::Watched {
            id: start.id.clone(),
            serial,
            uid,
            home: home.clone(),
            cgroup,
            events: self.events.clone(),
        };
        let give = watched.watch(shim.as_ref()).map_err(on_disk)?;
        let child = spawn(home, lock, listener).map_err(on_disk)?;
        // The thread is there to take it.
        let _ = give.send(child);
        let running = Running { serial, shim };
        self.running.insert(start.id.clone(), running);
        Ok(())
    }
}

/// Starts a shim. The lock goes with it: it is held by whoever has the open file, and nobody else
/// keeps it.
fn spawn(home: &Home, lock: File, listener: UnixListener) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("cleave-node")
        .arg("shim")
        .arg(home.path())
        .stdin(Stdio::from(lock))
        .stdout(Stdio::from(OwnedFd::from(listener)))
        .stderr(Stdio::from(home::private(&home.trouble())?))
        .current_dir("/")
        .spawn()
}
