//! The procedures, driven directly as a plugin would: books in memory, calls to a modelled GPU.

use cleave_device::{
    gpu::{Call, Error, Fault, Gpu, Latencies},
    procedure::{Books, Goal, Holder, Mark, Next, Patience, Procedure, Trouble},
    table::Cut,
};
use cleave_model::{
    Millis, Name,
    board::{Board, Catalogue, Instance},
};
use std::{collections::BTreeMap, sync::Arc};

const PATIENCE: Patience = Patience {
    tries: 4,
    first_ms: 10,
    longest_ms: 35,
};

struct Driver {
    board: Arc<Board>,
    gpu: Gpu,
    cuts: BTreeMap<Instance, Cut>,
    live: Vec<Instance>,
    /// All that was called, with effect; and all pauses.
    calls: Vec<Call>,
    pauses: Vec<Millis>,
    alarms: usize,
}

impl Driver {
    fn new(called: &str) -> Self {
        let catalogue = Catalogue::builtin();
        let board = catalogue.board(catalogue.find(called).unwrap()).clone();
        let serial = Name::new("s").unwrap();
        let gpu = Gpu::new(board.clone(), serial, Latencies::default(), true);
        let (calls, pauses) = (Vec::new(), Vec::new());
        Self {
            board,
            gpu,
            cuts: BTreeMap::new(),
            live: Vec::new(),
            calls,
            pauses,
            alarms: 0,
        }
    }

    fn at(&self, profile: &str, start: u8) -> Instance {
        Instance {
            start,
            profile: self.board.profile(profile).unwrap(),
        }
    }

    /// Drives a goal to its end, or to `steps`; `fault` is asked at each call with an effect.
    fn drive(
        &mut self,
        goal: Goal,
        steps: usize,
        fault: impl Fn(Call) -> Option<Fault>,
    ) -> Option<Result<(), Trouble>> {
        let mut procedure = Procedure::new(goal, PATIENCE);
        let mut reply = None;
        for _ in 0..steps {
            let holder = |cut: &Cut| match self.live.contains(&cut.instance) {
                true => Holder::Live,
                false => Holder::Nobody,
            };
            let cuts = self
                .cuts
                .values()
                .map(|cut| (cut.clone(), holder(cut)))
                .collect();
            match procedure.step(
                &Books {
                    board: &self.board,
                    cuts,
                },
                reply.take(),
            ) {
                Next::Call(call) => {
                    let fault = fault(call).filter(|_| call.has_effect());
                    self.calls.extend(call.has_effect().then_some(call));
                    reply = Some(self.gpu.call(&call, fault).0);
                }
                Next::Record(mark) => {
                    match mark {
                        Mark::Cutting(instance) => self.cuts.insert(
                            instance,
                            Cut {
                                instance,
                                uuid: None,
                            },
                        ),
                        Mark::Cut(instance, uuid) => self.cuts.insert(
                            instance,
                            Cut {
                                instance,
                                uuid: Some(uuid),
                            },
                        ),
                        Mark::Gone(instance) => self.cuts.remove(&instance),
                    };
                }
                Next::Wait(pause_ms) => {
                    self.pauses.push(pause_ms);
                    self.alarms += usize::from(procedure.alarm().is_some());
                }
                Next::Done(outcome) => return Some(outcome),
            }
        }
        None
    }

    fn reach(&mut self, goal: Goal) {
        assert_eq!(
            self.drive(goal.clone(), 1_000, |_| None),
            Some(Ok(())),
            "{goal:?}"
        );
    }

    fn uuids(&self) -> Vec<Name> {
        let found = self.gpu.state().found.into_iter();
        found
            .flat_map(|of| of.cis)
            .filter_map(|(_, uuid)| uuid)
            .collect()
    }
}

#[test]
fn repeating_a_procedure_changes_nothing() {
    let mut d = Driver::new("H100-80GB");
    let wanted = vec![d.at("3g.40gb", 4), d.at("1g.10gb", 3)];
    d.live = wanted.clone();
    d.reach(Goal::Prepare(wanted.clone()));
    let (before, made) = (d.uuids(), std::mem::take(&mut d.calls));
    assert_eq!((before.len(), made.len()), (2, 5));
    for goal in [
        Goal::Prepare(wanted.clone()),
        Goal::Prepare(wanted[1..].to_vec()),
        // They are held.
        Goal::Unprepare(wanted.clone()),
        Goal::Recover { adopt: true },
    ] {
        d.reach(goal);
    }
    assert_eq!(d.uuids(), before);
    d.live.clear();
    d.reach(Goal::Unprepare(wanted.clone()));
    assert_eq!(d.calls.len(), 4);
    d.reach(Goal::Unprepare(wanted));
    assert_eq!((d.calls.len(), d.cuts.len(), d.uuids().len()), (4, 0, 0));
}

