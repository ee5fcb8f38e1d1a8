//! The openb lists in FGD's own benchmark: arrivals only, see [`crate::protocol`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use cleave_model::event::Event;
use cleave_model::name::BadName;
use cleave_model::policy::Mix;
use cleave_model::workload::Workload;

use super::{Cleave, policy};
use crate::baseline::bestfit::BestFit;
use crate::baseline::fgd::Fgd;
use crate::baseline::random::Random;
use crate::baseline::whole::WholeGpus;
use crate::baseline::{Fleet, FleetError, Policy};
use crate::convert::Unsaid;
use crate::protocol::{self, Run};
use crate::trace::fgd::Curves;
use crate::trace::openb::{self, Trace};
use crate::trace::sequence::{self, Arrival};
use crate::trace::{Text, TraceError};

/// Who schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Cleave with its mix from there.
    Cleave(Mix),
    /// Fragmentation gradient descent.
    Fgd,
    /// Best fit.
    BestFit,
    /// Any node that fits.
    Random,
    /// Whole GPUs only.
    Static,
}

impl Who {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Cleave(Mix::Prior),
        Self::Cleave(Mix::Learned),
        Self::Fgd,
        Self::BestFit,
        Self::Random,
        Self::Static,
    ];

    /// As reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cleave(Mix::Prior) => "cleave-known",
            Self::Cleave(Mix::Learned) => "cleave-learned",
            Self::Fgd => "fgd",
            Self::BestFit => "bestfit",
            Self::Random => "random",
            Self::Static => "static",
        }
    }

    /// As the published results call it; those of Cleave and of static hand-out there are not.
    pub const fn published_name(self) -> Option<&'static str> {
        match self {
            Self::Fgd => Some("FGD"),
            Self::BestFit => Some("BestFit"),
            Self::Random => Some("Random"),
            Self::Cleave(_) | Self::Static => None,
        }
    }

    /// As a rule over plain nodes, with `seed` for what it draws; none for Cleave.
    pub fn baseline(self, seed: u64) -> Option<Box<dyn Policy>> {
        match self {
            Self::Cleave(_) => None,
            Self::Fgd => Some(Box::<Fgd>::default()),
            Self::BestFit => Some(Box::new(BestFit)),
            Self::Random => Some(Box::new(Random::new(seed))),
            Self::Static => Some(Box::new(WholeGpus)),
        }
    }
}

/// Why a list cannot be studied.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A file is not what it should be.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The list is no fleet.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// A name in it is none to the model.
    #[error("a name of the list: {0}")]
    Name(#[from] BadName),
    /// The folder cannot be read.
    #[error("{folder}: {source}: name the data directory with --data or CLEAVE_DATA")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// One list over the trace's nodes.
#[derive(Clone, Debug)]
pub struct List {
    /// `default`, `gpuspec33` and so on.
    pub name: String,
    folder: PathBuf,
    /// Nodes and pods.
    pub trace: Trace,
    /// The same for rules over plain nodes.
    pub fleet: Fleet,
}

/// The lists that lie in the folder, by name.
pub fn lists(folder: &Path) -> Result<Vec<String>, StudyError> {
    let wrong = |source| StudyError::Folder {
        folder: folder.to_owned(),
        source,
    };
    let mut lists = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let name = entry.map_err(wrong)?.file_name();
        let list = name
            .to_str()
            .and_then(|name| name.strip_prefix("openb_pod_list_"));
        lists.extend(
            list.and_then(|list| list.split('.').next())
                .map(str::to_owned),
        );
    }
    lists.sort_unstable();
    Ok(lists)
}

/// The published curves of GPU milli allocated.
pub fn published(folder: &Path) -> Result<Curves, StudyError> {
    let file = folder.join("fgd-expected/analysis_allo_discrete.csv.gz");
    Ok(Curves::read(&Text::read(file)?)?)
}

