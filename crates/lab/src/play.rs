//! Plays a scenario through the simulated world and compares what comes with what it expects.

use cleave_control::Request;
use cleave_device::gpu::Latencies;
use cleave_engine::{
    State, fit,
    forms::{Form, ways},
    inventory::NodeBooks,
    planner::{ByPrice, Planner, Question, Walk},
};
use cleave_model::{
    Millis, Name,
    event::{Batch, Event},
    lease::{Hold, Lease, Phase},
    observation::Exit,
    plan::Budget,
    prices::Prices,
    verdict::Verdict,
};
use cleave_scenario::{
    Check, Difference, Duration, Expect, Happening, Held, Scenario, Snapshot, Standing, When, judge,
};
use cleave_sim::{Model, Outcome, Settings, Violation, World};
use std::collections::{BTreeMap, BTreeSet};

/// What came of a scenario.
#[derive(Debug)]
pub struct Played {
    /// Expectations that do not hold, in the order of their times.
    pub differences: Vec<Difference>,
    /// Counts and times.
    pub outcome: Outcome,
    /// What is at the end.
    pub end: Snapshot,
    /// When the end was.
    pub ended: Millis,
    /// The GPUs of each node at the end, as lines of slices.
    pub fleet: Vec<(Name, Vec<String>)>,
}

/// Why a scenario could not be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// Work that runs from the start does not fit where the file puts it.
    #[error("`{0}` can't run from the start on {1}: it does not fit there beside the others")]
    Held(Name, Name),
    /// Work that runs from the start on nodes that take their time.
    #[error(
        "`{0}` runs from the start, which is not supported yet together with `latency`: submit it \
         instead, or leave `latency` out"
    )]
    HeldInTime(Name),
    /// The control plane refused something that the file asks for.
    #[error("{0}")]
    Refused(String),
    /// A rule that never breaks was found broken: a fault of this program.
    #[error("a rule broke, please report this file: {0}")]
    Broken(String),
}

impl From<Violation> for PlayError {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation.to_string())
    }
}

type Planned = Walk<ByPrice>;
type Scene = World<Planned, fn(&State) -> Prices>;

/// Nothing is waited for longer than this after the last thing that the file says.
const LONGEST_MS: Millis = 2 * Duration::MAX.0;

/// Plays `scenario` to its end.
///
/// # Errors
/// The scenario contradicts itself, or a rule broke.
pub fn play(scenario: &Scenario) -> Result<Played, PlayError> {
    let genesis = genesis(scenario)?;
    let settings = Settings {
        model: model(scenario)?,
        check: true,
        ..Settings::default()
    };
    let refine: fn(&State) -> Prices = |state| Question::of(state).answer();
    let mut scene = Scene::new(Planned::default(), refine, settings, genesis);
    let mut script = script(scenario).into_iter().peekable();
    let mut differences = Vec::new();
    let mut expects = scenario.expects.iter().peekable();
    let mut now = 0;
    loop {
        let next_expect = expects.peek().and_then(|expect| match expect.at {
            When::At(at) => Some(at),
            When::End => None,
        });
        let next_deed = script.peek().map(|(at, _)| *at);
        let Some(at) = [next_expect, next_deed].into_iter().flatten().min() else {
            break;
        };
        now = at;
        let mut requests = Vec::new();
        let mut ends = Vec::new();
        while let Some((_, deed)) = script.next_if(|(then, _)| *then <= at) {
            match deed {
                Deed::Ask(request) => requests.push((at, *request)),
                Deed::End(name, index, exit) => ends.push((name, index, exit)),
            }
        }
        scene.run(requests, at)?;
        for (name, index, exit) in ends {
            for worker in running(&scene, &name, index) {
                scene.end(&worker, exit);
            }
        }
        scene.run([], at)?;
        while let Some(expect) = expects.next_if(|expect| expect.at == When::At(at)) {
            differences.extend(compare(scenario, expect, &scene));
        }
    }
    let mut until = now.max(script_end(scenario));
    let (mut step, latest) = (60_000, until + LONGEST_MS);
    scene.run([], until)?;
    while until < latest
        && scene
            .control()
            .is_none_or(|control| has_more_to_come(control.state()))
    {
        until += step;
        step *= 2;
        scene.run([], until)?;
    }
    for expect in expects {
        differences.extend(compare(scenario, expect, &scene));
    }
    if let Some(refusal) = scene.refused().first() {
        return Err(PlayError::Refused(refusal.to_string()));
    }
    Ok(Played {
        differences,
        outcome: scene.outcome().clone(),
        end: snapshot(scenario, &scene),
        ended: scene.now(),
        fleet: fleet(&scene),
    })
}

