//! The hands over modelled GPUs: every crash, every fault, and at random all of it at once.

mod world;

use cleave_device::{
    gpu::{Call, Error, Fault},
    table::Stage,
};
use cleave_model::{
    action::Failure,
    board::{Instance, ProfileIx},
    lease::{Share, Sharing, Slice},
    observation::{Exit, WorkerState},
};
use proptest::prelude::*;
use world::*;

/// Two workers on four slices of two GPUs, one in place of the other, one taking a GPU whole.
fn story() -> (World, Vec<fn(&mut World)>) {
    let world = World::new(&[("H100-80GB", true), ("A100-40GB", true)], false);
    let script: Vec<fn(&mut World)> = vec![
        |w| {
            let (small, big) = (at(w.board(0), "1g.10gb", 6), at(w.board(1), "3g.20gb", 4));
            w.order(
                &id(0, 1),
                hold(vec![slice(0, Some(small)), slice(1, Some(big))]),
            );
        },
        |w| {
            let (a, b) = (at(w.board(0), "2g.20gb", 4), at(w.board(0), "4g.40gb", 0));
            w.order(&id(1, 1), hold(vec![slice(0, Some(a)), slice(0, Some(b))]));
        },
        |w| w.cancel(&id(0, 1), 500),
        |w| w.cancel(&id(1, 1), 500),
        |w| w.order(&id(0, 2), hold(vec![slice(0, None), slice(1, None)])),
    ];
    (world, script)
}

/// Plays the story; `meddle` is asked before each effect.
fn play(mut meddle: impl FnMut(&mut World)) -> World {
    let (mut world, script) = story();
    for line in script {
        world.settle_with(&mut meddle);
        world.repeat_orders();
        world.settle_with(&mut meddle);
        line(&mut world);
    }
    for _ in 0..4 {
        world.settle_with(&mut meddle);
        world.repeat_orders();
    }
    world
}

#[test]
fn a_life_without_faults() {
    let world = play(|_| {});
    use WorkerState::{Ended, Freed, Preparing, Running};
    let evicted = [Preparing, Running, WorkerState::Stopping];
    let over = [Ended(Exit::Evicted), Freed(Exit::Evicted)];
    let whole = [evicted.as_slice(), over.as_slice()].concat();
    assert_eq!(world.seen[&id(0, 1)], whole);
    assert_eq!(world.seen[&id(1, 1)], whole);
    assert_eq!(world.seen[&id(0, 2)], [Preparing, Running]);
    assert_eq!(world.room_errors, 0);
    // Four instances of two calls each, made and unmade; MIG on and off on both, the A100 with
    // resets.
    assert_eq!(world.calls, 4 * 4 + 2 + 2 * 2);
    world.finish();
}

#[test]
fn a_crash_between_any_two_effects_changes_nothing() {
    let effects = play(|_| {}).done;
    for first in 0..effects {
        for second in [None, Some(1), Some(4)] {
            let mut at = vec![first];
            at.extend(second.map(|n| first + n));
            let world = play(|w| {
                if at.first() == Some(&w.done) {
                    at.remove(0);
                    w.crash();
                }
            });
            assert_eq!(world.room_errors, 0);
            world.finish();
        }
    }
}

#[test]
fn a_reboot_between_any_two_effects_leaves_nothing() {
    let effects = play(|_| {}).done;
    for first in 0..effects {
        let mut due = true;
        let world = play(|w| {
            if due && w.done == first {
                due = false;
                w.reboot();
            }
        });
        world.finish();
    }
}

#[test]
fn any_call_may_go_wrong() {
    let calls = play(|_| {}).calls;
    let refusals = [
        Error::InUse,
        Error::InsufficientResources,
        Error::NotFound,
        Error::Unknown,
    ];
    let mut faults: Vec<_> = refusals.into_iter().map(Fault::Refused).collect();
    faults.extend([
        Fault::Mute,
        Fault::Refused(Error::Timeout),
        Fault::Held(7),
        Fault::Gone,
    ]);
    for fault in faults {
        for (n, times) in (0..calls).flat_map(|n| [(n, 1), (n, 2), (n, 4)]) {
            let mut left = times;
            let world = play(|w| {
                if left > 0 && w.calls >= n && w.fault.is_none() {
                    w.fault = Some(fault);
                    left -= 1;
                }
            });
            world.finish();
        }
    }
}

