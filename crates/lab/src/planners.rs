//! The baselines behind the engine's interface: each policy is a packing, and [`Walk`] with it a
//! planner that serves waiting work in turn.
//!
//! A baseline knows what its authors' simulator knew: CPU-only work, whole GPUs, and a part of one
//! GPU by compute, on nodes with one model of GPU. Other asks it leaves waiting, and among an
//! ask's models it has no preference. Labels, taints and domains are kept by passing over nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleave_engine::constraints::{Domains, admits};
use cleave_engine::forms::{Form, forms};
use cleave_engine::inventory::{NodeBooks, NodeIx, Use};
use cleave_engine::planner::{Packing, Walk, WorkingCopy};
use cleave_engine::state::{AskIx, State};
use cleave_model::GPU;
use cleave_model::ask::{Ask, Gpus, Part};
use cleave_model::board::Catalogue;
use cleave_model::lease::Hold;

use crate::baseline::{Board, GPU_MILLI, Models, Node, Placement, Policy, Request};

const MIB: u64 = 1 << 20;

/// A planner that places as `policy` does.
pub fn planner<P: Policy + Clone>(policy: P) -> Walk<Baseline<P>> {
    Walk::new(Baseline {
        copy: WorkingCopy::default(),
        board: Board::new(Vec::new(), policy),
        order: Vec::new(),
        places: BTreeMap::new(),
        shape: None,
        prior: None,
    })
}

/// A policy as a packing of the engine's. Ties go to the first node in the order of names.
#[derive(Clone, Debug)]
pub struct Baseline<P> {
    copy: WorkingCopy,
    board: Board<P>,
    order: Vec<NodeIx>,
    places: BTreeMap<NodeIx, usize>,
    shape: Option<u64>,
    prior: Option<Arc<[(Ask, u64)]>>,
}

impl<P: Policy + Clone> Baseline<P> {
    fn refresh(&mut self, nodes: impl IntoIterator<Item = NodeIx>) {
        for ix in nodes {
            let (Some(&place), Some(books)) = (self.places.get(&ix), self.copy.get(ix)) else {
                continue;
            };
            self.board.set(place, view(books));
        }
    }
}

impl<P: Policy + Clone> Packing for Baseline<P> {
    /// Some hand out whole GPUs only.
    const COMPLETE: bool = false;

    fn follow(&mut self, state: &State) {
        let shape = Some(state.changes().shape());
        let same_prior = match (&self.prior, state.prior()) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            (ours, theirs) => ours.is_none() && theirs.is_none(),
        };
        let mut changed = Vec::new();
        self.copy.follow(state, |ix, _| changed.push(ix));
        if self.shape == shape && same_prior {
            self.refresh(changed);
        } else {
            let mut policy = self.board.policy_mut().clone();
            self.prior = state.prior().cloned();
            policy.expect(
                &self
                    .prior
                    .as_ref()
                    .map_or_else(Vec::new, |p| mix_of(p, state.boards())),
            );
            self.order = self.copy.nodes().map(|(ix, _)| ix).collect();
            self.places = self.order.iter().copied().zip(0..).collect();
            let nodes = self.copy.nodes().map(|(_, books)| view(books));
            self.board = Board::new(nodes.collect(), policy);
            self.shape = shape;
        }
        self.board.policy_mut().round(state.batch());
    }

    fn place(
        &mut self,
        state: &State,
        ask: AskIx,
        domains: &Domains<'_>,
    ) -> Option<(NodeIx, Hold)> {
        let ask = state.ask(ask);
        let request = request(ask, state.boards(), 0)?;
        let mut found = None;
        let (copy, order) = (&self.copy, &self.order);
        self.board.choose_where(&request, |placement| {
            let books = copy.get(order[placement.node]).expect("followed");
            let open = books.is_open()
                && admits(&books.node, &ask.limits).is_ok()
                && domains.admit(books).is_ok();
            let hold = open
                .then(|| hold(ask, books, placement, state.boards()))
                .flatten();
            found = hold.filter(|hold| books.clone().take(hold, state.boards()).is_ok());
            found.is_some()
        })?;
        let hold = found.expect("admitted");
        self.copy.take(state, &hold);
        let ix = state.node_ix(hold.node.as_str())?;
        self.refresh([ix]);
        Some((ix, hold))
    }

    fn begin(&mut self) {
        self.copy.begin();
    }

    fn end(&mut self, keep: bool) {
        let back = self.copy.end(keep);
        self.refresh(back);
    }
}

