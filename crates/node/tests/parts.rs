//! Parts of the agent by themselves: simulated devices, and what is found through `/proc`.

mod site;

use cleave_device::{
    gpu::{Answer, Call, Error},
    hands::Start,
};
use cleave_model::{Name, lease::Hold};
use cleave_node::{
    devices::{self, Devices},
    processes::{Traces, end_left},
    store::Store,
};
use site::{id, processes, slice, wait};
use std::{fs, process::Command};

/// A busy instance can't be destroyed; what was made is there for the next agent; other boards in
/// its place are noticed.
#[test]
fn devices_outlast_the_agent() {
    let dir = std::env::temp_dir().join(format!("cleave-devices-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let node = Name::new("n0").unwrap();
    let open = |sim: &str| {
        let mut store = Store::open(&dir).unwrap();
        let devices = Devices::open(&mut store, &node, devices::boards(sim).unwrap(), 0.0);
        devices.map(|devices| (store, devices))
    };
    let (mut store, mut devices) = open("2xA100-80GB").unwrap();
    let slice = slice(1, "3g.40gb", 4);
    let steps = [
        Call::SetMode(true),
        Call::CreateGi(slice.instance.unwrap()),
        Call::CreateCi { gi: 0 },
    ];
    for call in steps {
        let done = devices.call(&mut store, 1, &call).unwrap().0;
        if done == Err(Error::ResetRequired) {
            devices
                .call(&mut store, 1, &Call::Reset)
                .unwrap()
                .0
                .unwrap();
        } else {
            done.unwrap();
        }
    }
    drop((store, devices));

    let (mut store, mut devices) = open("2xA100-80GB").unwrap();
    let info = Call::Info { gi: 0, ci: 0 };
    let (reply, _) = devices.call(&mut store, 1, &info).unwrap();
    let Ok(Answer::Uuid(uuid)) = reply else {
        panic!("no instance: {reply:?}")
    };
    assert_eq!(uuid, "MIG-n0-1-0");
    assert_eq!(devices.uuids(), ["GPU-n0-0", "GPU-n0-1"]);
    let hold = Hold {
        node: node.clone(),
        cpu_milli: 0,
        memory_bytes: 0,
        slices: vec![slice],
    };
    let mut start = Start {
        id: id("job", 1),
        hold,
        uuids: vec![Some(uuid)],
    };
    devices.attach(7, &start).unwrap();
    let destroy = Call::DestroyCi { gi: 0, ci: 0 };
    for (client, reply) in [(8, Err(Error::InUse)), (7, Ok(Answer::Done))] {
        devices.detach(client);
        assert_eq!(devices.call(&mut store, 1, &destroy).unwrap().0, reply);
    }
    assert_eq!(devices.attach(7, &start), Err(Error::NotFound));
    start.uuids = vec![None];
    assert_eq!(
        devices.attach(7, &start),
        Err(Error::NotFound),
        "an instance is no whole GPU"
    );
    drop((store, devices));
    for other in ["2xH100-80GB", "1xA100-80GB", "3xA100-80GB"] {
        assert!(
            open(other).expect_err(other).contains("same --sim"),
            "{other}"
        );
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// What a killed shim leaves is recognised by its session or its environment, and nothing else is
/// touched.
#[test]
fn what_is_left_is_found_without_a_control_group() {
    let marker = format!("33.{}", std::process::id());
    let there = || processes(|line| line == format!("sleep {marker} ")).len();
    let uid = rustix::process::getuid().as_raw();
    let variables = [
        String::from("CLEAVE_JOB=left"),
        String::from("CLEAVE_ATTEMPT=3"),
    ];
    let mut other = Command::new("sleep")
        .arg(&marker)
        .env("CLEAVE_JOB", "left")
        .spawn()
        .unwrap();
    let script = format!("setsid sleep {marker} & setsid setsid sleep {marker} & sleep {marker}");
    let mut job = Command::new("sh")
        .args(["-c", &script])
        .envs([("CLEAVE_JOB", "left"), ("CLEAVE_ATTEMPT", "3")])
        .spawn()
        .unwrap();
    let script = format!("exec setsid env -i /bin/sh -c 'sleep {marker}; sleep {marker}'");
    let mut session = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    wait("all", || (there() == 5).then_some(()));
    let mut traces = Traces {
        uid: uid + 1,
        variables: &variables,
        session: Some(session.id() as i32),
    };
    end_left(&traces, None);
    assert_eq!(there(), 5, "another user's");
    traces.uid = uid;
    end_left(&traces, None);
    job.wait().unwrap();
    session.wait().unwrap();
    assert_eq!(there(), 1);
    other.kill().unwrap();
    other.wait().unwrap();
}

/// A file of a later release is left alone.
#[test]
fn a_newer_store_is_refused() {
    let dir = std::env::temp_dir().join(format!("cleave-store-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    drop(Store::open(&dir).unwrap());
    drop(Store::open(&dir).unwrap());
    let file = rusqlite::Connection::open(dir.join("agent.sqlite")).unwrap();
    file.pragma_update(None, "user_version", 1_000).unwrap();
    drop(file);
    let why = Store::open(&dir).unwrap_err().to_string();
    assert!(
        why.contains("1000") && why.contains("newer release"),
        "{why}"
    );
    fs::remove_dir_all(&dir).unwrap();
}
