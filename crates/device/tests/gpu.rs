//! The modelled GPU against the boards' layouts, and the order of calls.

use cleave_device::gpu::{Answer, Call, Error, Fault, Gpu, Latencies, State};
use cleave_model::{
    Name,
    board::{Board, Catalogue, Instance, LayoutId, Layouts},
};
use proptest::prelude::*;
use std::sync::Arc;

fn gpu(called: &str, can_reset: bool) -> (Gpu, Arc<Board>, Arc<Layouts>) {
    let catalogue = Catalogue::builtin();
    let id = catalogue.find(called).unwrap();
    let board = catalogue.board(id).clone();
    let serial = Name::new("s").unwrap();
    let gpu = Gpu::new(board.clone(), serial, Latencies::default(), can_reset);
    (gpu, board, catalogue.layouts(id).clone())
}

fn call(gpu: &mut Gpu, call: Call) -> Result<Answer, Error> {
    gpu.call(&call, None).0
}

fn walk(gpu: &mut Gpu) -> State {
    let Ok(Answer::State(state)) = call(gpu, Call::Walk) else {
        panic!("walk fails")
    };
    state
}

#[test]
fn calls_have_their_order() {
    let (mut g, board, _) = gpu("H100-80GB", true);
    let one = Instance {
        start: 6,
        profile: board.profile("1g.10gb").unwrap(),
    };
    let (gi, ci) = (0, 0);
    let name = |n: u32| Name::new(format!("MIG-s-{n}")).unwrap();
    let made = |n: u32| {
        vec![
            (Call::CreateGi(one), Ok(Answer::Gi(0))),
            (Call::Info { gi, ci }, Err(Error::NotFound)),
            (Call::CreateCi { gi }, Ok(Answer::Ci(0))),
            (Call::CreateCi { gi }, Err(Error::InsufficientResources)),
            (Call::Info { gi, ci }, Ok(Answer::Uuid(name(n)))),
            (Call::CreateGi(one), Err(Error::InsufficientResources)),
            (Call::SetMode(false), Err(Error::InUse)),
            (Call::DestroyGi { gi }, Err(Error::InUse)),
            (Call::DestroyCi { gi, ci }, Ok(Answer::Done)),
            (Call::DestroyCi { gi, ci }, Err(Error::NotFound)),
            (Call::DestroyGi { gi }, Ok(Answer::Done)),
            (Call::DestroyGi { gi }, Err(Error::NotFound)),
        ]
    };
    let mut rows = vec![
        (Call::CreateGi(one), Err(Error::NotSupported)),
        (Call::SetMode(true), Ok(Answer::Done)),
        (
            Call::CreateGi(Instance { start: 7, ..one }),
            Err(Error::NotSupported),
        ),
        (Call::CreateCi { gi }, Err(Error::NotFound)),
    ];
    // Ids come again, UUIDs do not.
    rows.extend(made(0));
    rows.extend(made(1));
    rows.push((Call::SetMode(false), Ok(Answer::Done)));
    for (n, (asked, reply)) in rows.into_iter().enumerate() {
        assert_eq!(call(&mut g, asked), reply, "row {n}: {asked:?}");
    }
}

