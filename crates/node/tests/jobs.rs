//! Jobs as the agent runs them: codes, surroundings, output, and how they are ended.

mod site;

use cleave_model::{
    action::Failure,
    lease::{Share, Sharing, Slice},
    observation::{Exit, WorkerState},
};
use cleave_wire::{
    job::{Bounds, Job, Limit},
    stream::Down,
};
use site::{Site, binary, processes, script, slice, wait};
use std::fs;
use std::sync::Arc;

const FAST: [&str; 4] = ["--sim", "2xA100-80GB", "--sim-speed", "0"];

/// Every way in which a job ends by itself, and the one line of those that never ran.
#[test]
fn a_job_ends_with_its_code() {
    let mut site = Site::new(&FAST);
    let unreadable = site.dir.join("plain");
    fs::write(&unreadable, "no program").unwrap();
    let path = unreadable.to_str().unwrap();
    let command = |argv: &[&str]| {
        let mut job = script("");
        Arc::make_mut(&mut job.run).argv = argv.iter().map(|text| text.to_string()).collect();
        job
    };
    let in_directory = |directory: &str| {
        let mut job = script("exit 0");
        Arc::make_mut(&mut job.run).directory = directory.into();
        job
    };
    let none = "No such file or directory";
    let denied = "Permission denied";
    let cases: Vec<(Job, i32, String)> = vec![
        (script("exit 0"), 0, String::new()),
        (script("exit 3"), 3, String::new()),
        (script("kill -9 $$"), 137, String::new()),
        (script("kill -15 $$"), 143, String::new()),
        (
            command(&["no-such-command"]),
            127,
            format!("cleave: cannot run `no-such-command`: {none}\n"),
        ),
        (
            command(&["/no/such"]),
            127,
            format!("cleave: cannot run `/no/such`: {none}\n"),
        ),
        (
            command(&[path]),
            126,
            format!("cleave: cannot run `{path}`: {denied}\n"),
        ),
        (
            in_directory("/no/such"),
            126,
            format!("cleave: cannot enter `/no/such`: {none}\n"),
        ),
        (
            in_directory(path),
            126,
            format!("cleave: cannot enter `{path}`: Not a directory\n"),
        ),
    ];
    for (at, (job, code, error)) in cases.into_iter().enumerate() {
        let argv = job.run.argv.clone();
        let id = site.place(&format!("job-{at}"), 1, vec![slice(0, "1g.10gb", 0)], job);
        let exit = if code == 0 {
            Exit::Done
        } else {
            Exit::Error(code)
        };
        assert_eq!(site.over(&id), WorkerState::Freed(exit), "{argv:?}");
        let written = site.written(&id);
        assert_eq!(String::from_utf8_lossy(&written.err), error, "{argv:?}");
        assert_eq!(written.end, Some(Down::End(Some(code))), "{argv:?}");
        site.forget(&id);
        assert!(site.forgotten(&id));
        assert_eq!(
            site.written(&id).end,
            Some(Down::End(Some(code))),
            "kept after a forget"
        );
    }
    assert_eq!(site.instances(), [0, 0], "nothing is left cut");
}

/// What is asked for is what the job finds.
#[test]
fn a_job_finds_its_surroundings() {
    let mut site = Site::new(&FAST);
    let directory = site.dir.to_str().unwrap().to_string();
    let mut job = script(
        "pwd; umask; ulimit -n; ulimit -Hn; ulimit -c; echo \"$OWN\"; id -u; cat /proc/self/stat | \
         cut -d' ' -f6; echo $$; ls /proc/self/fd | wc -l; readlink /proc/self/fd/0; \
         grep SigIgn /proc/self/status; env | grep -E 'CLEAVE|CUDA|HOME|USER' | sort",
    );
    job.workers = 3;
    job.array = Some(7);
    Arc::make_mut(&mut job.run).directory = directory.clone();
    Arc::make_mut(&mut job.run).umask = 0o027;
    Arc::make_mut(&mut job.run)
        .env
        .insert("OWN".into(), "a b\n\"c\"".into());
    let bounds = |soft, hard| Bounds {
        soft: Some(soft),
        hard: Some(hard),
    };
    Arc::make_mut(&mut job.run)
        .limits
        .insert(Limit::OpenFiles, bounds(50, 60));
    Arc::make_mut(&mut job.run)
        .limits
        .insert(Limit::Core, bounds(0, 0));
    let id = site.place("job", 1, vec![slice(1, "2g.20gb", 2)], job);
    assert_eq!(site.over(&id), WorkerState::Freed(Exit::Done));
    let text = site.written(&id).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        &lines[..7],
        [&directory, "0027", "50", "60", "0", "a b", "\"c\""],
        "{text}"
    );
    assert_eq!(lines[7], "0");
    assert_eq!(lines[8], lines[9], "it leads a session: {text}");
    // `ls` has one more for the directory that it lists.
    assert_eq!(&lines[10..12], ["4", "/dev/null"], "{text}");
    // 32 and up are the C library's own business.
    let ignored = lines[12].split_whitespace().last().expect("a mask");
    let ignored = u64::from_str_radix(ignored, 16).expect("a mask");
    assert_eq!(ignored & 0x7fff_ffff, 0, "{text}");
    let home = lines.iter().find(|line| line.starts_with("CLEAVE_HOME=/"));
    let wanted = [
        "CLEAVE_ARRAY_INDEX=7",
        "CLEAVE_ATTEMPT=1",
        home.expect("a home"),
        "CLEAVE_JOB=job",
        "CLEAVE_NODE=n0",
        "CLEAVE_SIMULATED=1",
        "CLEAVE_WORKER=0",
        "CLEAVE_WORKERS=3",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES=MIG-n0-1-0",
        "HOME=/root",
        "USER=root",
    ];
    assert_eq!(&lines[13..], wanted, "{text}");
}

