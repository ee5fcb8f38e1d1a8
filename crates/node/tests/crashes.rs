//! What survives `kill -9`, wherever it strikes.

mod site;

use cleave_model::{
    message::Order,
    observation::{Exit, WorkerState},
};
use cleave_wire::{job::Job, stream::Down};
use site::{Site, end, id, place, processes, script, shims, slice, wait};
use std::{collections::BTreeMap, fs, path::PathBuf};

const FAST: [&str; 4] = ["--sim", "1xA100-80GB", "--sim-speed", "0"];

/// An agent that dies takes no job along; the next one finds it, or how it ended.
#[test]
fn a_job_outlives_its_agent() {
    let mut site = Site::new(&FAST);
    let go = site.dir.join("go");
    let wait_for_go = format!(
        "echo begun; while [ ! -e {} ]; do sleep 0.02; done; echo done; exit 6",
        go.display()
    );
    for ends_meanwhile in [false, true] {
        let name = format!("job-{ends_meanwhile}");
        let id = site.place(&name, 1, vec![slice(0, "1g.10gb", 0)], script(&wait_for_go));
        site.running(&id);
        let shim = shims(&site.dir);
        assert_eq!(shim.len(), 1);
        site.kill();
        assert_eq!(shims(&site.dir), shim, "untouched");
        if ends_meanwhile {
            fs::write(&go, "").unwrap();
            wait("the end", || shims(&site.dir).is_empty().then_some(()));
        }
        site.start(&[]);
        site.connect();
        if !ends_meanwhile {
            site.running(&id);
            assert_eq!(site.instances(), [1]);
            fs::write(&go, "").unwrap();
        }
        assert_eq!(site.over(&id), WorkerState::Freed(Exit::Error(6)), "{name}");
        let written = site.written(&id);
        assert_eq!(written.text(), "begun\ndone\n");
        assert_eq!(written.end, Some(Down::End(Some(6))));
        assert_eq!(site.instances(), [0]);
        fs::remove_file(&go).unwrap();
    }
}

/// An agent that is told to stop leaves work alone and its socket is gone.
#[test]
fn an_agent_stops_cleanly() {
    let mut site = Site::new(&FAST);
    let id = site.place("job", 1, vec![], script("sleep 1000"));
    site.running(&id);
    let pid = rustix::process::Pid::from_raw(site.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(site.died(), 0);
    assert!(!site.socket().exists());
    assert_eq!(shims(&site.dir).len(), 1);
    site.start(&[]);
    site.connect();
    site.running(&id);
    site.evict(&id, 0);
    assert_eq!(site.over(&id), WorkerState::Freed(Exit::Evicted));
}

/// An attempt whose shim dies is lost, and so is everything that it started.
#[test]
fn an_attempt_without_its_shim_is_lost() {
    let mut site = Site::new(&FAST);
    let marker = format!("32.{}", std::process::id());
    let there = || processes(|line| line == format!("sleep {marker} ")).len();
    let text = format!("(setsid sleep {marker} &)\n sleep {marker}");
    for with_agent in [true, false] {
        let name = format!("job-{with_agent}");
        let id = site.place(&name, 1, vec![slice(0, "1g.10gb", 0)], script(&text));
        let other = site.place(
            &format!("other-{with_agent}"),
            1,
            vec![],
            script("sleep 1000"),
        );
        site.running(&id);
        site.running(&other);
        wait("both", || (there() == 2).then_some(()));
        let of_job = |pid: &i32| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let home = line.split('\0').nth(2).unwrap_or_default().to_string();
            let session = fs::read_to_string(format!("{home}/session")).unwrap();
            let job = session.split(' ').next().unwrap().to_string();
            let env = fs::read(format!("/proc/{job}/environ")).unwrap();
            String::from_utf8_lossy(&env).contains(&format!("CLEAVE_JOB={name}"))
        };
        let shim = shims(&site.dir).into_iter().find(of_job).unwrap();
        if !with_agent {
            site.kill();
        }
        end(shim);
        if !with_agent {
            site.start(&[]);
            site.connect();
        }
        assert_eq!(site.over(&id), WorkerState::Freed(Exit::Lost), "{name}");
        assert_eq!(there(), 0, "{name}");
        assert_eq!(site.written(&id).end, Some(Down::End(None)));
        assert_eq!(
            site.state(&other),
            Some(WorkerState::Running),
            "the other goes on"
        );
        site.evict(&other, 0);
        assert_eq!(site.over(&other), WorkerState::Freed(Exit::Evicted));
        assert_eq!(site.instances(), [0]);
    }
}

/// A control plane that keeps at it: it starts the agent again when that died, says again what was
/// lost, and takes a new attempt where one was.
struct Stubborn<'a> {
    site: &'a mut Site,
    restarts: u32,
    /// Where a job writes that it is there.
    lines: PathBuf,
}