#[test]
fn mode_changes_as_the_board_and_the_machine_let_it() {
    use Error::{InUse, NotSupported, ResetRequired};
    let done = Ok(Answer::Done);
    for (called, can_reset, set, pending, reset, mode) in [
        ("H100-80GB", true, done.clone(), true, done.clone(), true),
        (
            "A100-40GB",
            true,
            Err(ResetRequired),
            true,
            done.clone(),
            true,
        ),
        (
            "A100-40GB",
            false,
            Err(ResetRequired),
            true,
            Err(NotSupported),
            false,
        ),
        ("L4", true, Err(NotSupported), false, done.clone(), false),
    ] {
        let (mut g, ..) = gpu(called, can_reset);
        g.attach(1, None).unwrap();
        let expected = if called == "L4" { NotSupported } else { InUse };
        assert_eq!(
            call(&mut g, Call::SetMode(true)),
            Err(expected),
            "{called} held"
        );
        g.detach(1);
        assert_eq!(call(&mut g, Call::SetMode(true)), set, "{called}");
        assert_eq!(walk(&mut g).pending, pending, "{called}");
        assert_eq!(call(&mut g, Call::Reset), reset, "{called}");
        assert_eq!(walk(&mut g).mode, mode, "{called}");
        g.reboot();
        // The reboot that a machine without resets needs also puts the mode in force; Hopper
        // forgets it.
        assert_eq!(
            walk(&mut g).mode,
            called == "A100-40GB",
            "{called} after a reboot"
        );
    }
}

#[test]
fn faults_do_what_they_say() {
    let (mut g, board, _) = gpu("H100-80GB", true);
    let one = Instance {
        start: 0,
        profile: board.profile("7g.80gb").unwrap(),
    };
    let create = Call::CreateGi(one);
    call(&mut g, Call::SetMode(true)).unwrap();
    let refused = g.call(&create, Some(Fault::Refused(Error::Unknown)));
    assert_eq!(refused, (Err(Error::Unknown), 700));
    assert_eq!(walk(&mut g).found, []);
    assert_eq!(g.call(&create, Some(Fault::Mute)).0, Err(Error::Timeout));
    assert_eq!(walk(&mut g).found.len(), 1);
    let slow = g.call(&Call::CreateCi { gi: 0 }, Some(Fault::Slow(9)));
    assert_eq!(slow, (Ok(Answer::Ci(0)), 309));
    let destroy = Call::DestroyCi { gi: 0, ci: 0 };
    assert_eq!(g.call(&destroy, Some(Fault::Held(5))).0, Err(Error::InUse));
    assert_eq!(call(&mut g, destroy), Err(Error::InUse));
    g.detach(5);
    assert_eq!(call(&mut g, destroy), Ok(Answer::Done));
    assert_eq!(g.call(&Call::Walk, Some(Fault::Gone)).0, Err(Error::Lost));
    assert_eq!(call(&mut g, Call::Walk), Err(Error::Lost));
    g.reboot();
    assert_eq!(walk(&mut g).found, []);
}

proptest! {
    /// The device accepts an instance exactly where the board has a legal layout for it.
    #[test]
    fn it_accepts_what_is_legal(
        called in prop::sample::select(vec!["H100-80GB", "A100-40GB", "A30", "RTX-PRO-6000"]),
        steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..40),
    ) {
        let (mut g, board, layouts) = gpu(called, true);
        let _ = call(&mut g, Call::SetMode(true));
        let _ = call(&mut g, Call::Reset);
        let mut layout = LayoutId::EMPTY;
        let all: Vec<_> = board.indices().flat_map(|profile| {
            board.at(profile).starts.iter().map(move |&start| Instance { start, profile })
        }).collect();
        for (add, which) in steps {
            let found = walk(&mut g).found;
            let present: Vec<_> = found.iter().map(|of| of.instance.unwrap()).collect();
            prop_assert_eq!(layouts.find(&present), Some(layout));
            if add || found.is_empty() {
                let new = *which.get(&all);
                let legal = layouts.add(layout, new.profile, new.start);
                let made = call(&mut g, Call::CreateGi(new));
                prop_assert_eq!(made.is_ok(), legal.is_some(), "{:?} beside {:?}", new, present);
                layout = legal.unwrap_or(layout);
            } else {
                let of = which.get(&found);
                let old = of.instance.unwrap();
                let gone = call(&mut g, Call::DestroyGi { gi: of.gi });
                prop_assert_eq!(gone, Ok(Answer::Done));
                layout = layouts.remove(layout, old.profile, old.start).unwrap();
            }
        }
    }
}
