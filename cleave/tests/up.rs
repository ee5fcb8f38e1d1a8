//! `cleave up` as its users see it: real processes, several people, hostile input.
#![cfg(feature = "up")]
#![expect(clippy::print_stdout, reason = "what is skipped is said")]

mod pool;

use pool::{Pool, Who, is_over};
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    thread,
    time::{Duration, Instant},
};

/// Forty jobs of all kinds for four GPUs.
const MIXED: &str = r#"
cleave: 1
workloads:
  - {name: "whole[0-5]", gpu: 1, command: "sleep 0.2"}
  - {name: "pair[0-1]", gpu: 2, command: "sleep 0.1"}
  - {name: all, gpu: 4, class: training, command: "sleep 0.1"}
  - {name: gang, workers: 3, gpu: 1, command: "test $CLEAVE_WORKERS = 3; sleep 0.1"}
  - {name: "small[0-11]", gpu: 1g.10gb, class: interactive, command: "sleep 0.3"}
  - {name: "half[0-3]", gpu: 3g.40gb, command: "sleep 0.1"}
  - {name: "share[0-3]", gpu: 0.25, isolation: limited, command: "sleep 0.2"}
  - {name: "memory[0-3]", gpu: 12GiB, command: "sleep 0.1"}
  - {name: "plain[0-3]", cpu: 2, memory: 1GiB, command: "true"}
  - name: again
    cpu: 1
    retries: 2
    command: "echo x >> tries; test $(wc -l < tries) = 3"
  - name: seen
    gpu: 1g.10gb
    env: {GREETING: hello}
    command: 'echo "$GREETING $CLEAVE_JOB on $CLEAVE_NODE: $CUDA_VISIBLE_DEVICES"'
"#;

fn up(name: &str, jobs: &str) -> Pool {
    let mut pool = Pool::new(name, jobs);
    pool.start(Who::Agent, None);
    pool.start(Who::Server, None);
    pool.until(false, "the server answers", |pool| {
        pool.phases().is_some() && pool.cleave("gpus").is_some_and(|gpus| gpus.contains("n0"))
    })
    .expect("it begins");
    pool
}

fn all_over(pool: &mut Pool, jobs: usize) {
    pool.until(false, "all over", |pool| {
        pool.phases()
            .is_some_and(|phases| phases.len() == jobs && phases.values().all(|p| is_over(p)))
    })
    .expect("they end");
}

fn json(pool: &Pool, arguments: &str) -> Value {
    let text = pool
        .cleave(&format!("{arguments} --json -"))
        .expect("an answer");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn forty_mixed_jobs_finish() {
    let mut pool = up("mixed", MIXED);
    pool.cleave("submit jobs.yaml").expect("taken");
    all_over(&mut pool, 40);
    let phases = pool.phases().expect("an answer");
    assert!(phases.values().all(|phase| phase == "done"), "{phases:?}");
    let tries = fs::read_to_string(pool.home.join("tries")).expect("it ran");
    assert_eq!(tries.lines().count(), 3, "two retries, then it works");
    let said = pool.cleave("logs seen").expect("its output");
    assert!(said.starts_with("hello seen on n0: MIG-"), "{said}");
    let fleet = json(&pool, "gpus");
    let gpus = fleet["nodes"][0]["gpus"].as_array().expect("GPUs");
    assert!(gpus.iter().all(|gpu| gpu["state"] == "free"), "{fleet}");
    assert_eq!(fleet["nodes"][0]["simulated"], true);
}

/// A second user of this machine, if the test may act as one.
fn other_user() -> Option<u32> {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root can act as somebody else");
    }
    root.then_some(31_337)
}

#[test]
fn people_touch_only_what_is_theirs() {
    let Some(uid) = other_user() else { return };
    let jobs = "cleave: 1\nworkloads:\n  - name: mine\n    cpu: 1\n    \
                env: {SECRET: hunter2}\n    command: 'echo hunter2; sleep 1000'\n";
    let mut pool = up("people", jobs);
    let open = |path: &std::path::Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own file");
    };
    open(&pool.home);
    pool.cleave("submit jobs.yaml").expect("taken");
    pool.until(false, "it runs", |pool| {
        pool.phases()
            .is_some_and(|phases| phases["mine"] == "running")
    })
    .expect("it runs");
    // Where others may not look into the directory of the programs, nobody else can run them.
    let probe = pool.command(&["ps"], Some(uid));
    if !probe.status.success() && probe.stdout.is_empty() && probe.stderr.is_empty() {
        println!("skipped: others can't run {}", env!("CARGO_BIN_EXE_cleave"));
        return;
    }
    let list = String::from_utf8_lossy(&probe.stdout).into_owned();
    assert!(list.contains("mine"), "everybody sees names: {list}");
    let rows: &[(&[&str], &str)] = &[
        (&["logs", "mine"], "belongs to root"),
        (&["cancel", "mine"], "belongs to root"),
        (&["logs", "nothing"], "no job"),
    ];
    for (arguments, expected) in rows {
        let output = pool.command(arguments, Some(uid));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    for arguments in [
        &["why", "mine"][..],
        &["why", "mine", "--json", "-"],
        &["ps", "-a"],
    ] {
        let output = pool.command(arguments, Some(uid));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}");
        assert!(
            !said.contains("hunter2") && !said.contains("sleep"),
            "{said}"
        );
    }
    assert_eq!(pool.phases().expect("an answer")["mine"], "running");
    pool.cleave("cancel mine").expect("its owner may");
    all_over(&mut pool, 1);
}