/// A node as the baselines see it; a model is its board's place in the catalogue. GPUs that are
/// sick or cut have no room, and on a node with several boards none has.
pub fn view(books: &NodeBooks) -> Node {
    let board = books.gpus.first().map(|gpu| gpu.board);
    let alike = books.gpus.iter().all(|gpu| Some(gpu.board) == board);
    let room = |gpu: &cleave_engine::inventory::Gpu| match gpu.used {
        _ if gpu.sick || !alike => 0,
        Use::Free => GPU_MILLI,
        Use::Shared(shares) => milli_down(GPU - shares.compute),
        Use::Whole | Use::Cut { .. } => 0,
    };
    Node {
        cpu_milli: u32::try_from(books.cpu_milli).unwrap_or(u32::MAX),
        memory_mib: u32::try_from(books.memory_bytes / MIB).unwrap_or(u32::MAX),
        model: board.map(|board| board.0 as u8),
        gpu_milli: books.gpus.iter().map(room).collect(),
    }
}

/// Asks with how often each comes, as the baselines see them; what they don't know is left out.
pub fn mix_of(asks: &[(Ask, u64)], boards: &Catalogue) -> Vec<(Request, u64)> {
    let mut lists: Vec<_> = asks
        .iter()
        .filter_map(|(ask, _)| Some(&ask.gpus.as_ref()?.models))
        .collect();
    lists.sort_unstable();
    lists.dedup();
    let as_request = |(ask, count): &(Ask, u64)| {
        let list = ask
            .gpus
            .as_ref()
            .map(|gpus| lists.binary_search(&&gpus.models));
        let written = list.map_or(0, |at| at.expect("listed") + 1);
        Some((request(ask, boards, u16::try_from(written).ok()?)?, *count))
    };
    asks.iter().filter_map(as_request).collect()
}

/// An ask as the baselines see it, or none where they don't know its like.
fn request(ask: &Ask, boards: &Catalogue, written: u16) -> Option<Request> {
    let (gpus, gpu_milli) = match &ask.gpus {
        None => (0, 0),
        Some(Gpus {
            count,
            part: Part::Whole,
            ..
        }) => (*count, GPU_MILLI),
        Some(Gpus {
            count: 1,
            part:
                Part::Share {
                    compute: Some(compute),
                    memory_mib: None,
                },
            ..
        }) => (1, milli_up(*compute)?),
        Some(_) => return None,
    };
    let models = match &ask.gpus {
        Some(Gpus { models, .. }) if !models.is_empty() => {
            let answers = |id: &_| {
                models
                    .iter()
                    .flatten()
                    .any(|m| boards.board(*id).answers_to(m.as_str()))
            };
            let numbers = boards.ids().filter(answers).map(|id| id.0);
            let known = numbers.map(|n| {
                u8::try_from(n)
                    .ok()
                    .filter(|&n| usize::from(n) < Models::LIMIT)
            });
            Models::of(written, known.collect::<Option<Vec<u8>>>()?)
        }
        _ => Models::ANY,
    };
    Some(Request {
        cpu_milli: u32::try_from(ask.cpu_milli).ok()?,
        memory_mib: u32::try_from(ask.memory_bytes.div_ceil(MIB)).ok()?,
        gpus: u16::try_from(gpus).ok()?,
        gpu_milli,
        models,
    })
}

/// The placement in the engine's words; none where the node's board has no form for it.
fn hold(ask: &Ask, books: &NodeBooks, placement: &Placement, boards: &Catalogue) -> Option<Hold> {
    let form = |gpu: usize| {
        if !placement.held.is_share() {
            return Some(Form::Whole);
        }
        let board = boards.board(books.gpus[gpu].board);
        let forms = forms(ask.gpus.as_ref()?, board).ok()?;
        forms
            .into_iter()
            .find(|form| matches!(form, Form::Share(_)))
    };
    let slice = |&gpu: &usize| Some(form(gpu)?.slice(u8::try_from(gpu).ok()?, 0));
    Some(Hold {
        node: books.name().clone(),
        cpu_milli: ask.cpu_milli,
        memory_bytes: ask.memory_bytes,
        slices: placement.gpus.iter().map(slice).collect::<Option<_>>()?,
    })
}

fn milli_down(units: u32) -> u16 {
    (u64::from(units) * u64::from(GPU_MILLI) / u64::from(GPU)) as u16
}

/// At most a whole GPU.
fn milli_up(units: u32) -> Option<u16> {
    let milli = (u64::from(units) * u64::from(GPU_MILLI)).div_ceil(u64::from(GPU));
    u16::try_from(milli)
        .ok()
        .filter(|&milli| milli <= GPU_MILLI)
}

