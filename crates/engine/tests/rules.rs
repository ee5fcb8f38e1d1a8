//! The rules that never break, over random clusters, workloads and facts, for every planner.

use cleave_engine::{
    Planner, State,
    constraints::{admits, domain},
    fit::{self, As, Need},
    planner::{ByPrice, FirstFit, Walk},
    state::NoSink,
};
use cleave_model::{
    GPU, Name, WorkerId,
    action::{ActionName, Failure, Life, Subject, Verb, What},
    ask::{Affinity, AffinityKind, Ask, Constraints, Gpus, Isolation, Part},
    event::{Batch, Event, Interval},
    node::{Health, Node},
    observation::{Exit, MessageNo},
    plan::{Budget, Plan},
    policy::Policy,
    verdict::Verdict,
    workload::{Class, Group, Workload},
};
use proptest::prelude::*;

/// A new state; boards and their layouts are made once for all of them.
fn blank() -> State {
    static BLANK: std::sync::LazyLock<State> = std::sync::LazyLock::new(State::new);
    BLANK.clone()
}

fn name(text: impl AsRef<str>) -> Name {
    Name::new(text).expect("a legal name")
}

const BOARDS: [&str; 4] = [
    "A100-40GB",
    "H100-80GB-SXM",
    "T4",
    "RTX-PRO-6000-Blackwell-96GB",
];

fn node(number: usize) -> impl Strategy<Value = Node> {
    let boards = prop_oneof![
        4 => (0..BOARDS.len(), 0_usize..5).prop_map(|(b, n)| vec![name(BOARDS[b]); n]),
        1 => Just(vec![name("A100-40GB"), name("T4")]),
    ];
    (
        boards,
        1_u64..64,
        1_u64..256,
        1_u32..12,
        0_usize..3,
        any::<bool>(),
    )
        .prop_map(move |(gpus, cpu, memory, pods, rack, tainted)| Node {
            name: name(format!("n{number}")),
            cpu_milli: cpu * 1000,
            memory_bytes: memory << 30,
            pods,
            gpus,
            links: Vec::new(),
            labels: [(name("rack"), name(format!("r{rack}")))].into(),
            taints: if tainted {
                vec![name("spot")]
            } else {
                Vec::new()
            },
            pool: name("on-demand"),
            price_micros: None,
        })
}