/// What a job is told of its GPUs: an instance, shares, a whole GPU, none.
#[test]
fn a_job_finds_its_gpus() {
    let mut site = Site::new(&FAST);
    let whole = |gpu| Slice {
        gpu,
        instance: None,
        share: None,
    };
    let share = |compute, memory_mib| {
        let by = Sharing::Mps;
        Some(Share {
            compute,
            memory_mib,
            by,
        })
    };
    let shared = Slice {
        share: share(210_000, 20_480),
        ..whole(1)
    };
    let within = Slice {
        share: share(60_000, 5_120),
        ..slice(0, "1g.10gb", 0)
    };
    let cases = [
        (vec![], "[] [-] [-]"),
        (vec![whole(1)], "[GPU-n0-1] [-] [-]"),
        (vec![whole(1), whole(0)], "[GPU-n0-1,GPU-n0-0] [-] [-]"),
        (vec![shared], "[GPU-n0-1] [20480] [25]"),
        (vec![within], "[MIG-n0-0-0] [5120] [7]"),
        (
            vec![slice(0, "1g.10gb", 0), slice(0, "2g.20gb", 2)],
            "[MIG-n0-0-1,MIG-n0-0-2] [-] [-]",
        ),
    ];
    let text = "echo \"[$CUDA_VISIBLE_DEVICES] [${CLEAVE_GPU_MEMORY_MIB--}] \
                [${CLEAVE_GPU_COMPUTE_PERCENT--}]\"";
    for (at, (slices, wanted)) in cases.into_iter().enumerate() {
        let id = site.place(&format!("job-{at}"), 1, slices, script(text));
        assert_eq!(site.over(&id), WorkerState::Freed(Exit::Done));
        assert_eq!(site.written(&id).text().trim(), wanted);
    }
}

/// Output comes back byte for byte, each stream by itself.
#[test]
fn output_is_kept_exactly() {
    let mut site = Site::new(&FAST);
    let random = "head -c 3000000 /dev/urandom";
    let text = format!("{random} | tee out; {random} | tee err >&2; exit 5");
    let mut job = script(&text);
    Arc::make_mut(&mut job.run).directory = site.dir.to_str().unwrap().into();
    let id = site.place("bytes", 1, vec![], job);
    let mut follower = site.logs(&id, None, true);
    assert_eq!(site.over(&id), WorkerState::Freed(Exit::Error(5)));
    follower.finish();
    for client in [follower, site.written(&id)] {
        for (name, sent) in [("out", &client.out), ("err", &client.err)] {
            let wanted = fs::read(site.dir.join(name)).unwrap();
            assert_eq!(sent.len(), wanted.len(), "{name}; {:?}", client.end);
            assert!(*sent == wanted, "{name}");
        }
        assert_eq!((client.gap, client.end), (0, Some(Down::End(Some(5)))));
    }
}

/// Told to leave; ended if it does not; and whatever it started goes with it.
#[test]
fn a_job_is_ended_with_all_it_started() {
    let mut site = Site::new(&FAST);
    let marker = format!("31.{}", std::process::id());
    let there = || processes(|line| line == format!("sleep {marker} ")).len();
    let daemon = format!("(setsid sleep {marker} & setsid setsid sleep {marker} &)");
    let stubborn =
        format!("trap 'echo told' TERM; {daemon}\n echo ready; while :; do sleep 0.05; done");
    let polite = format!(
        "trap 'echo told; exit 0' TERM; {daemon}\n echo ready; while :; do sleep 0.05; done"
    );
    for (name, text, grace_ms, told) in [
        ("polite", &polite, 600_000, true),
        ("stubborn", &stubborn, 300, true),
        ("at-once", &stubborn, 0, false),
    ] {
        let id = site.place(name, 1, vec![slice(0, "1g.10gb", 0)], script(text));
        let mut follower = site.logs(&id, None, true);
        follower.until("ready");
        wait("daemons", || (there() == 2).then_some(()));
        site.evict(&id, grace_ms);
        assert_eq!(site.over(&id), WorkerState::Freed(Exit::Evicted), "{name}");
        assert_eq!(there(), 0, "{name}");
        follower.finish();
        assert!(!told || follower.text().contains("told"), "{name}");
    }
    let id = site.place("leaver", 1, vec![], script(&format!("{daemon}\n exit 4")));
    assert_eq!(site.over(&id), WorkerState::Freed(Exit::Error(4)));
    assert_eq!(there(), 0);
    assert_eq!(site.instances(), [0, 0]);
}