#[test]
fn what_is_in_use_drains_until_it_is_let_go() {
    let mut w = World::new(&[("H100-80GB", true)], false);
    let first = at(w.board(0), "1g.10gb", 0);
    w.order(&id(0, 1), hold(vec![slice(0, Some(first))]));
    w.settle_all();
    w.leak = true;
    w.cancel(&id(0, 1), 500);
    w.settle_all();
    assert_eq!(w.stage(&id(0, 1)), Some(Stage::Ended(Exit::Evicted)));
    // Neighbours are made and unmade meanwhile.
    let beside = at(w.board(0), "3g.40gb", 4);
    w.order(&id(1, 1), hold(vec![slice(0, Some(beside))]));
    w.settle_all();
    assert_eq!(w.stage(&id(1, 1)), Some(Stage::Running));
    assert_eq!(w.stage(&id(0, 1)), Some(Stage::Ended(Exit::Evicted)));
    w.release_leaks();
    w.settle_all();
    assert_eq!(w.stage(&id(0, 1)), Some(Stage::Freed(Exit::Evicted)));
    w.finish();
}

#[test]
fn what_others_made_is_in_the_way_and_stays() {
    for adopt in [false, true] {
        let mut w = World::new(&[("H100-80GB", true), ("H100-80GB", true)], adopt);
        let (i, j) = (at(w.board(0), "1g.10gb", 1), at(w.board(0), "4g.40gb", 0));
        w.intrude(0, i);
        if adopt {
            w.crash();
        }
        w.order(&id(0, 1), hold(vec![slice(0, Some(j)), slice(1, Some(j))]));
        w.settle_all();
        let refused = Stage::Failed(Failure::Cut(0));
        let expected = if adopt { Stage::Running } else { refused };
        assert_eq!(w.stage(&id(0, 1)), Some(expected));
        w.finish();
    }
}

#[test]
fn what_others_make_in_our_place_stays() {
    // In the place of an instance that a reboot ended: it has another UUID.
    let mut w = World::new(&[("H100-80GB", true)], false);
    let i = at(w.board(0), "1g.10gb", 1);
    w.order(&id(0, 1), hold(vec![slice(0, Some(i))]));
    w.settle_all();
    w.reboot();
    w.intrude(0, i);
    w.settle_all();
    assert_eq!(w.stage(&id(0, 1)), Some(Stage::Freed(Exit::Lost)));
    w.finish();

    // In the very moment in which we make ours.
    let mut w = World::new(&[("H100-80GB", true)], false);
    let mut due = true;
    w.order(&id(0, 1), hold(vec![slice(0, Some(i))]));
    w.settle_with(&mut |w: &mut World| {
        if due && matches!(w.next_call(), Some(Call::CreateGi(_))) {
            due = false;
            w.intrude(0, i);
        }
    });
    assert_eq!(w.stage(&id(0, 1)), Some(Stage::Failed(Failure::Cut(0))));
    w.finish();
}

#[test]
fn sharers_of_an_instance_come_and_go() {
    let mut w = World::new(&[("H100-80GB", true)], false);
    let instance = Some(at(w.board(0), "3g.40gb", 4));
    let share = |by| {
        Some(Share {
            compute: 1,
            memory_mib: 1,
            by,
        })
    };
    let part = |by| {
        hold(vec![Slice {
            gpu: 0,
            instance,
            share: share(by),
        }])
    };
    w.order(&id(0, 1), part(Sharing::Mps));
    w.settle_all();
    let calls = w.calls;
    w.order(&id(1, 1), part(Sharing::Mps));
    w.send(place(&id(2, 1), part(Sharing::TimeSlice)));
    w.settle_all();
    w.cancel(&id(0, 1), 0);
    w.settle_all();
    assert_eq!(w.stage(&id(0, 1)), Some(Stage::Freed(Exit::Evicted)));
    assert_eq!(w.stage(&id(1, 1)), Some(Stage::Running));
    assert_eq!(w.stage(&id(2, 1)), Some(Stage::Failed(Failure::Stale)));
    assert_eq!(w.calls, calls, "a sharer changes the device");
    w.cancel(&id(1, 1), 0);
    w.settle_all();
    assert_eq!(w.calls, calls + 2);
    w.finish();
}

#[test]
fn mode_is_left_alone_where_it_cannot_be_changed() {
    let mut w = World::new(&[("A100-40GB", false), ("L4", false)], false);
    let i = at(w.board(0), "1g.5gb", 0);
    w.order(&id(0, 1), hold(vec![slice(0, Some(i))]));
    w.order(&id(1, 1), hold(vec![slice(1, None)]));
    w.settle_all();
    assert_eq!(w.stage(&id(0, 1)), Some(Stage::Failed(Failure::Cut(0))));
    assert_eq!(w.stage(&id(1, 1)), Some(Stage::Running));
    assert_eq!(w.calls, 0);
    assert_eq!(w.report.as_ref().unwrap().sick, []);
    w.finish();
}