impl List {
    /// Reads a list from the trace's folder.
    pub fn read(folder: &Path, name: &str) -> Result<Self, StudyError> {
        let plain = folder.join(format!("openb_pod_list_{name}.csv"));
        let pods = if plain.exists() {
            plain
        } else {
            plain.with_extension("csv.gz")
        };
        let trace = Trace::read(folder.join("openb_node_list_gpu_node.csv"), pods)?;
        Ok(Self {
            name: name.to_owned(),
            folder: folder.to_owned(),
            fleet: Fleet::of(&trace)?,
            trace,
        })
    }

    /// A list that lies anywhere.
    pub fn of(trace: Trace) -> Result<Self, StudyError> {
        Ok(Self {
            name: String::new(),
            folder: PathBuf::new(),
            fleet: Fleet::of(&trace)?,
            trace,
        })
    }

    /// The published order of this seed where there is one, else an own one up to 130 % of
    /// capacity; true for a published one.
    pub fn arrivals(&self, seed: u64) -> Result<(Vec<Arrival>, bool), StudyError> {
        let file = format!("fgd-sequences/{}-1.3-{seed}.txt.zst", self.name);
        let given = self.folder.join(file);
        let pods = &self.trace.pods;
        if given.exists() {
            let order = openb::order(&Text::read(given)?)?;
            return Ok((sequence::given(pods, &order)?, true));
        }
        let target = self.trace.total_gpu_milli() * 13 / 10;
        Ok((sequence::shuffled(pods, seed, target)?, false))
    }

    /// Different kinds of pods.
    pub fn kinds(&self) -> usize {
        let asks = Unsaid::default().mix(&self.trace.pods);
        asks.map_or(0, |asks| asks.len())
    }

    /// The trace as facts of an engine's state.
    pub fn facts(&self, mix: Mix) -> Result<Vec<Event>, StudyError> {
        let unsaid = Unsaid::default();
        let mut facts = vec![
            Event::Policy(policy(mix)),
            Event::Queue(unsaid.queue()),
            // The protocol measures fragmentation by it; only `Mix::Prior` lets the planner look.
            Event::Prior(unsaid.mix(&self.trace.pods)?),
        ];
        for node in &self.trace.nodes {
            facts.push(Event::Node(unsaid.node(node)?));
        }
        Ok(facts)
    }

    /// The arrivals as workloads, with what each asks for in thousandths of a GPU.
    pub fn work(&self, arrivals: &[Arrival]) -> Result<Vec<(Workload, u64)>, StudyError> {
        let pods = &self.trace.pods;
        let names = sequence::names(pods, arrivals);
        let one = |((arrival, name), submitted): ((&Arrival, &String), u64)| {
            let pod = &pods[arrival.pod];
            Ok((
                Unsaid::default().pod(pod, name, submitted)?,
                pod.total_gpu_milli(),
            ))
        };
        arrivals.iter().zip(&names).zip(0..).map(one).collect()
    }
}

/// How long decisions took.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Those in which prices stayed.
    pub decisions: Vec<Duration>,
    /// Those with which new prices took effect.
    pub repriced: Vec<Duration>,
    /// Refinements, which run beside the loop.
    pub refinements: Vec<Duration>,
}

impl Times {
    /// Notes one decision.
    pub fn add(&mut self, decided: &crate::drive::Decided) {
        let kind = if decided.repriced {
            &mut self.repriced
        } else {
            &mut self.decisions
        };
        kind.push(decided.took);
        self.refinements.extend(decided.refining);
    }
}

/// Runs the list's arrivals of this seed; baselines meet the nodes in an order drawn from it.
pub fn run(list: &List, who: Who, seed: u64) -> Result<(Run, Times), StudyError> {
    let (arrivals, _) = list.arrivals(seed)?;
    let mut times = Times::default();
    let run = match (who, who.baseline(seed)) {
        (_, Some(rule)) => {
            let fleet = list.fleet.shuffled(seed);
            protocol::run(&fleet, arrivals.iter().map(|a| a.pod), rule)
        }
        (Who::Cleave(mix), None) => {
            let (facts, work) = (list.facts(mix)?, list.work(&arrivals)?);
            protocol::run_planner(facts, work, Cleave::default(), |decided| times.add(decided))
        }
        (_, None) => unreachable!("only Cleave is no baseline"),
    };
    Ok((run, times))
}