fn part() -> impl Strategy<Value = (Part, u32)> {
    prop_oneof![
        (1_u32..5).prop_map(|count| (Part::Whole, count)),
        (
            prop::sample::select(vec!["1g.5gb", "1g.10gb", "3g.40gb", "2g.10gb", "4g.20gb"]),
            1_u32..4
        )
            .prop_map(|(profile, count)| (Part::Profile(name(profile)), count)),
        (1_u32..1000, 1_u32..3).prop_map(|(milli, count)| {
            (
                Part::Share {
                    compute: Some(milli * (GPU / 1000)),
                    memory_mib: None,
                },
                count,
            )
        }),
        (512_u32..50_000).prop_map(|mib| {
            (
                Part::Share {
                    compute: None,
                    memory_mib: Some(mib),
                },
                1,
            )
        }),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let gpus = (
        part(),
        prop::sample::select(vec![Isolation::None, Isolation::Limited, Isolation::Hard]),
    )
        .prop_map(|((part, count), isolation)| {
            let shared = matches!(part, Part::Share { .. });
            let isolation = if shared { isolation } else { Isolation::Hard };
            Gpus {
                count,
                part,
                isolation,
                models: Vec::new(),
                graphics: false,
            }
        });
    let limits = (0_usize..8, any::<bool>(), 0_usize..6).prop_map(|(rack, spot, pair)| {
        let affinity = match pair {
            0 => vec![Affinity {
                kind: AffinityKind::Apart,
                level: name("host"),
                with: (0..4).map(|n| name(format!("w{n}"))).collect(),
            }],
            1 => vec![Affinity {
                kind: AffinityKind::Near,
                level: name("rack"),
                with: (0..6).map(|n| name(format!("w{n}"))).collect(),
            }],
            _ => Vec::new(),
        };
        Constraints {
            select: if rack < 3 {
                [(name("rack"), name(format!("r{rack}")))].into()
            } else {
                Default::default()
            },
            tolerate: if spot { vec![name("spot")] } else { Vec::new() },
            affinity,
        }
    });
    (
        prop::option::weighted(0.9, gpus),
        0_u64..16,
        0_u64..64,
        limits,
    )
        .prop_map(|(gpus, cpu, memory, limits)| Ask {
            cpu_milli: cpu * 500,
            memory_bytes: memory << 29,
            gpus,
            limits,
        })
}

fn workload(number: usize) -> impl Strategy<Value = Workload> {
    (
        prop::collection::vec((ask(), 1_u32..4, 0_u32..3), 1..3),
        0_i32..3,
    )
        .prop_map(move |(groups, priority)| Workload {
            name: name(format!("w{number}")),
            queue: name("default"),
            class: Class::Batch,
            priority,
            groups: groups
                .into_iter()
                .enumerate()
                .map(|(at, (ask, workers, spare))| Group {
                    name: name(format!("g{at}")),
                    workers,
                    min: workers.saturating_sub(spare).max(1),
                    ask,
                })
                .collect(),
            submitted: number as u64,
            duration: None,
            retries: 0,
        })
}

/// Something that happens, chosen when it does by an arbitrary number.
#[derive(Clone, Debug)]
enum Step {
    Submit(Workload),
    Node(Node),
    Confirm(usize),
    Finish(usize),
    Fail(usize),
    Cancel(usize),
    Close(usize, bool),
    Reclaim(usize),
    Lose(usize),
    Sick(usize, bool),
    Pass(u64),
}

fn step(number: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => workload(number).prop_map(Step::Submit),
        1 => node(number).prop_map(Step::Node),
        4 => any::<usize>().prop_map(Step::Confirm),
        3 => any::<usize>().prop_map(Step::Finish),
        1 => any::<usize>().prop_map(Step::Fail),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(n, up)| Step::Close(n, up)),
        1 => any::<usize>().prop_map(Step::Reclaim),
        1 => any::<usize>().prop_map(Step::Lose),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(n, sick)| Step::Sick(n, sick)),
        1 => (1_u64..400_000).prop_map(Step::Pass),
    ]
}

fn story() -> impl Strategy<Value = Vec<Step>> {
    let nodes: Vec<_> = (0..5).map(|n| node(n).prop_map(Step::Node)).collect();
    let steps: Vec<_> = (5..45).map(step).collect();
    (nodes, steps).prop_map(|(nodes, steps)| [nodes, steps].concat())
}

/// A state with a planner, driven by hand.
struct Bench<P: Planner> {
    planner: P,
    scratch: P::Scratch,
    state: State,
    history: Vec<Batch>,
    intervals: Vec<Interval>,
    message: u64,
}

impl<P: Planner> Bench<P> {
    fn new(planner: P) -> Self {
        let mut bench = Self {
            planner,
            scratch: P::Scratch::default(),
            state: blank(),
            history: Vec::new(),
            intervals: Vec::new(),
            message: 0,
        };
        bench.apply(0, vec![Event::Policy(Policy::default())]);
        bench
    }

    fn apply(&mut self, now: u64, events: Vec<Event>) {
        let number = self.state.batch() + 1;
        let batch = Batch {
            number,
            now,
            events,
        };
        self.state.apply(&batch, &mut self.intervals);
        self.history.push(batch);
    }

    fn lease(&self, pick: usize) -> Option<(WorkerId, u32)> {
        let leases: Vec<_> = self.state.leases().collect();
        (!leases.is_empty()).then(|| {
            let lease = leases[pick % leases.len()];
            (lease.worker.clone(), lease.attempt)
        })
    }

    fn node(&self, pick: usize) -> Option<Name> {
        let nodes: Vec<_> = self
            .state
            .nodes()
            .map(|(_, books)| books.name().clone())
            .collect();
        (!nodes.is_empty()).then(|| nodes[pick % nodes.len()].clone())
    }

