//! Who is let in, what they may say, and terminals.

mod site;

use cleave_model::{
    action::Failure,
    observation::{Exit, WorkerState},
};
use cleave_wire::{
    agent::{Open, PROTOCOL, Said},
    frame::{self, Frame},
    job::Size,
    stream::{Down, Up},
};
use rustix::{process::Uid, thread::set_thread_res_uid};
use site::{PATIENCE, Site, binary, script, shims, wait};
use std::sync::Arc;
use std::{
    fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::{
        fs::{PermissionsExt, chown},
        net::UnixStream,
    },
    thread,
};

const FAST: [&str; 4] = ["--sim", "1xA100-80GB", "--sim-speed", "0"];
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What the agent says to a user who opens a connection.
fn greeted(site: &Site, uid: u32, open: &Open) -> Said {
    thread::scope(|scope| {
        let asked = scope.spawn(|| {
            // Of this thread alone, which ends here.
            let uid = Uid::from_raw(uid);
            set_thread_res_uid(uid, uid, uid).unwrap();
            let mut stream = UnixStream::connect(site.socket()).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            // One who is not let in may find the door closed already.
            let _ = frame::write(&mut stream, &Frame::message(open));
            frame::read(&mut stream).unwrap().unwrap().parse().unwrap()
        });
        asked.join().unwrap()
    })
}