/// Things that a file writes down, in the order in which they happen.
enum Deed {
    Ask(Box<Request>),
    End(Name, Option<u32>, Exit),
}

fn script(scenario: &Scenario) -> Vec<(Millis, Deed)> {
    let ask = |request| Deed::Ask(Box::new(request));
    let held: BTreeSet<&Name> = scenario.held.iter().map(|h| &h.worker.workload).collect();
    let submits = scenario
        .workloads
        .iter()
        .filter(|work| !held.contains(&work.name));
    let mut script: Vec<(Millis, Deed)> = submits
        .map(|work| (work.submitted, ask(Request::Submit(work.clone()))))
        .collect();
    for timed in &scenario.events {
        use cleave_model::node::Health;
        let deed = match timed.what.clone() {
            Happening::AddNode(node) => ask(Request::Node(node)),
            Happening::NodeUp(name) => match scenario.node(name.as_str()) {
                Some(node) => ask(Request::Node(node.clone())),
                None => continue,
            },
            Happening::NodeDown(name) => ask(Request::NodeGone(name)),
            Happening::Cordon(name) => ask(Request::NodeHealth(name, Health::Cordoned)),
            Happening::Uncordon(name) => ask(Request::NodeHealth(name, Health::Ready)),
            Happening::GpuDown(name, gpu) => ask(Request::Gpu(name, gpu, true)),
            Happening::GpuUp(name, gpu) => ask(Request::Gpu(name, gpu, false)),
            Happening::Cancel(name) => ask(Request::Cancel(name)),
            Happening::Finish(name, index) => Deed::End(name, index, Exit::Done),
            Happening::Fail(name, index) => Deed::End(name, index, Exit::Error(1)),
        };
        script.push((timed.at, deed));
    }
    script.sort_by_key(|(at, _)| *at);
    script
}

/// Whether anything will change without anybody doing anything.
fn has_more_to_come(state: &State) -> bool {
    let work = |work: &cleave_engine::state::Work| {
        let ends = work.spec.duration.is_some();
        work.workers.iter().any(|worker| match worker.lease() {
            Some(lease) => ends || lease.phase != Phase::Running,
            None => worker.past.not_before > state.now(),
        })
    };
    let open = state.open_actions().next().is_some();
    open || !state.ailing().is_empty() || state.workloads().any(|(_, w)| work(w))
}

fn script_end(scenario: &Scenario) -> Millis {
    let events = scenario.events.iter().map(|timed| timed.at);
    let submits = scenario.workloads.iter().map(|work| work.submitted);
    events.chain(submits).max().unwrap_or(0)
}

/// Nodes behave as modelled where the file gives latencies; otherwise at once.
fn model(scenario: &Scenario) -> Result<Option<Model>, PlayError> {
    let Some(latency) = &scenario.latency else {
        return Ok(None);
    };
    if let Some(held) = scenario.held.first() {
        return Err(PlayError::HeldInTime(held.worker.workload.clone()));
    }
    let latencies = Latencies {
        create_gi_ms: latency.cut_ms - latency.cut_ms / 3,
        create_ci_ms: latency.cut_ms / 3,
        destroy_gi_ms: latency.join_ms - latency.join_ms / 3,
        destroy_ci_ms: latency.join_ms / 3,
        mode_ms: latency.mode_ms,
        reset_ms: latency.reset_ms,
        ..Latencies::default()
    };
    Ok(Some(Model {
        seed: scenario.seed,
        latencies,
        start_ms: latency.start_ms,
        stop_ms: latency.exit_ms,
        ..Model::default()
    }))
}