    fn events(&self, step: &Step) -> Vec<Event> {
        let event = match step.clone() {
            Step::Submit(workload) => Some(Event::Submit(workload)),
            Step::Node(node) => Some(Event::Node(node)),
            Step::Confirm(n) => self.lease(n).map(|(w, a)| Event::Started(w, a)),
            Step::Finish(n) => self.lease(n).map(|(w, a)| Event::Freed(w, a, Exit::Done)),
            Step::Fail(n) => self
                .lease(n)
                .map(|(w, a)| Event::Failed(w, a, Failure::Cut(0))),
            Step::Cancel(n) => {
                let names: Vec<_> = self
                    .state
                    .workloads()
                    .map(|(name, _)| name.clone())
                    .collect();
                (!names.is_empty()).then(|| Event::Cancel(names[n % names.len()].clone()))
            }
            Step::Close(n, up) => self.node(n).map(|node| {
                Event::NodeHealth(node, if up { Health::Ready } else { Health::Cordoned })
            }),
            Step::Reclaim(n) => self
                .node(n)
                .map(|node| Event::NodeHealth(node, Health::Reclaiming(1))),
            Step::Lose(n) if n % 2 == 0 => self.node(n / 2).map(Event::NodeGone),
            Step::Lose(n) => self.node(n / 2).map(|n| Event::NodeHealth(n, Health::Lost)),
            Step::Sick(n, sick) => self.node(n).map(|node| Event::GpuSick(node, 0, sick)),
            Step::Pass(_) => None,
        };
        event.into_iter().collect()
    }

    fn plan(&mut self) -> Plan {
        let now = self.state.now();
        self.planner
            .plan(&self.state, &mut self.scratch, now, Budget::UNBOUNDED)
    }

    /// Folds a plan; half of its actions are to be told to the hands.
    fn decide(&mut self, plan: Plan) -> Vec<ActionName> {
        let halved = plan.actions.iter().step_by(2);
        let told = halved.map(|action| action.name.clone()).collect();
        self.apply(self.state.now(), vec![Event::Decided(plan)]);
        told
    }

    fn tell(&mut self, actions: Vec<ActionName>) {
        let mut events = Vec::new();
        for action in actions {
            self.message += 1;
            let number = self.message;
            let message = MessageNo {
                incarnation: 1,
                number,
            };
            events.push(Event::Sent(action, message));
        }
        self.apply(self.state.now(), events);
        self.state.check().expect("after telling");
    }
}

fn restored(state: &State) -> State {
    let mut copy = blank();
    let batch = Batch {
        number: state.batch(),
        now: state.now(),
        events: state.genesis(),
    };
    copy.apply(&batch, &mut NoSink);
    copy
}

fn gangs_are_whole(state: &State, plan: &Plan) {
    let mut after = state.clone();
    let batch = Batch {
        number: state.batch() + 1,
        now: state.now(),
        events: vec![Event::Decided(plan.clone())],
    };
    after.apply(&batch, &mut NoSink);
    for name in after.ailing().keys() {
        assert!(
            state.ailing().contains_key(name),
            "the plan leaves gang {name} in between"
        );
    }
    for (name, work) in after.workloads() {
        if work.missing() > 0 && !work.cancelled && !work.holds() {
            let verdict = after.verdict(name.as_str());
            let said = matches!(verdict, Some(Verdict::Not(_) | Verdict::BudgetEnded(_)));
            assert!(said, "{name} waits without a reason: {work:?} {plan:?}");
        }
    }
}

