//! Traces as facts: nodes, workloads and the mix to expect, in the model's words.

use std::collections::BTreeMap;

use cleave_model::ask::{Ask, Constraints, Gpus, Isolation, Part};
use cleave_model::name::BadName;
use cleave_model::node::Node;
use cleave_model::queue::{Amounts, Queue};
use cleave_model::workload::{Class, Group, Workload};
use cleave_model::{GPU, Millis, Name};

use crate::trace::{jobs, openb};

const MIB: u64 = 1 << 20;

/// What a trace does not say.
#[derive(Clone, Debug)]
pub struct Unsaid {
    /// The queue of work whose trace names none.
    pub queue: Name,
    /// The pool of all nodes.
    pub pool: Name,
    /// What a part of a GPU is promised. Not [`Isolation::Hard`] where any share must be possible
    /// next to any other.
    pub isolation: Isolation,
    /// Milli-cores of a worker whose trace names none.
    pub cpu_milli: u64,
    /// Bytes of host memory of a worker whose trace names none.
    pub memory_bytes: u64,
}

impl Default for Unsaid {
    /// Queue and pool `trace`, memory caps, one core and one GiB.
    fn default() -> Self {
        let trace = Name::new("trace").expect("a legal name");
        Self {
            queue: trace.clone(),
            pool: trace,
            isolation: Isolation::Limited,
            cpu_milli: 1_000,
            memory_bytes: 1 << 30,
        }
    }
}