/// What can't be started is said so, and nothing of what it holds is shown.
#[test]
fn what_can_not_be_started_is_told() {
    let mut site = Site::new(&FAST);
    let with = |change: fn(&mut Job)| {
        let mut job = script("exit 0");
        Arc::make_mut(&mut job.run)
            .env
            .insert("TOKEN".into(), "sesame".into());
        change(&mut job);
        job
    };
    let cases: [(Job, &str); 6] = [
        (
            with(|job| Arc::make_mut(&mut job.run).argv.clear()),
            "no command",
        ),
        (
            with(|job| Arc::make_mut(&mut job.run).argv[2] = "sesame\0".into()),
            "argument 2 of the job holds a NUL byte",
        ),
        (
            with(|job| {
                drop(
                    Arc::make_mut(&mut job.run)
                        .env
                        .insert("A=sesame".into(), String::new()),
                )
            }),
            "named by",
        ),
        (
            with(|job| {
                drop(
                    Arc::make_mut(&mut job.run)
                        .env
                        .insert("A".into(), "sesame\0".into()),
                )
            }),
            "variable `A` holds a NUL",
        ),
        (
            with(|job| Arc::make_mut(&mut job.run).directory = "sesame".into()),
            "not an absolute path",
        ),
        (
            with(|job| Arc::make_mut(&mut job.run).directory = "/\0sesame".into()),
            "not an absolute path",
        ),
    ];
    for (at, (job, why)) in cases.into_iter().enumerate() {
        let id = site.place(&format!("bad-{at}"), 1, vec![slice(0, "1g.10gb", 0)], job);
        assert_eq!(site.over(&id), WorkerState::Failed(Failure::Start), "{why}");
        let note = site.notes.pop().expect("a note");
        assert_eq!(note.attempt, Some(id.clone()));
        assert!(note.text.contains(why), "{}", note.text);
        assert!(!note.text.contains("sesame"), "{}", note.text);
        assert!(matches!(site.written(&id).end, Some(Down::Refused(_))));
    }
    let id = site::id("no-job", 1);
    site.order(site::place(&id, vec![]), None);
    assert_eq!(site.over(&id), WorkerState::Failed(Failure::Start));
    assert!(
        site.notes
            .pop()
            .expect("a note")
            .text
            .contains("what to run")
    );
    assert_eq!(site.instances(), [0, 0]);
}

/// Arguments that make no sense end the agent with a reason.
#[test]
fn an_agent_says_why_it_does_not_start() {
    let long = "x".repeat(120);
    let (a, b) = (Site::new(&FAST), Site::idle(&[]));
    let dir = b.dir.to_str().unwrap();
    let other = a.dir.join("agent");
    let agent = ["--name", "n", "--dir", dir, "--socket"];
    let socket = format!("{dir}/s");
    let taken = a.socket();
    let pid = format!("(pid {})", a.pid());
    let cases: Vec<(Vec<&str>, i32, &str)> = vec![
        (vec!["--name"], 2, "--name needs a value"),
        (vec!["--name", "a b"], 2, "is not a name"),
        (vec![], 2, "--name is missing"),
        (vec!["--nope"], 2, "--nope is not known"),
        (vec![&socket], 1, "pass --sim"),
        (vec![&socket, "--sim", "2xA100-81GB"], 1, "A100-80GB"),
        (vec![&socket, "--sim", "A100-80GB"], 1, "COUNTxBOARD"),
        (vec![&socket, "--sim", "0xA100-80GB"], 1, "without GPUs"),
        (vec![&long, "--sim", "1xA100-80GB"], 1, "107 bytes"),
        (
            vec![taken.to_str().unwrap(), "--sim", "1xA100-80GB"],
            1,
            "somebody answers",
        ),
        // Its directory knows by now whose it is.
        (vec![&socket, "--sim", "2xA100-80GB"], 1, "same --sim"),
        (
            vec![&socket, "--sim", "1xA100-80GB", "--name", "other"],
            1,
            "belongs to node n:",
        ),
        (
            vec![
                &socket,
                "--sim",
                "2xA100-80GB",
                "--dir",
                other.to_str().unwrap(),
            ],
            1,
            &pid,
        ),
    ];
    for (arguments, code, why) in cases {
        let mut command = std::process::Command::new(binary());
        if code == 1 {
            command.args(agent);
        }
        let done = command.args(&arguments).output().unwrap();
        let error = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
}
