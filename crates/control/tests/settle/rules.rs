//! Small rules of the control plane, one by one.

use crate::world::{BUDGET, Planner, genesis, name, node, planner, queue, workload};
use cleave_control::{BadJournal, Control, Deed, Input, Output, Refusal, Request};
use cleave_engine::state::{NoSink, place_name};
use cleave_model::{
    Millis,
    event::{Batch, Event},
    lease::Phase,
    message::Order,
    node::Health,
    observation::{ActionResult, MessageNo, NodeReport, WorkerReport, WorkerState},
    prices::Prices,
    workload::Workload,
};

/// Closes, commits, and returns what was recorded and what is to be done.
fn close(control: &mut Control<Planner>, now: Millis) -> (Output, Vec<Deed>) {
    let output = control.close(now, &mut NoSink);
    let effects = control.durable(control.state().batch());
    (
        output,
        effects.into_iter().map(|effect| effect.what).collect(),
    )
}

fn ask(control: &mut Control<Planner>, request: Request) {
    control.input(Input::Request { from: 7, request });
}

fn one_worker(n: u32) -> Workload {
    let mut work = workload(0);
    work.name = name(format!("job{n}"));
    work
}

#[test]
fn what_comes_in_together_may_come_in_any_order() {
    let requests = || -> Vec<Request> {
        let work = (1..6).map(|n| Request::Submit(workload(n)));
        let nodes = ["n2", "n3"].map(|called| Request::Node(node(called)));
        let more = [
            Request::Cancel(name("w2")),
            Request::NodeHealth(name("n0"), Health::Cordoned),
            Request::Gpu(name("n3"), 0, true),
        ];
        work.chain(nodes).chain(more).collect()
    };
    let records = |requests: Vec<Request>| {
        let mut control = Control::new(planner(), BUDGET, genesis(0));
        requests
            .into_iter()
            .for_each(|request| ask(&mut control, request));
        close(&mut control, 5).0
    };
    let forward = records(requests());
    assert_eq!(forward.records.len(), 4, "genesis, facts, decision, sent");
    assert_eq!(forward, records(requests().into_iter().rev().collect()));
    let mut rotated = requests();
    rotated.rotate_left(4);
    assert_eq!(forward, records(rotated));
}

#[test]
fn of_several_states_of_one_object_the_last_counts() {
    let mut control = Control::new(planner(), BUDGET, genesis(0));
    for health in [Health::Lost, Health::Ready, Health::Cordoned] {
        ask(&mut control, Request::NodeHealth(name("n0"), health));
    }
    let (output, answers) = close(&mut control, 5);
    assert_eq!(output.records.len(), 2, "{:?}", output.records);
    assert_eq!(
        answers
            .iter()
            .filter(|deed| matches!(deed, Deed::Answer { .. }))
            .count(),
        3
    );
}

#[test]
fn every_refusal_has_a_reason() {
    let mut twice = one_worker(1);
    twice.groups.push(twice.groups[0].clone());
    let mut empty = one_worker(2);
    empty.groups[0].workers = 0;
    let mut greedy = one_worker(3);
    greedy.groups[0].min = 9;
    let mut lost = one_worker(4);
    lost.queue = name("nobody");
    let mut other = workload(1);
    other.priority = 9;
    let mut ring = queue();
    ring.parent = Some(name("team"));
    let mut orphan = queue();
    orphan.parent = Some(name("nobody"));
    let main = || name("main");

    let rows = [
        (Request::Submit(workload(1)), Ok(())),
        (Request::Submit(other), Err(Refusal::NameTaken(name("w1")))),
        (
            Request::Submit(twice),
            Err(Refusal::GroupTwice(name("job1"), main())),
        ),
        (
            Request::Submit(empty),
            Err(Refusal::NoWorkers(name("job2"))),
        ),
        (
            Request::Submit(greedy),
            Err(Refusal::BadMinimum(name("job3"), main())),
        ),
        (Request::Submit(lost), Err(Refusal::NoQueue(name("nobody")))),
        (
            Request::Cancel(name("w9")),
            Err(Refusal::NoWorkload(name("w9"))),
        ),
        (Request::Cancel(name("w1")), Ok(())),
        (
            Request::NodeGone(name("n9")),
            Err(Refusal::NoNode(name("n9"))),
        ),
        (
            Request::NodeHealth(name("n9"), Health::Ready),
            Err(Refusal::NoNode(name("n9"))),
        ),
        (
            Request::Gpu(name("n0"), 1, true),
            Err(Refusal::NoGpu(name("n0"), 1)),
        ),
        (Request::Queue(ring), Err(Refusal::QueueLoop(name("team")))),
        (
            Request::Queue(orphan),
            Err(Refusal::NoQueue(name("nobody"))),
        ),
    ];
    let mut control = Control::new(planner(), BUDGET, genesis(0));
    close(&mut control, 0);
    // One by one: within a batch an object's later state would hide the earlier one.
    for (n, (request, expected)) in rows.into_iter().enumerate() {
        let shown = format!("{n}: {request:?}");
        ask(&mut control, request);
        let (output, deeds) = close(&mut control, 1);
        assert!(
            deeds.contains(&Deed::Answer {
                to: 7,
                reply: expected.clone()
            }),
            "{shown}"
        );
        if expected.is_err() {
            assert!(output.records.is_empty(), "{shown} left a record");
        }
    }
    // A client that lost its answer asks again.
    ask(&mut control, Request::Submit(workload(2)));
    ask(&mut control, Request::Submit(workload(2)));
    let (_, deeds) = close(&mut control, 2);
    let fine = Deed::Answer {
        to: 7,
        reply: Ok(()),
    };
    assert_eq!(deeds.iter().filter(|deed| **deed == fine).count(), 2);
}