/// The facts at the start. Work that runs already is put where the file says; where it leaves a
/// GPU open, the first that takes it.
fn genesis(scenario: &Scenario) -> Result<Vec<Event>, PlayError> {
    let mut facts = vec![Event::Policy(scenario.policy.clone())];
    facts.extend(scenario.boards.iter().cloned().map(Event::Board));
    facts.extend(scenario.queues.iter().cloned().map(Event::Queue));
    facts.extend(scenario.nodes.iter().cloned().map(Event::Node));
    if !scenario.prior.is_empty() {
        facts.push(Event::Prior(scenario.prior.clone()));
    }
    let held: BTreeSet<&Name> = scenario
        .held
        .iter()
        .map(|held| &held.worker.workload)
        .collect();
    let running = scenario
        .workloads
        .iter()
        .filter(|work| held.contains(&work.name));
    facts.extend(running.cloned().map(Event::Submit));
    let mut state = State::new();
    let batch = Batch {
        number: 1,
        now: 0,
        events: facts.clone(),
    };
    state.apply(&batch, &mut cleave_engine::state::NoSink);
    let mut books: BTreeMap<Name, NodeBooks> = state
        .nodes()
        .map(|(_, books)| (books.name().clone(), books.clone()))
        .collect();
    // Those with a said place first, so that those without do not take it from them.
    let (said, open): (Vec<&Held>, Vec<&Held>) = scenario
        .held
        .iter()
        .partition(|held| !held.spots.is_empty());
    for held in said.into_iter().chain(open) {
        let wrong = || PlayError::Held(held.worker.workload.clone(), held.node.clone());
        let node = books.get_mut(&held.node).ok_or_else(wrong)?;
        let hold = hold(scenario, held, node, &state).ok_or_else(wrong)?;
        node.take(&hold, state.boards()).map_err(|_| wrong())?;
        let worker = held.worker.clone();
        facts.push(Event::Lease(Lease {
            worker,
            attempt: 1,
            hold,
            phase: Phase::Running,
            since: 0,
        }));
    }
    Ok(facts)
}

fn hold(scenario: &Scenario, held: &Held, books: &NodeBooks, state: &State) -> Option<Hold> {
    let work = scenario.workload(held.worker.workload.as_str())?;
    let (group, _) = work.group_of(held.worker.index)?;
    let ask = &group.ask;
    let boards = state.boards();
    let ways = ways(ask, boards).ok()?;
    if held.spots.is_empty() {
        return fit::hold(books, ask, &ways, boards).ok();
    }
    let mut slices = Vec::new();
    for spot in &held.spots {
        let gpu = books.gpus.get(usize::from(spot.gpu))?;
        let mut options = ways.iter().flat_map(|way| &way.on);
        let (_, form) = options.find(|(board, _)| *board == gpu.board)?;
        let start = match (form, spot.start) {
            (_, Some(start)) => start,
            (Form::Instance(profile), None) => {
                let layout = match &gpu.used {
                    cleave_engine::inventory::Use::Cut { layout, .. } => *layout,
                    _ => cleave_model::board::LayoutId::EMPTY,
                };
                boards.layouts(gpu.board).best_start(layout, *profile)?.0
            }
            _ => 0,
        };
        slices.push(form.slice(spot.gpu, start));
    }
    Some(Hold {
        node: held.node.clone(),
        cpu_milli: ask.cpu_milli,
        memory_bytes: ask.memory_bytes,
        slices,
    })
}

fn compare(scenario: &Scenario, expect: &Expect, scene: &Scene) -> Vec<Difference> {
    let mut snapshot = snapshot(scenario, scene);
    let stable = expect.checks.iter().filter_map(|(_, check)| match check {
        Check::Stable(plans) => Some(*plans),
        _ => None,
    });
    if let Some(plans) = stable.max() {
        snapshot.restless = Some(restless(scene, plans as usize));
    }
    if expect
        .checks
        .iter()
        .any(|(_, check)| matches!(check, Check::Minimal))
    {
        // Nothing is evicted or moved to make room yet, so there is nothing to give back.
        snapshot.spare = Some(Vec::new());
    }
    judge(scenario, expect, &snapshot)
}