#[test]
fn only_some_may_speak_to_it() {
    if !is_root() {
        println!("skipped: it takes root to be several users");
        return;
    }
    let control = Open::Control(PROTOCOL);
    let site = Site::new(&[&FAST[..], &["--control-uid", "1234"]].concat());
    let mode = fs::metadata(site.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    assert!(matches!(greeted(&site, 1234, &control), Said::Welcome(_)));
    fs::set_permissions(site.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    for open in [&control, &Open::Attach(site::id("job", 1))] {
        match greeted(&site, NOBODY, open) {
            Said::Refused(why) => assert!(why.contains("65534"), "{why}"),
            other => panic!("let in: {other:?}"),
        }
    }
    assert!(matches!(greeted(&site, 0, &control), Said::Welcome(_)));
    match greeted(&site, 0, &Open::Control(PROTOCOL + 1)) {
        Said::Refused(why) => assert!(why.contains("protocol"), "{why}"),
        other => panic!("let in: {other:?}"),
    }
    let plain = Site::new(&FAST);
    let mode = fs::metadata(plain.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Whatever is sent ends that connection at most.
#[test]
fn noise_does_not_disturb_it() {
    let mut site = Site::new(&FAST);
    let id = site.place("job", 1, vec![], script("sleep 1000"));
    site.running(&id);
    let open = Frame::message(&Open::Control(PROTOCOL)).bytes();
    let attach = Frame::message(&Open::Attach(id.clone())).bytes();
    let long = [&u32::MAX.to_le_bytes()[..], b"\0"].concat();
    let cases: Vec<Vec<u8>> = vec![
        vec![],
        vec![0],
        vec![0; 100],
        long.clone(),
        vec![5, 0, 0, 0, 9, 1, 2, 3, 4],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        [&[200, 0, 0, 0, 0], &b"[".repeat(199)[..]].concat(),
        open[..open.len() - 1].to_vec(),
        [&attach[..], &long].concat(),
        [&attach[..], b"\x02\0\0\0\0{"].concat(),
        [&attach[..], &Frame::message(&Up::Signal(9)).bytes()].concat(),
        [&attach[..], &Frame::message(&Up::Signal(-9)).bytes()].concat(),
    ];
    for case in cases {
        let mut stream = UnixStream::connect(site.socket()).unwrap();
        let _ = stream.write_all(&case);
        let _ = stream.shutdown(Shutdown::Write);
        if case.starts_with(&attach) {
            continue;
        }
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // What was not read is answered by a reset.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    // More than it takes at a time, and none of them says a word.
    let silent: Vec<_> = (0..300)
        .map(|_| UnixStream::connect(site.socket()))
        .collect();
    assert!(site.hear(), "the control link lasts");
    drop(silent);
    wait("room", || {
        let mut client = site.logs(&id, None, false);
        client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let answer = frame::read(&mut client.stream).ok()??;
        (answer.parse() == Ok(Down::End(None))).then_some(())
    });
    assert_eq!(site.state(&id), Some(WorkerState::Running));
    // A message that makes no sense ends the link, and the next one finds all as it was.
    let mut stream = UnixStream::connect(site.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(&[&open[..], b"\x03\0\0\0\0{}"].concat())
        .unwrap();
    let mut last = None;
    while let Ok(Some(frame)) = frame::read(&mut stream) {
        last = Some(frame.parse::<Said>().unwrap());
    }
    assert!(matches!(last, Some(Said::Refused(_))), "{last:?}");
    assert!(site.connect());
    site.evict(&id, 0);
    assert_eq!(site.over(&id), WorkerState::Freed(Exit::Evicted));
}

/// A newer control plane ends the older one's link.
#[test]
fn there_is_one_control_link() {
    let mut site = Site::new(&FAST);
    let mut newer = UnixStream::connect(site.socket()).unwrap();
    frame::write(&mut newer, &Frame::message(&Open::Control(PROTOCOL))).unwrap();
    while site.hear() {}
    newer.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(frame::read(&mut newer).unwrap().is_some());
}

#[test]
fn a_terminal_can_be_attached_to() {
    let mut site = Site::new(&FAST);
    let mut job = script(
        "trap 'echo interrupted; exit 8' INT; tty; stty size; while read line; do case $line in \
         size) stty size;; *) echo \"<$line>\";; esac; done; echo at its end; \
         while :; do sleep 0.02; done",
    );
    Arc::make_mut(&mut job.run).terminal = Some(Size {
        rows: 24,
        columns: 80,
    });
    let id = site.place("shell", 1, vec![], job);
    site.running(&id);
    let mut client = site.open(&Open::Attach(id.clone()));
    client.until("24 80");
    assert!(client.text().contains("/dev/pts/"), "{}", client.text());
    client.send(b"hello\n");
    client.until("<hello>");
    let up = |client: &mut site::Client, up: Up| {
        frame::write(&mut client.stream, &Frame::message(&up)).unwrap();
    };
    up(
        &mut client,
        Up::Resize(Size {
            rows: 30,
            columns: 101,
        }),
    );
    client.send(b"size\n");
    client.until("30 101");
    // Another agent, another client: the terminal is the shim's.
    drop(client);
    site.kill();
    site.start(&[]);
    site.connect();
    let mut client = site.open(&Open::Attach(id.clone()));
    client.until("30 101");
    client.send(b"again\n");
    client.until("<again>");
    up(&mut client, Up::Signal(9));
    up(&mut client, Up::EndOfInput);
    client.until("at its end");
    client.send(&[3]);
    client.finish();
    assert!(
        client.text().ends_with("interrupted\r\n"),
        "{}",
        client.text()
    );
    assert_eq!(client.end, Some(Down::End(Some(8))));
    assert_eq!(site.over(&id), WorkerState::Freed(Exit::Error(8)));
    assert!(client.err.is_empty());
}

/// Someone attached to a job without a terminal sees it, and may signal it.
#[test]
fn a_job_without_a_terminal_can_be_seen() {
    let mut site = Site::new(&FAST);
    let text = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.02; done";
    let id = site.place("job", 1, vec![], script(text));
    site.running(&id);
    let mut client = site.open(&Open::Attach(id.clone()));
    client.until("ready");
    client.send(b"nobody reads this");
    frame::write(&mut client.stream, &Frame::message(&Up::Signal(2))).unwrap();
    client.finish();
    assert!(client.text().contains("caught"));
    assert_eq!(client.end, Some(Down::End(Some(5))));
}

/// A follower sees output while the job runs; `tail` leaves out what was before.
#[test]
fn a_follower_sees_output_as_it_comes() {
    let mut site = Site::new(&FAST);
    let go = site.dir.join("go");
    let text = format!(
        "echo one; echo two; while [ ! -e {} ]; do sleep 0.02; done; echo three",
        go.display()
    );
    let id = site.place("job", 1, vec![], script(&text));
    site.running(&id);
    let mut follower = site.logs(&id, None, true);
    follower.until("two\n");
    let mut late = site.logs(&id, Some(1), true);
    late.until("two\n");
    let mut now = site.logs(&id, None, false);
    now.finish();
    assert_eq!(
        (now.text(), now.end),
        ("one\ntwo\n".into(), Some(Down::End(None)))
    );
    fs::write(&go, "").unwrap();
    follower.finish();
    late.finish();
    assert_eq!(follower.text(), "one\ntwo\nthree\n");
    assert_eq!(late.text(), "two\nthree\n");
    let other = site.written(&site::id("other", 1));
    assert!(matches!(other.end, Some(Down::Refused(_))));
}

/// Root's agent runs a job wholly as its user.
#[test]
fn a_job_is_wholly_its_users() {
    if !is_root() {
        println!("skipped: it takes root to be several users");
        return;
    }
    let mut site = Site::new(&FAST);
    let mut job = script(
        "id -u; id -g; id -G; grep -E 'Cap(Eff|Prm)|Groups' /proc/self/status; id -un; \
         cat /etc/shadow",
    );
    (job.uid, job.gid) = (NOBODY, 0);
    let id = site.place("nobody", 1, vec![], job.clone());
    assert_eq!(site.over(&id), WorkerState::Freed(Exit::Error(1)));
    let written = site.written(&id);
    let lines: Vec<String> = written
        .text()
        .lines()
        .map(|line| line.replace(['\t', ' '], ""))
        .collect();
    let none = "0000000000000000";
    let wanted = [
        "65534",
        "65534",
        "65534",
        "Groups:65534",
        &format!("CapPrm:{none}"),
        &format!("CapEff:{none}"),
        "nobody",
    ];
    assert_eq!(lines, wanted, "its own group, as it is not in root's");
    assert!(String::from_utf8_lossy(&written.err).contains("Permission denied"));
    // A user that nobody knows has the group that was said.
    job.uid = 54_321;
    job.gid = 54_322;
    Arc::make_mut(&mut job.run).argv[2] = "id -u; id -g; id -G; echo $HOME".into();
    let id = site.place("unknown", 1, vec![], job);
    assert_eq!(site.over(&id), WorkerState::Freed(Exit::Done));
    assert_eq!(site.written(&id).text(), "54321\n54322\n54322\n/\n");
}

/// An agent that is not root runs jobs of its own user, and says what it can't do.
#[test]
fn an_agent_that_is_not_root_serves_its_user() {
    if !is_root() {
        println!("skipped: it takes root to be several users");
        return;
    }
    let mut site = Site::idle(&FAST);
    chown(&site.dir, Some(NOBODY), Some(NOBODY)).unwrap();
    let copy = site.dir.join("cleave-node");
    fs::copy(binary(), &copy).unwrap();
    let copy = copy.to_str().unwrap();
    let ids = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    site.start_as(&[&["setpriv"], &ids[..]].concat(), copy);
    assert!(site.connect());
    let welcome = site.welcome.clone().unwrap();
    assert_eq!(welcome.uid, NOBODY);
    assert!(
        welcome
            .notes
            .iter()
            .any(|note| note.contains("only user 65534"))
    );
    let foreign = site.place("foreign", 1, vec![], script("exit 0"));
    assert_eq!(site.over(&foreign), WorkerState::Failed(Failure::Start));
    assert!(site.notes.pop().unwrap().text.contains("run it as root"));
    let mut job = script("id -u; id -g; umask; (setsid sleep 77 &)\n exit 3");
    (job.uid, job.gid) = (NOBODY, NOBODY);
    let own = site.place("own", 1, vec![site::slice(0, "1g.10gb", 0)], job);
    assert_eq!(
        site.over(&own),
        WorkerState::Freed(Exit::Error(3)),
        "{:?}",
        site.notes
    );
    assert_eq!(site.written(&own).text(), "65534\n65534\n0022\n");
    assert!(shims(&site.dir).is_empty());
    assert_eq!(site.instances(), [0]);
}