/// Prices are asked for with the first arrival and take effect with the first more than 3 later,
/// however early or late the answer is.
#[test]
fn prices_change_at_counts_of_arrivals() {
    for answer_at in [1, 2, 3, 4, 9] {
        let mut control = Control::new(planner(), BUDGET, genesis(5));
        let mut asked = None;
        for n in 1..=9 {
            ask(&mut control, Request::Submit(one_worker(n)));
            let (mut output, deeds) = close(&mut control, u64::from(n));
            asked = asked.or(deeds.iter().find_map(|deed| match deed {
                Deed::Refine { asked_at } => Some((n, *asked_at)),
                _ => None,
            }));
            let answer = |control: &mut Control<Planner>| {
                control.input(Input::Refined {
                    asked_at: 1,
                    prices: Prices::default(),
                });
            };
            if n == answer_at {
                answer(&mut control);
            }
            let blocked = control.blocked_on_refine();
            assert_eq!(
                blocked.is_some(),
                n == 5 && answer_at > 4,
                "{n} {answer_at}"
            );
            if blocked.is_some() {
                assert_eq!(output.records, []);
                answer(&mut control);
                output = close(&mut control, u64::from(n)).0;
            }
            let events = output.records.iter().flat_map(|batch| &batch.events);
            let priced = events
                .filter(|event| matches!(event, Event::Priced(_)))
                .count();
            assert_eq!(priced, usize::from(n == 5), "{n} {answer_at}");
        }
        assert_eq!(asked, Some((1, 1)));
    }
}

fn report(heard: MessageNo, seq: u64, workers: Vec<WorkerReport>) -> Input {
    Input::Report(NodeReport {
        node: name("n0"),
        seq: (1, seq),
        heard,
        workers,
        sick: Vec::new(),
    })
}