#[cfg(test)]
mod tests {
    use cleave_engine::planner::Planner;
    use cleave_engine::state::NoSink;
    use cleave_model::Name;
    use cleave_model::action::What;
    use cleave_model::ask::Isolation;
    use cleave_model::event::{Batch, Event};
    use cleave_model::node::Health;
    use cleave_model::plan::Budget;

    use super::*;
    use crate::baseline::bestfit::BestFit;
    use crate::baseline::fgd::Fgd;
    use crate::baseline::random::Random;
    use crate::baseline::whole::WholeGpus;
    use crate::convert::Unsaid;
    use crate::trace::{Text, jobs, openb};

    fn name(text: &str) -> Name {
        Name::new(text).expect("a legal name")
    }

    /// Two nodes of two T4, one closed, one labelled; jobs by GPUs and label; what each got.
    fn placed(policy: impl Policy + Clone, asked: &[(&str, Option<&str>, Isolation)]) -> String {
        let text = |text: &str| Text::decode("f", text.as_bytes()).expect("text");
        let nodes = text(
            "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,9000,2,T4\nn1,9000,9000,2,T4\n\
             n2,9000,9000,2,T4\n",
        );
        let mut events = Vec::new();
        for node in openb::nodes(&nodes).expect("valid") {
            let mut node = Unsaid::default().node(&node).expect("legal names");
            if node.name == "n1" {
                node.labels.insert(name("zone"), name("b"));
            }
            events.push(Event::Node(node));
        }
        events.push(Event::NodeHealth(name("n2"), Health::Cordoned));
        let mut mix = Vec::new();
        for (at, (gpus, zone, isolation)) in asked.iter().enumerate() {
            let unsaid = Unsaid {
                isolation: *isolation,
                ..Unsaid::default()
            };
            let list = text(&format!("id,gpus,time\nj{at},{gpus},{at}\n"));
            let jobs = jobs::read(&list, &Default::default()).expect("valid");
            let mut work = unsaid.job(&jobs[0]).expect("legal names");
            if let Some(zone) = zone {
                let select = &mut work.groups[0].ask.limits.select;
                select.insert(name("zone"), name(zone));
            }
            mix.push((work.groups[0].ask.clone(), 1));
            events.push(Event::Submit(work));
        }
        events.push(Event::Prior(mix));
        let mut state = State::new();
        let mut fold = |number, events| {
            let batch = Batch {
                number,
                now: number,
                events,
            };
            state.apply(&batch, &mut NoSink);
            state.check().expect("no rule is broken");
            state.clone()
        };
        let state = fold(1, events);
        let planner = planner(policy);
        let mut scratch = Default::default();
        let plan = planner.plan(&state, &mut scratch, 1, Budget::UNBOUNDED);
        // A trial leaves nothing behind, a fresh scratch decides the same.
        let again = planner.plan(&state, &mut scratch, 1, Budget::UNBOUNDED);
        let fresh = planner.plan(&state, &mut Default::default(), 1, Budget::UNBOUNDED);
        assert_eq!((&again, &fresh), (&plan, &plan));
        let state = fold(2, vec![Event::Decided(plan.clone())]);
        let next = planner.plan(&state, &mut scratch, 2, Budget::UNBOUNDED);
        assert!(next.actions.is_empty(), "{next:?}");
        let got = plan.actions.iter().map(|action| {
            let What::Place(hold) = &action.what else {
                panic!("{action:?}");
            };
            let slices: Vec<_> = hold.slices.iter().map(|s| format!(" {s}")).collect();
            format!("{} on {}{}; ", action.name, hold.node, slices.concat())
        });
        got.collect()
    }

    #[test]
    fn baselines_place_within_the_rules() {
        let limited = Isolation::Limited;
        let asked = [
            ("1", None, limited),
            ("0.25", Some("b"), limited),
            ("0.25", None, limited),
            // Promised more, or otherwise, than the others on that GPU.
            ("0.25", Some("b"), Isolation::None),
            ("0.25", None, Isolation::Hard),
            ("2", None, limited),
            ("0", Some("c"), limited),
        ];
        let best_fit = "place j0.0#2.0 on n0 gpu0; \
                        place j1.0#2.0 on n1 gpu0/210000u+3777MiB; \
                        place j2.0#2.0 on n0 gpu1/210000u+3777MiB; ";
        assert_eq!(placed(BestFit, &asked), best_fit);
        for (what, got) in [
            ("FGD", placed(Fgd::default(), &asked)),
            ("Random", placed(Random::new(3), &asked)),
            ("WholeGpus", placed(WholeGpus, &asked)),
        ] {
            assert!(
                got.contains("j1.0#2.0 on n1") && !got.contains(" on n2"),
                "{what}: {got}"
            );
            assert!(!got.contains("j6"), "{what}: {got}");
        }
    }
}