fn rules<P: Planner + Clone>(planner: P, story: &[Step]) {
    let mut bench = Bench::new(planner.clone());
    let mut now = 0;
    for step in story {
        now += if let Step::Pass(ms) = step { *ms } else { 10 };
        let events = bench.events(step);
        bench.apply(now, events);
        bench.state.check().expect("after a fact");

        let copy = restored(&bench.state);
        assert_eq!(
            copy.canonical(),
            bench.state.canonical(),
            "genesis gives an equal state"
        );
        let plan = bench.plan();
        let mut fresh = P::Scratch::default();
        let again = planner.plan(&bench.state, &mut fresh, now, Budget::UNBOUNDED);
        assert_eq!(plan, again, "a fresh scratch gives the same plan");
        let mut fresh = P::Scratch::default();
        let again = planner.plan(&copy, &mut fresh, now, Budget::UNBOUNDED);
        assert_eq!(plan, again, "an equal state gives the same plan");
        gangs_are_whole(&bench.state, &plan);

        let placed: Vec<_> = plan
            .actions
            .iter()
            .filter(|a| a.name.verb == Verb::Place)
            .collect();
        for action in placed {
            let What::Place(hold) = &action.what else {
                panic!("a place holds something")
            };
            assert!(matches!(action.name.subject, Subject::Worker(_)));
            let (_, books) = bench
                .state
                .nodes()
                .find(|(_, b)| *b.name() == hold.node)
                .unwrap();
            assert!(books.is_open(), "nothing is placed on a closed node");
            let Subject::Worker(id) = &action.name.subject else {
                unreachable!()
            };
            let work = bench.state.workload(id.workload.as_str()).unwrap();
            let limits = &work.spec.group_of(id.index).unwrap().0.ask.limits;
            assert_eq!(admits(&books.node, limits), Ok(()));
        }
        let first = plan.clone();
        let took_back = !plan.withdrawn.is_empty();
        let told = bench.decide(plan);
        kept_apart(&bench.state);
        bench.state.check().expect("after a decision");
        let contested = bench.state.nodes().any(|(_, books)| books.contested > 0);
        assert!(!contested, "no plan contradicts itself");
        let plain = Walk::new(FirstFit::default());
        let missed = plain.plan(
            &bench.state,
            &mut Default::default(),
            now,
            Budget::UNBOUNDED,
        );
        // Gangs are tried one worker after the other, and another order may fit where one fails.
        let missed = missed.actions.iter().find(|action| {
            let Subject::Worker(id) = &action.name.subject else {
                return false;
            };
            let work = bench.state.workload(id.workload.as_str()).expect("known");
            action.name.verb == Verb::Place && work.spec.workers() == 1
        });
        assert!(
            took_back || missed.is_none(),
            "there was a place: {missed:?}"
        );
        let second = bench.plan();
        // What the first took back is free only now.
        assert!(
            took_back || second.is_idle(),
            "a second plan decides nothing: {second:?}\nthe first was {first:?}\n{:?}",
            second
                .verdicts
                .iter()
                .map(|v| bench.state.workload(v.like.as_str()))
                .next(),
        );
        bench.decide(second);
        assert!(bench.plan().is_idle(), "a third plan decides nothing");
        bench.tell(told);
    }
    plain_search_agrees(&bench.state);
    let mut replayed = blank();
    for batch in &bench.history {
        replayed.apply(batch, &mut NoSink);
    }
    assert_eq!(
        replayed.canonical(),
        bench.state.canonical(),
        "a replay gives an equal state"
    );
    sums(&mut bench);
}

/// No two workers share a domain that one of them wants apart from the other.
fn kept_apart(state: &State) {
    let places = |work: &Name, level: &Name| -> Vec<(u32, Name)> {
        let work = state.workload(work.as_str());
        let workers = work
            .into_iter()
            .flat_map(|w| w.workers.iter().filter_map(|w| w.lease()));
        let here = workers.filter_map(|lease| {
            let (_, books) = state.nodes().find(|(_, b)| *b.name() == lease.hold.node)?;
            Some((lease.worker.index, domain(&books.node, level)?.clone()))
        });
        here.collect()
    };
    for work in state.shy() {
        for (at, first, workers) in work.groups() {
            for affinity in &work.spec.groups[at].ask.limits.affinity {
                if affinity.kind != AffinityKind::Apart {
                    continue;
                }
                for (index, worker) in (first..).zip(workers) {
                    let Some(lease) = worker.lease() else {
                        continue;
                    };
                    let node = state.nodes().find(|(_, b)| *b.name() == lease.hold.node);
                    let mine = node
                        .and_then(|(_, b)| domain(&b.node, &affinity.level))
                        .cloned();
                    for other in &affinity.with {
                        for (theirs, there) in places(other, &affinity.level) {
                            let own = other == work.name() && theirs == index;
                            assert!(own || Some(there) != mine, "{}.{index}", work.name());
                        }
                    }
                }
            }
        }
    }
}