#[test]
fn hostile_input_is_refused_and_holds_nobody_up() {
    let jobs = "cleave: 1\nworkloads: [{name: a, cpu: 1, command: 'true'}]\n";
    let pool = up("hostile", jobs);
    let socket = pool.home.join("up.sock");
    let connect = || UnixStream::connect(&socket).expect("it listens");
    // Some never say anything, some stop in the middle.
    let silent: Vec<UnixStream> = (0..100).map(|_| connect()).collect();
    let torn: Vec<UnixStream> = (0..20)
        .map(|_| {
            let mut stream = connect();
            let head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"fi";
            stream.write_all(head).expect("it listens");
            stream
        })
        .collect();
    let request = |method: &str, path: &str, body: &str| {
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    };
    let submission = |file: &str| {
        let file = serde_json::to_string(file).expect("text");
        format!(
            "{{\"file\": {file}, \"surroundings\": {{\"env\": {{}}, \"directory\": \"/\", \
             \"umask\": 18, \"limits\": {{}}, \"terminal\": null}}}}"
        )
    };
    let job = |keys: &str| submission(&format!("cleave: 1\nworkloads: [{{{keys}}}]\n"));
    let deep = "[".repeat(100_000);
    let long = "x".repeat(600 << 10);
    let rows: Vec<(String, &str)> = vec![
        ("\x00\x01\x02\x03 nonsense\r\n\r\n".into(), "400"),
        (request("GET", "/v1/jobs/..%2f..%2fetc%2fpasswd", ""), "404"),
        (request("GET", "/v1/jobs/%00", ""), "404"),
        (request("GET", "/nothing", ""), "404"),
        (request("DELETE", "/v1/jobs", ""), "405"),
        (request("POST", "/v1/jobs", "{}"), "422"),
        (request("POST", "/v1/jobs", &deep), "422"),
        (request("POST", "/v1/jobs", &submission(&deep)), "400"),
        (
            request("POST", "/v1/jobs", &submission("a: &a [*a, *a]")),
            "400",
        ),
        (
            request(
                "POST",
                "/v1/jobs",
                &job("name: ../../x, cpu: 1, command: x"),
            ),
            "400",
        ),
        (
            request("POST", "/v1/jobs", &job("name: x/y, cpu: 1, command: x")),
            "400",
        ),
        (
            request(
                "POST",
                "/v1/jobs",
                &job("name: 'x[0-99999999]', command: x"),
            ),
            "400",
        ),
        (
            request(
                "POST",
                "/v1/jobs",
                &job("name: x, workers: 4000000000, command: x"),
            ),
            "400",
        ),
        (
            request(
                "POST",
                "/v1/jobs",
                &job("name: x, cpu: 99999999999999999999, command: x"),
            ),
            "400",
        ),
        (
            request(
                "POST",
                "/v1/jobs",
                &job(&format!("name: x, command: {long}")),
            ),
            "400",
        ),
        (
            request("POST", "/v1/jobs", &job("name: x, command: [\"a\\0b\"]")),
            "400",
        ),
        (
            request(
                "POST",
                "/v1/jobs",
                &job("name: x, directory: \"/a\\0b\", command: a"),
            ),
            "400",
        ),
        (
            request(
                "POST",
                "/v1/jobs",
                &job("name: x, env: {\"A=B\": c}, command: a"),
            ),
            "400",
        ),
        (
            request(
                "POST",
                "/v1/jobs",
                &job("name: x, queue: nobodys, command: a"),
            ),
            "400",
        ),
        (
            request(
                "POST",
                "/v1/cancel",
                "{\"jobs\": [\"../x\", \"\", \"nothing\"]}",
            ),
            "200",
        ),
    ];
    for (bytes, expected) in &rows {
        let mut stream = connect();
        // It may have been refused before it was sent in full.
        let _ = stream.write_all(bytes.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.split(' ').nth(1).unwrap_or_default();
        let shown: String = bytes.chars().take(200).collect();
        assert_eq!(status, *expected, "{shown:?}: {answer}");
    }
    let mut stream = connect();
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Content-Length: 99999999999\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it listens");
    let mut start = [0; 12];
    stream.read_exact(&mut start).expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 413");
    // Meanwhile others are served.
    let began = Instant::now();
    pool.cleave("submit jobs.yaml").expect("taken");
    while pool.phases().is_none_or(|phases| phases["a"] != "done") {
        assert!(began.elapsed() < Duration::from_secs(60), "held up");
        thread::sleep(Duration::from_millis(20));
    }
    drop((silent, torn));
}