#[test]
fn a_procedure_dropped_at_any_step_is_taken_up_by_a_new_one() {
    let goal = |d: &Driver| vec![d.at("2g.20gb", 0), d.at("1g.20gb", 6)];
    for called in ["H100-80GB", "A100-80GB"] {
        for steps in 0..30 {
            let mut d = Driver::new(called);
            let wanted = goal(&d);
            d.live = wanted.clone();
            let ended = d
                .drive(Goal::Prepare(wanted.clone()), steps, |_| None)
                .is_some();
            d.reach(Goal::Recover { adopt: false });
            d.reach(Goal::Prepare(wanted.clone()));
            assert_eq!(
                (d.cuts.len(), d.uuids().len()),
                (2, 2),
                "{called} after {steps}"
            );
            d.live.clear();
            d.drive(Goal::Unprepare(wanted.clone()), steps, |_| None);
            d.reach(Goal::Recover { adopt: false });
            d.reach(Goal::Unprepare(wanted));
            assert_eq!(
                (d.cuts.len(), d.uuids().len()),
                (0, 0),
                "{called} after {steps}"
            );
            let creates = d
                .calls
                .iter()
                .filter(|call| matches!(call, Call::CreateGi(_)));
            assert_eq!(creates.count(), 2, "{called} after {steps}: made twice");
            assert!(ended || steps < 29, "more steps than are tried");
        }
    }
}

#[test]
fn split_and_rejoined_a_gpu_is_as_before() {
    let mut d = Driver::new("H100-80GB");
    let mut seen = Vec::new();
    for _ in 0..3 {
        // What the time before left idle goes, for its place is wanted.
        d.live = (0..7).map(|start| d.at("1g.10gb", start)).collect();
        d.reach(Goal::Prepare(d.live.clone()));
        assert_eq!(d.uuids().len(), 7);
        seen.extend(d.uuids());
        d.live = vec![d.at("7g.80gb", 0)];
        d.reach(Goal::Prepare(d.live.clone()));
        assert_eq!(d.uuids().len(), 1);
        d.live.clear();
        d.reach(Goal::Prepare(Vec::new()));
        assert!(!d.gpu.state().mode && d.cuts.is_empty());
    }
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), all, "a UUID came twice");
}

#[test]
fn idle_instances_elsewhere_go_when_the_board_is_full() {
    let mut d = Driver::new("H100-80GB");
    // There can be one with media extensions, wherever it is.
    let (old, beside, new) = (
        d.at("1g.10gb+me", 0),
        d.at("1g.10gb", 1),
        d.at("1g.10gb+me", 6),
    );
    d.live = vec![old, beside];
    d.reach(Goal::Prepare(vec![old, beside]));
    d.live = vec![beside, new];
    d.reach(Goal::Prepare(vec![new]));
    let found: Vec<_> = d
        .gpu
        .state()
        .found
        .into_iter()
        .map(|of| of.instance.unwrap())
        .collect();
    assert_eq!(found.len(), 2);
    assert!(found.contains(&beside) && found.contains(&new));
}

#[test]
fn patience_ends_or_does_not() {
    let mut d = Driver::new("H100-80GB");
    let wanted = vec![d.at("1g.10gb", 0)];
    d.live = wanted.clone();
    let held = |_| Some(Fault::Refused(Error::InUse));
    let refused = d.drive(Goal::Prepare(wanted.clone()), 1_000, held);
    assert_eq!(refused, Some(Err(Trouble::Device(Error::InUse))));
    assert_eq!((d.calls.len(), &d.pauses[..]), (4, &[10, 20, 35][..]));
    let lost = d.drive(Goal::Prepare(wanted.clone()), 1_000, |_| Some(Fault::Gone));
    assert_eq!(lost, Some(Err(Trouble::Device(Error::Lost))));
    d.gpu.reboot();

    d.reach(Goal::Prepare(wanted.clone()));
    d.live.clear();
    d.pauses.clear();
    assert_eq!(d.drive(Goal::Unprepare(wanted.clone()), 100, held), None);
    assert!(d.pauses.len() > 20 && d.pauses[3..].iter().all(|&pause| pause == 35));
    assert_eq!(d.alarms, 1, "people are told once");
    d.reach(Goal::Unprepare(wanted));
}