#[test]
fn orders_are_fenced() {
    let mut w = World::new(&[("H100-80GB", true)], false);
    let i = at(w.board(0), "1g.10gb", 0);
    let some = hold(vec![slice(0, Some(i))]);
    let stale = Some(Stage::Failed(Failure::Stale));
    // Evicted before it was placed: it is over, and so is what is older.
    w.send(evict(&id(0, 2), 0));
    w.send(place(&id(0, 2), some.clone()));
    w.send(place(&id(0, 1), some.clone()));
    w.settle_all();
    assert_eq!(w.stage(&id(0, 2)), Some(Stage::Freed(Exit::Evicted)));
    assert_eq!(w.stage(&id(0, 1)), stale);
    // One attempt at a time, one lease for a slice, and only what there is.
    w.order(&id(0, 3), some.clone());
    w.settle_all();
    w.send(place(&id(0, 4), hold(vec![])));
    w.send(place(&id(1, 1), some.clone()));
    w.send(place(&id(2, 1), hold(vec![slice(0, None)])));
    w.send(place(&id(3, 1), hold(vec![slice(1, None)])));
    let nonsense = Instance {
        start: 200,
        profile: i.profile,
    };
    w.send(place(&id(4, 1), hold(vec![slice(0, Some(nonsense))])));
    w.settle_all();
    assert_eq!(w.stage(&id(0, 3)), Some(Stage::Running));
    for (worker, attempt) in [(0, 4), (1, 1), (2, 1), (3, 1), (4, 1)] {
        assert_eq!(w.stage(&id(worker, attempt)), stale, "{worker}.{attempt}");
    }
    let calls = w.calls;
    w.send(place(&id(0, 3), some));
    w.settle_all();
    assert_eq!(w.calls, calls, "a repeated order has an effect");
    w.finish();
}

#[test]
fn the_disobedient_are_ended_after_their_grace() {
    let mut w = World::new(&[("H100-80GB", true)], false);
    w.obedient = false;
    w.order(&id(0, 1), hold(vec![slice(0, None)]));
    w.settle_all();
    let told = w.now;
    w.cancel(&id(0, 1), 5_000);
    w.settle_all();
    assert_eq!(w.stage(&id(0, 1)), Some(Stage::Freed(Exit::Evicted)));
    assert!(w.now >= told + 5_000, "{} < {told} + 5000", w.now);
    w.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_may_happen_at_any_time(
        adopt: bool,
        resets: bool,
        intruders in prop::collection::vec((0_u8..4, 0_u8..8), 0..3),
        choices in prop::collection::vec(any::<u32>(), 1..1_500),
    ) {
        let boards = [("H100-80GB", true), ("A100-40GB", true), ("H200", true), ("A30", resets)];
        let mut w = World::new(&boards, adopt);
        for (gpu, start) in intruders {
            let profile = w.board(gpu).profiles.iter().position(|p| p.starts.contains(&start));
            if let Some(profile) = profile {
                w.intrude(gpu, Instance { start, profile: ProfileIx(profile as u8) });
            }
        }
        let mut faults = false;
        for choice in choices {
            let arg = choice / 64;
            match choice % 64 {
                0 if arg % 2 == 0 => w.crash(),
                1 if arg % 16 == 0 => w.reboot(),
                2 => w.lose_mail(arg),
                3 => drop(w.deliver_mail(arg, true)),
                4 => w.exit_any(arg),
                5 => w.cancel_any(arg),
                6 | 7 => w.repeat_orders(),
                8 => w.release_leaks(),
                9 => w.no_start = arg % 4 == 0,
                10 => w.leak = arg % 4 == 0,
                11 => w.obedient ^= true,
                12 if arg % 2 == 0 => {
                    faults = true;
                    let refusals = [Error::InUse, Error::NotFound, Error::Timeout, Error::Unknown];
                    let client = w.invent_client();
                    w.fault = Some(match arg / 2 % 16 {
                        0..6 => Fault::Refused(refusals[arg as usize % 4]),
                        6..10 => Fault::Mute,
                        10..15 => Fault::Held(client),
                        _ => Fault::Gone,
                    });
                }
                13..18 => w.order_any(arg % 4, arg / 4),
                18..22 => drop(w.deliver_mail(arg, false)),
                22..30 => drop(w.deliver_reply(arg)),
                30..36 => drop(w.deliver_input(arg)),
                _ => {
                    let _ = w.carry_out()
                        || w.deliver_reply(arg)
                        || w.deliver_input(arg)
                        || w.deliver_mail(arg, false)
                        || w.pass_time();
                }
            }
        }
        if !faults && !adopt {
            prop_assert_eq!(w.room_errors, 0);
        }
        w.finish();
    }
}
