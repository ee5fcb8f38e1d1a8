//! Before the first refinement asks bid their weights, and the mix so far breaks ties.

use cleave_engine::{
    Planner, State,
    planner::{ByPrice, Scratch, Walk},
    state::NoSink,
};
use cleave_model::{
    GPU, Name, WorkerId,
    action::{Subject, What},
    ask::{Ask, Constraints, Gpus, Isolation, Part},
    event::{Batch, Event},
    node::Node,
    plan::{Budget, Plan},
    policy::{Mix, Policy},
    workload::{Class, Group, Workload},
};

fn name(text: &str) -> Name {
    Name::new(text).expect("a legal name")
}

/// A node with one GPU in a zone of its own name.
fn node(zone: &str) -> Event {
    Event::Node(Node {
        name: name(zone),
        cpu_milli: 8_000,
        memory_bytes: 1 << 40,
        pods: 99,
        gpus: vec![name("T4")],
        links: Vec::new(),
        labels: [(name("zone"), name(zone))].into(),
        taints: Vec::new(),
        pool: name("p"),
        price_micros: None,
    })
}

/// Workers that each want so many thousandths of a GPU, in `zone` if any.
fn work(as_name: &str, workers: u32, milli: u32, zone: Option<&str>) -> Event {
    let share = Part::Share {
        compute: Some(milli * (GPU / 1000)),
        // In proportion, too, so that weights add up.
        memory_mib: Some(milli * 15),
    };
    let gpus = Gpus {
        count: 1,
        part: share,
        isolation: Isolation::Limited,
        models: Vec::new(),
        graphics: false,
    };
    let limits = Constraints {
        select: zone
            .map(|zone| (name("zone"), name(zone)))
            .into_iter()
            .collect(),
        ..Constraints::default()
    };
    let ask = Ask {
        gpus: Some(gpus),
        limits,
        ..Ask::default()
    };
    Event::Submit(Workload {
        name: name(as_name),
        queue: name("q"),
        class: Class::Batch,
        priority: 0,
        groups: vec![Group {
            name: name("g"),
            workers,
            min: workers,
            ask,
        }],
        submitted: 0,
        duration: None,
        retries: 0,
    })
}

struct Bench {
    state: State,
    kept: Scratch<ByPrice>,
}

impl Bench {
    fn apply(&mut self, events: Vec<Event>) {
        let number = self.state.batch() + 1;
        let batch = Batch {
            number,
            now: 0,
            events,
        };
        self.state.apply(&batch, &mut NoSink);
    }

    /// The plan of the kept scratch, which a fresh one must agree with.
    fn plan(&mut self) -> Plan {
        let planner = Walk::new(ByPrice::default());
        let kept = planner.plan(&self.state, &mut self.kept, 0, Budget::UNBOUNDED);
        let mut fresh = Scratch::default();
        let fresh = planner.plan(&self.state, &mut fresh, 0, Budget::UNBOUNDED);
        assert_eq!(kept, fresh, "a fresh scratch gives the same plan");
        kept
    }
}

/// Where a share of 300 goes when so many more have come that want 500 and find no place: to the
/// GPU with 600 left, or to the one with 500 left.
fn place_of_300(more_of_500: u32) -> Name {
    let mut bench = Bench {
        state: State::new(),
        kept: Scratch::default(),
    };
    let learned = Policy {
        mix: Mix::Learned,
        ..Policy::default()
    };
    // Sizes are multiples of one that is asked for, so that nothing is lost by any choice and the
    // mix decides. Every ask is known from the beginning; only counts change.
    bench.apply(vec![
        Event::Policy(learned),
        node("a"),
        node("b"),
        work("on-a", 4, 100, Some("a")),
        work("on-b", 5, 100, Some("b")),
        work("nowhere", 1, 500, Some("c")),
        work("withdrawn", 1, 300, None),
        Event::Cancel(name("withdrawn")),
    ]);
    let first = bench.plan();
    assert_eq!(first.actions.len(), 9);
    bench.apply(vec![
        Event::Decided(first),
        work("nowhere-too", more_of_500, 500, Some("c")),
        work("asked", 1, 300, None),
    ]);
    let second = bench.plan();
    let asked = Subject::Worker(WorkerId {
        workload: name("asked"),
        index: 0,
    });
    let action = second.actions.iter().find(|a| a.name.subject == asked);
    match &action.expect("there is room").what {
        What::Place(hold) => hold.node.clone(),
        other => panic!("{other:?}"),
    }
}

/// A GPU with 500 left is kept for those who want as much only if there are some to speak of; a
/// scratch that remembers older counts must not decide by them.
#[test]
fn ties_are_broken_by_what_has_arrived_until_now() {
    assert_eq!(place_of_300(1), name("a"));
    assert_eq!(place_of_300(200), name("b"));
}