impl Stubborn<'_> {
    fn restart(&mut self) {
        let signal = self.site.died();
        assert_eq!(signal, -9, "it died as it was told to");
        self.restarts += 1;
        self.site.start(&[]);
        self.site.connect();
        self.site.order(Order::Hello, None);
    }

    /// Brings a job to its end; gives the attempt that got there.
    fn run(&mut self, name: &str, job: &Job, evict_after_ms: Option<u64>) -> u32 {
        let (mut attempt, mut evicted, mut reached) = (1, 0, None);
        loop {
            let id = id(name, attempt);
            let alive = match self.site.state(&id) {
                _ if !self.site.heard_all() => self.site.hear(),
                None if reached.is_some() => return reached.unwrap(),
                None => {
                    let slices = vec![slice(0, "2g.20gb", 0)];
                    self.site.order(place(&id, slices), Some(job.clone()))
                }
                Some(WorkerState::Running) if evict_after_ms.is_some() && evicted < attempt => {
                    evicted = attempt;
                    // From here on it does not leave when it is told to.
                    wait("its line", || {
                        let text = fs::read_to_string(&self.lines).ok()?;
                        text.lines().find(|line| *line == attempt.to_string())?;
                        Some(())
                    });
                    self.site.evict(&id, evict_after_ms.unwrap())
                }
                Some(WorkerState::Freed(Exit::Lost) | WorkerState::Failed(_)) => {
                    attempt += 1;
                    true
                }
                Some(WorkerState::Freed(exit)) => {
                    let wanted = evict_after_ms.map_or(Exit::Done, |_| Exit::Evicted);
                    assert_eq!(exit, wanted);
                    reached = Some(attempt);
                    self.site.forget(&id)
                }
                Some(_) => self.site.hear(),
            };
            if !alive {
                // An order to leave may have been lost with the agent.
                evicted = 0;
                self.restart();
            }
        }
    }
}

/// Kills at a place for the first, second, … time until it is not passed so often any more.
fn die_at(place: &str, evicted: bool) {
    for count in 1.. {
        let mut site = Site::idle(&FAST);
        let lines = site.dir.join("lines");
        let line = format!("echo $CLEAVE_ATTEMPT >> {}", lines.display());
        let (text, evict) = if evicted {
            let text = format!("trap '' TERM; {line}; while :; do sleep 0.02; done");
            (text, Some(30))
        } else {
            (line, None)
        };
        let context = format!("{place}:{count}");
        site.start(&[("CLEAVE_DIE_AT", &context)]);
        let mut control = Stubborn {
            site: &mut site,
            restarts: 0,
            lines: lines.clone(),
        };
        if !control.site.connect() {
            control.restart();
        }
        let reached = control.run("job", &script(&text), evict);
        let restarts = control.restarts;
        let mut times = BTreeMap::<u32, u32>::new();
        for attempt in fs::read_to_string(&lines).unwrap_or_default().lines() {
            *times.entry(attempt.parse().unwrap()).or_default() += 1;
        }
        assert!(
            times.values().all(|times| *times == 1),
            "{context}: {times:?}"
        );
        assert!(
            evicted || times.contains_key(&reached),
            "{context}: {times:?}"
        );
        assert_eq!(site.instances(), [0], "{context}");
        wait("no shim", || shims(&site.dir).is_empty().then_some(()));
        if restarts == 0 && !(place.starts_with("shim") && count == 1) {
            // It was not passed so often: all has been seen.
            assert!(count > 1, "{place} is never passed");
            return;
        }
    }
}

#[test]
fn the_agent_dies_when_it_persists() {
    die_at("agent-persist-before", false);
    die_at("agent-persist-after", false);
}

#[test]
fn the_agent_dies_when_it_calls() {
    die_at("agent-call-before", false);
    die_at("agent-call-after", false);
}

#[test]
fn the_agent_dies_when_it_starts_and_ends() {
    for place in ["agent-start-before", "agent-start-after"] {
        die_at(place, false);
    }
    for place in [
        "agent-signal-before",
        "agent-signal-after",
        "agent-kill-before",
        "agent-kill-after",
    ] {
        die_at(place, true);
    }
}

#[test]
fn the_agent_dies_when_it_reports() {
    die_at("agent-report-before", false);
    die_at("agent-report-after", false);
}

#[test]
fn the_shim_dies() {
    for place in [
        "shim-start-before",
        "shim-start-after",
        "shim-exit-before",
        "shim-exit-after",
    ] {
        let mut site = Site::idle(&FAST);
        let lines = site.dir.join("lines");
        let text = format!("echo $CLEAVE_ATTEMPT >> {}", lines.display());
        site.start(&[("CLEAVE_DIE_AT", &format!("{place}:1"))]);
        site.connect();
        let id = site.place("job", 1, vec![slice(0, "2g.20gb", 0)], script(&text));
        let kept = place == "shim-exit-after";
        let exit = if kept { Exit::Done } else { Exit::Lost };
        assert_eq!(site.over(&id), WorkerState::Freed(exit), "{place}");
        let written = fs::read_to_string(&lines).unwrap_or_default();
        let sure = ["shim-exit-before", "shim-exit-after"].contains(&place);
        assert!(
            written == "1\n" || (written.is_empty() && !sure),
            "{place}: {written}"
        );
        assert!(place != "shim-start-before" || written.is_empty());
        assert_eq!(site.instances(), [0], "{place}");
    }
}