/// Whether something fits is told without making it, too.
fn plain_search_agrees(state: &State) {
    let boards = state.boards();
    for (ix, ask, _) in state.asks() {
        let Ok(ways) = state.ways(ix) else {
            continue;
        };
        let need = Need::of(ask, ways, boards);
        for (_, books) in state.nodes() {
            let now = fit::hold(books, ask, ways, boards);
            let told = need.fits(books, As::Now);
            assert_eq!(
                told.err(),
                now.as_ref().err().copied(),
                "{ask:?} on {books:?}"
            );
            if let Ok(hold) = now {
                assert!(
                    books.clone().take(&hold, boards).is_ok(),
                    "{hold:?} on {books:?}"
                );
            }
            let emptied = fit::hold(&books.emptied(), ask, ways, boards);
            let told = need.fits(books, As::New);
            assert_eq!(told.err(), emptied.err(), "{ask:?} on {books:?} when empty");
        }
    }
}

/// Every GPU-millisecond has exactly one owner and state.
fn sums<P: Planner>(bench: &mut Bench<P>) {
    let mut sink = std::mem::take(&mut bench.intervals);
    bench.state.meter_all(&mut sink);
    let mut by_span = std::collections::BTreeMap::new();
    for i in &sink {
        assert!(i.from < i.to);
        *by_span
            .entry((i.node.clone(), i.gpu, i.from, i.to))
            .or_insert(0) += u64::from(i.units);
    }
    let mut ends = std::collections::BTreeMap::new();
    for ((node, gpu, from, to), units) in by_span {
        assert_eq!(units, u64::from(GPU), "{node}/{gpu} from {from} to {to}");
        if let Some(end) = ends.insert((node.clone(), gpu), to) {
            assert!(end <= from, "{node}/{gpu} is metered twice");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Default::default()
    })]

    #[test]
    fn first_fit_keeps_the_rules(story in story()) {
        rules(Walk::new(FirstFit::default()), &story);
    }

    #[test]
    fn by_price_keeps_the_rules(story in story()) {
        rules(Walk::new(ByPrice::default()), &story);
    }
}

#[test]
fn an_open_action_is_overdue_only_once_sent() {
    let mut bench = Bench::new(Walk::new(FirstFit::default()));
    let node = Node {
        name: name("n"),
        cpu_milli: 1000,
        memory_bytes: 1,
        pods: 1,
        gpus: vec![name("T4")],
        links: Vec::new(),
        labels: Default::default(),
        taints: Vec::new(),
        pool: name("p"),
        price_micros: None,
    };
    let gpus = Gpus {
        count: 1,
        part: Part::Whole,
        isolation: Isolation::Hard,
        models: vec![vec![name("T4")]],
        graphics: false,
    };
    let work = Workload {
        name: name("w"),
        queue: name("q"),
        class: Class::Batch,
        priority: 0,
        groups: vec![Group {
            name: name("g"),
            workers: 1,
            min: 1,
            ask: Ask {
                gpus: Some(gpus),
                ..Ask::default()
            },
        }],
        submitted: 0,
        duration: None,
        retries: 0,
    };
    bench.apply(0, vec![Event::Node(node), Event::Submit(work)]);
    let plan = bench.plan();
    let action = plan.actions[0].name.clone();
    bench.apply(
        0,
        vec![Event::Decided(plan), Event::Overdue(action.clone())],
    );
    assert_eq!(bench.state.open(&action).unwrap().life, Life::Proposed);
    bench.apply(
        1,
        vec![
            Event::Sent(
                action.clone(),
                MessageNo {
                    incarnation: 1,
                    number: 1,
                },
            ),
            Event::Overdue(action.clone()),
        ],
    );
    assert_eq!(bench.state.open(&action).unwrap().life, Life::Overdue);
}