/// The control plane was away while a start took longer than it may. That is held against
/// nobody: the deadline counts from the next observation.
#[test]
fn downtime_is_held_against_nobody() {
    let mut control = Control::new(planner(), BUDGET, genesis(0));
    ask(&mut control, Request::Submit(one_worker(1)));
    let (output, _) = close(&mut control, 0);
    let mut journal = output.records;
    let again = |journal: &[Batch]| {
        Control::restore(planner(), BUDGET, journal.iter().cloned(), &mut NoSink).unwrap()
    };

    let mut control = again(&journal);
    let (output, deeds) = close(&mut control, 1_000_000);
    journal.extend(output.records);
    let hello =
        |deed: &&Deed| matches!(deed, Deed::Send { message, .. } if message.order == Order::Hello);
    assert_eq!(deeds.iter().filter(hello).count(), 2);
    let overdue = |control: &Control<Planner>| {
        control
            .state()
            .open_actions()
            .any(|open| open.life == cleave_model::action::Life::Overdue)
    };
    assert!(!overdue(&control));

    let heard = MessageNo {
        incarnation: control.incarnation(),
        number: 1,
    };
    let worker = cleave_model::WorkerId {
        workload: name("job1"),
        index: 0,
    };
    let sight = WorkerReport {
        worker,
        attempt: 1,
        state: WorkerState::Preparing,
    };
    control.input(report(heard, 1, vec![sight.clone()]));
    let (output, _) = close(&mut control, 1_100_000);
    journal.extend(output.records);
    assert_eq!(control.state().leases().count(), 1);
    let due = 1_100_000 + control.state().policy().start_deadline_ms;
    close(&mut control, due - 1);
    assert!(!overdue(&control));
    close(&mut control, due);
    assert!(overdue(&control));

    // A report that answers to an earlier start says nothing, not even by what it lacks.
    let mut control = again(&journal);
    close(&mut control, 2_000_000);
    control.input(report(heard, 9, Vec::new()));
    close(&mut control, 2_000_001);
    assert_eq!(control.state().leases().count(), 1);
    let heard = MessageNo {
        incarnation: control.incarnation(),
        number: 1,
    };
    control.input(report(heard, 2, Vec::new()));
    close(&mut control, 2_000_002);
    let lease = control.state().leases().next();
    assert!(
        lease.is_none_or(|lease| lease.attempt > 1),
        "it was never there: {lease:?}"
    );
}

/// That a report does not list an attempt proves nothing while its message may be under way, nor
/// after a hint that overtook the report.
#[test]
fn what_may_be_under_way_is_not_lost() {
    let mut control = Control::new(planner(), BUDGET, genesis(0));
    ask(&mut control, Request::Submit(one_worker(1)));
    let (_, deeds) = close(&mut control, 0);
    let last = |deeds: &[Deed]| {
        let sent = deeds.iter().filter_map(|deed| match deed {
            Deed::Send { message, .. } => Some(message.no),
            _ => None,
        });
        sent.max().unwrap()
    };
    let place = last(&deeds);
    let before = MessageNo {
        number: place.number - 1,
        ..place
    };
    let worker = cleave_model::WorkerId {
        workload: name("job1"),
        index: 0,
    };
    let lease = |control: &Control<Planner>| {
        let lease = control.state().lease(&worker);
        lease.map(|lease| (lease.attempt, lease.phase))
    };

    let (attempt, _) = lease(&control).expect("placed");
    control.input(report(before, 1, Vec::new()));
    close(&mut control, 1);
    assert_eq!(lease(&control), Some((attempt, Phase::Preparing)));

    let action = place_name(&worker, attempt);
    control.input(Input::Result(ActionResult {
        action,
        outcome: Ok(()),
    }));
    close(&mut control, 2);
    assert_eq!(lease(&control), Some((attempt, Phase::Running)));
    control.input(report(before, 2, Vec::new()));
    close(&mut control, 3);
    assert_eq!(
        lease(&control),
        Some((attempt, Phase::Running)),
        "the hint was true"
    );

    ask(&mut control, Request::Cancel(name("job1")));
    let evict = last(&close(&mut control, 4).1);
    control.input(report(place, 3, Vec::new()));
    close(&mut control, 5);
    assert_eq!(lease(&control), Some((attempt, Phase::Draining)));
    control.input(report(evict, 2, Vec::new()));
    close(&mut control, 6);
    assert_eq!(
        lease(&control),
        Some((attempt, Phase::Draining)),
        "older than the last"
    );
    control.input(report(evict, 4, Vec::new()));
    close(&mut control, 7);
    assert_eq!(lease(&control), None);
    assert!(control.state().workload("job1").is_none());
}

#[test]
fn a_journal_with_a_gap_is_refused() {
    let batch = |number, now| Batch {
        number,
        now,
        events: Vec::new(),
    };
    let rows = [
        (vec![batch(1, 0), batch(2, 0)], Ok(())),
        // A state that was written out stands for everything before it.
        (vec![batch(7, 0), batch(8, 0)], Ok(())),
        (
            vec![batch(1, 0), batch(3, 0)],
            Err(BadJournal::Gap {
                expected: 2,
                found: 3,
            }),
        ),
        (
            vec![batch(1, 5), batch(2, 4)],
            Err(BadJournal::Backwards { number: 2 }),
        ),
    ];
    for (journal, expected) in rows {
        let restored = Control::restore(planner(), BUDGET, journal, &mut NoSink);
        assert_eq!(restored.map(|_| ()), expected);
    }
}