impl Unsaid {
    /// A machine of openb. Its model must name a board of the catalogue; the built-in one knows
    /// all seven.
    ///
    /// # Errors
    /// A name that is none to the model.
    pub fn node(&self, node: &openb::Node) -> Result<Node, BadName> {
        let model = node.model.as_ref().map(Name::new).transpose()?;
        Ok(Node {
            name: Name::new(&node.name)?,
            cpu_milli: node.cpu_milli.into(),
            memory_bytes: u64::from(node.memory_mib) * MIB,
            pods: u32::MAX,
            gpus: model.map_or_else(Vec::new, |model| vec![model; node.gpus as usize]),
            links: Vec::new(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            pool: self.pool.clone(),
            price_micros: None,
        })
    }

    /// The queue that work names which its trace gives none, without quota or limit.
    pub fn queue(&self) -> Queue {
        queue(self.queue.clone())
    }

    /// What a pod of openb asks for.
    ///
    /// # Errors
    /// A model's name that is none to the model.
    pub fn ask(&self, pod: &openb::Pod) -> Result<Ask, BadName> {
        let part = match pod.gpu_milli {
            openb::GPU_MILLI => Part::Whole,
            milli => share(milli),
        };
        let gpus = Gpus {
            models: match &pod.models[..] {
                [] => Vec::new(),
                listed => vec![listed.iter().map(Name::new).collect::<Result<_, _>>()?],
            },
            ..self.gpus(pod.gpus, part)
        };
        Ok(Ask {
            cpu_milli: pod.cpu_milli.into(),
            memory_bytes: u64::from(pod.memory_mib) * MIB,
            gpus: (pod.gpus > 0).then_some(gpus),
            limits: Constraints::default(),
        })
    }

    /// A pod of openb as a workload of one worker. Class by its qos: `LS` serves, `BE` is batch,
    /// the rest trains; duration from when it was scheduled, else created, to its deletion.
    ///
    /// # Errors
    /// A name that is none to the model.
    pub fn pod(
        &self,
        pod: &openb::Pod,
        name: &str,
        submitted: Millis,
    ) -> Result<Workload, BadName> {
        let from = pod.scheduled_s.or(pod.created_s);
        let seconds = from
            .zip(pod.deleted_s)
            .map(|(from, to)| to.saturating_sub(from));
        Ok(Workload {
            name: Name::new(name)?,
            queue: self.queue.clone(),
            class: match pod.qos.as_deref() {
                Some("LS") => Class::Serving,
                Some("BE") => Class::Batch,
                _ => Class::Training,
            },
            priority: 0,
            groups: vec![group(1, self.ask(pod)?)],
            submitted,
            duration: seconds.map(|s| s * 1_000),
            retries: 0,
        })
    }

    /// The distinct asks of a list of pods with how often each is there, in the order of contents.
    ///
    /// # Errors
    /// A model's name that is none to the model.
    pub fn mix(&self, pods: &[openb::Pod]) -> Result<Vec<(Ask, u64)>, BadName> {
        let mut counts: BTreeMap<Ask, u64> = BTreeMap::new();
        for pod in pods {
            *counts.entry(self.ask(pod)?).or_default() += 1;
        }
        Ok(counts.into_iter().collect())
    }

    /// A job of a list as a gang in the queue it names, to train.
    ///
    /// # Errors
    /// A name that is none to the model.
    pub fn job(&self, job: &jobs::Job) -> Result<Workload, BadName> {
        let gpus = match job.gpus {
            jobs::Gpus::Whole(0) => None,
            jobs::Gpus::Whole(count) => Some(self.gpus(count, Part::Whole)),
            jobs::Gpus::Milli(milli) => Some(self.gpus(1, share(milli.into()))),
        };
        let mib = |mib: u32| u64::from(mib) * MIB;
        let ask = Ask {
            cpu_milli: job.cpu_milli.map_or(self.cpu_milli, u64::from),
            memory_bytes: job.memory_mib.map_or(self.memory_bytes, mib),
            gpus,
            limits: Constraints::default(),
        };
        let queue = job.queue.as_ref().map(Name::new).transpose()?;
        Ok(Workload {
            name: Name::new(&job.name)?,
            queue: queue.unwrap_or_else(|| self.queue.clone()),
            class: Class::Training,
            priority: 0,
            groups: vec![group(job.workers, ask)],
            submitted: job.submit_ms,
            duration: job.duration_ms,
            retries: 0,
        })
    }

    fn gpus(&self, count: u32, part: Part) -> Gpus {
        let isolation = match part {
            Part::Whole => Isolation::Hard,
            _ => self.isolation,
        };
        Gpus {
            count,
            part,
            isolation,
            models: Vec::new(),
            graphics: false,
        }
    }
}

/// A queue at the top, without quota or limit.
pub fn queue(name: Name) -> Queue {
    Queue {
        name,
        parent: None,
        quota: Amounts::default(),
        limit: Amounts::default(),
        weight: 1,
        priority: 0,
    }
}

/// Thousandths of a GPU's compute, with memory in the same proportion.
fn share(gpu_milli: u32) -> Part {
    Part::Share {
        compute: Some(gpu_milli * (GPU / openb::GPU_MILLI)),
        memory_mib: None,
    }
}

fn group(workers: u32, ask: Ask) -> Group {
    Group {
        name: Name::new("workers").expect("a legal name"),
        workers,
        min: workers,
        ask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Text;

    #[test]
    fn rows_become_the_models_words() {
        let text = |text: &str| Text::decode("f", text.as_bytes()).expect("text");
        let pods = openb::pods(&text(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,\
             deletion_time,scheduled_time\n\
             a,500,2,1,250,T4|V100M16,LS,5,9,7\nb,500,2,8,1000,,BE,5,9,\nc,1,1,0,0,,X,,,\n",
        ))
        .expect("valid");
        let unsaid = Unsaid::default();
        let a = unsaid.pod(&pods[0], "a.1", 3).expect("legal names");
        let ask = &a.groups[0].ask;
        let gpus = ask.gpus.as_ref().expect("asks for one");
        assert_eq!(
            (a.class, a.duration, a.submitted),
            (Class::Serving, Some(2_000), 3)
        );
        assert_eq!((ask.cpu_milli, ask.memory_bytes), (500, 2 << 20));
        assert_eq!((gpus.count, gpus.isolation), (1, Isolation::Limited));
        assert_eq!(gpus.part, share(250));
        assert_eq!(gpus.models, [["T4", "V100M16"]]);
        let b = unsaid.pod(&pods[1], "b", 0).expect("legal names");
        let gpus = b.groups[0].ask.gpus.as_ref().expect("asks for eight");
        assert_eq!(
            (gpus.count, &gpus.part, gpus.isolation),
            (8, &Part::Whole, Isolation::Hard)
        );
        assert_eq!((b.class, b.duration), (Class::Batch, Some(4_000)));
        assert_eq!(unsaid.ask(&pods[2]).expect("no names").gpus, None);
        assert!(unsaid.pod(&pods[2], "not a name", 0).is_err());

        let twice = [pods[0].clone(), pods[2].clone(), pods[0].clone()];
        let counts: Vec<u64> = (unsaid.mix(&twice).expect("legal names").iter())
            .map(|(_, count)| *count)
            .collect();
        assert_eq!(counts.iter().sum::<u64>(), 3);
        assert_eq!(counts.len(), 2);

        let list = "id,gpus,time,workers,vc\nj,2,1.5,4,team\nk,0.5,2,1,\nl,0,2,1,\n";
        let jobs = jobs::read(&text(list), &Default::default()).expect("valid");
        let job = |at: usize| unsaid.job(&jobs[at]).expect("legal names");
        let j = job(0);
        assert_eq!(
            (j.queue.as_str(), j.workers(), j.groups[0].min),
            ("team", 4, 4)
        );
        assert_eq!(
            (j.submitted, j.groups[0].ask.memory_bytes),
            (1_500, 1 << 30)
        );
        let part = |at: usize| job(at).groups[0].ask.gpus.clone().map(|gpus| gpus.part);
        assert_eq!(
            (part(0), part(1), part(2)),
            (Some(Part::Whole), Some(share(500)), None)
        );
    }
}