/// What further plans over the same state would do; nothing, if all is well.
fn restless(scene: &Scene, plans: usize) -> Vec<String> {
    let Some(control) = scene.control() else {
        return Vec::new();
    };
    let state = control.state();
    let mut scratch = <Planned as Planner>::Scratch::default();
    for _ in 0..plans {
        let now = state.now();
        let plan = control
            .planner()
            .plan(state, &mut scratch, now, Budget::UNBOUNDED);
        if !plan.actions.is_empty() || !plan.withdrawn.is_empty() {
            return plan
                .actions
                .iter()
                .map(|action| action.name.to_string())
                .collect();
        }
    }
    Vec::new()
}

/// The workers of a workload, or one of them, that hold something.
fn running(scene: &Scene, name: &Name, index: Option<u32>) -> Vec<cleave_model::WorkerId> {
    let Some(control) = scene.control() else {
        return Vec::new();
    };
    let work = control.state().workload(name.as_str());
    let workers = work.into_iter().flat_map(|work| {
        let held = work.workers.iter().filter_map(|worker| worker.lease());
        held.map(|lease| lease.worker.clone())
    });
    workers
        .filter(|worker| index.is_none_or(|index| worker.index == index))
        .collect()
}

/// What is now.
fn snapshot(scenario: &Scenario, scene: &Scene) -> Snapshot {
    let Some(control) = scene.control() else {
        return Snapshot::default();
    };
    let state = control.state();
    let outcome = scene.outcome();
    let known = scenario
        .workloads
        .iter()
        .filter(|work| work.submitted <= scene.now());
    let standing = |name: &Name| {
        let verdict = state.verdict(name.as_str());
        let work = state.workload(name.as_str());
        let finished = work.is_none() && outcome.finished.contains(name);
        Standing {
            verdict: verdict.filter(|verdict| *verdict != Verdict::Placed),
            finished,
            cancelled: !finished && work.is_none_or(|work| work.cancelled),
            evicted: outcome.evicted.get(name).copied().unwrap_or(0),
            moved: 0,
        }
    };
    let withheld = state.nodes().flat_map(|(_, books)| {
        let gpus = (0u8..).zip(&books.gpus);
        let shut = gpus.filter(|(_, gpu)| gpu.sick || !books.is_open());
        shut.map(|(ix, _)| (books.name().clone(), ix))
    });
    Snapshot {
        withheld: withheld.collect(),
        leases: state.leases().cloned().collect(),
        standings: known
            .map(|work| (work.name.clone(), standing(&work.name)))
            .collect(),
        spare: None,
        restless: None,
    }
}

/// Every node's GPUs with what lies on them.
fn fleet(scene: &Scene) -> Vec<(Name, Vec<String>)> {
    let Some(control) = scene.control() else {
        return Vec::new();
    };
    let state = control.state();
    let line = |ix, books: &NodeBooks, gpu: usize| {
        let board = state.boards().board(books.gpus[gpu].board);
        let slices = state.slices_on(ix, gpu as u8).iter();
        let mut parts: Vec<String> = slices
            .map(|(worker, slice)| {
                let what = match (slice.instance, slice.share) {
                    (None, None) => "whole".to_string(),
                    (Some(i), _) => format!("{}@{}", board.at(i.profile).name, i.start),
                    (None, Some(share)) => {
                        format!("{} %", share.compute / (cleave_model::GPU / 100))
                    }
                };
                format!("{what} {worker}")
            })
            .collect();
        parts.sort();
        format!(
            "{}: {}",
            board.name,
            if parts.is_empty() {
                "–".into()
            } else {
                parts.join(", ")
            }
        )
    };
    let node = |(ix, books): (_, &NodeBooks)| {
        let gpus = (0..books.gpus.len()).map(|gpu| line(ix, books, gpu));
        (books.name().clone(), gpus.collect())
    };
    state.nodes().map(node).collect()
}
