//! What is wanted and what happens: workloads, asks, events.

use crate::ast::{IsolationWord, cluster};
use crate::forms::{Form, Many, Single, any_form};
use crate::place::{At, Key, NOWHERE};
use crate::quantity::{Cpu, Duration, GpuAmount, Memory};
use cleave_model::{ask::Isolation, board::ProfileName, workload::Class};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de, de::value::MapAccessDeserializer};
use std::{borrow::Cow, collections::BTreeMap};

/// Adds to a mapping the keys that describe one kind of worker.
macro_rules! with_worker_keys {
    ($(#[$meta:meta])* pub(crate) struct $name:ident { $($fields:tt)* }) => {
        $(#[$meta])*
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        pub(crate) struct $name {
            $($fields)*
            /// How many workers are wanted. Default 1.
            #[serde(default)]
            #[schemars(range(min = 1))]
            pub workers: Key<u32>,
            /// How many must run for any to run. Default: all of them.
            #[serde(default)]
            #[schemars(range(min = 1))]
            pub min: Key<u32>,
            /// GPUs, or a part of one, for each worker. Default: none.
            #[serde(default)]
            pub gpu: Key<Gpu>,
            /// CPU for each worker. Default 0.
            #[serde(default)]
            pub cpu: Key<Cpu>,
            /// Host memory for each worker. Default 0.
            #[serde(default)]
            pub memory: Key<Memory>,
            /// What it must be promised; short for the key of that name within `gpu`.
            #[serde(default)]
            #[schemars(with = "IsolationWord")]
            pub isolation: Key<Isolation>,
            /// Node labels that must have these values.
            #[serde(default)]
            pub select: BTreeMap<String, At<String>>,
            /// Taint keys that are tolerated; `all` for any.
            #[serde(default)]
            pub tolerate: Key<Many<String>>,
            /// Domains to stay out of: a level (of its own workers), or a level and workloads.
            #[serde(default)]
            pub apart: Key<Many<Apart>>,
            /// Domains to be in: a level (of its own workers), or a level and workloads.
            #[serde(default)]
            pub near: Key<Many<Near>>,
        }

        impl $name {
            /// The keys that describe one kind of worker.
            pub fn shape(&self) -> Shape<'_> {
                Shape {
                    workers: &self.workers,
                    min: &self.min,
                    gpu: &self.gpu,
                    cpu: &self.cpu,
                    memory: &self.memory,
                    isolation: &self.isolation,
                    select: &self.select,
                    tolerate: &self.tolerate,
                    apart: &self.apart,
                    near: &self.near,
                }
            }
        }
    };
}

/// A view of the keys that describe one kind of worker.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub workers: &'a Key<u32>,
    pub min: &'a Key<u32>,
    pub gpu: &'a Key<Gpu>,
    pub cpu: &'a Key<Cpu>,
    pub memory: &'a Key<Memory>,
    pub isolation: &'a Key<Isolation>,
    pub select: &'a BTreeMap<String, At<String>>,
    pub tolerate: &'a Key<Many<String>>,
    pub apart: &'a Key<Many<Apart>>,
    pub near: &'a Key<Many<Near>>,
}

with_worker_keys! {
    /// Something wanted, or many alike through a range in the name.
    pub(crate) struct Workload {
        /// Its name; `many[1-16]` makes 16 workloads.
        pub name: At<String>,
        /// Whose it is. Default: the queue `default`.
        #[serde(default)]
        pub queue: Key<String>,
        /// What it is for. Default batch.
        #[serde(default)]
        #[schemars(with = "ClassWord")]
        pub class: Key<Class>,
        /// Higher goes first. Default 0.
        #[serde(default)]
        pub priority: Key<i32>,
        /// When it is submitted. Default 0s.
        #[serde(default)]
        pub submit: Key<Duration>,
        /// How long an attempt runs. Default: until it is ended.
        #[serde(default)]
        pub duration: Key<Duration>,
        /// How often a worker that ended with a failure is tried again. Default 0.
        #[serde(default)]
        pub retries: Key<u32>,
        /// What each worker runs: a list is a command with its arguments, a text a line for the
        /// shell. A simulation runs nothing.
        #[serde(default)]
        pub command: Key<Command>,
        /// Variables added to the environment of the submitter.
        #[serde(default)]
        pub env: BTreeMap<String, At<String>>,
        /// Working directory. Default: where the work is submitted from.
        #[serde(default)]
        pub directory: Key<String>,
        /// Where its workers already run: `n0`, `n0/3` for GPU 3 of n0, `n0/3@4` for the slice
        /// there that starts at unit 4, `n0/0-3` for four GPUs. A list or a range names the
        /// workers' places in order and starts over when it ends; `~` is a worker without a place.
        #[serde(default)]
        pub on: Key<Spots>,
        /// Different kinds of workers that run together, in place of the keys below.
        #[serde(default)]
        pub groups: Key<Vec<Group>>,
    }
}

with_worker_keys! {
    /// Workers that are alike.
    pub(crate) struct Group {
        /// Its name within the workload.
        pub name: At<String>,
    }
}

/// The schema of [`Class`].
#[derive(JsonSchema)]
#[schemars(rename = "Class", rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum ClassWord {
    /// Answers requests.
    Serving,
    /// A person works in it.
    Interactive,
    /// Trains a model.
    Training,
    /// Anything that can wait.
    Batch,
}

/// GPUs or a part of one: `8`, `0.25`, `1/7`, `12GiB`, `1g.10gb`, or all of it in full.
#[derive(Clone, Debug)]
pub(crate) enum Gpu {
    /// Whole GPUs.
    Whole(u32),
    /// A share of one GPU, GPU units.
    Share(u32),
    /// A part of one GPU by its memory.
    Memory(Memory),
    /// A slice by the name of its profile.
    Profile(String),
    /// In full.
    Full(Box<GpuKeys>),
}

/// GPUs or parts of GPUs, all alike.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "GpuKeys")]
pub(crate) struct GpuKeys {
    /// How many. Default 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub count: Key<u32>,
    /// The share of each, of its compute and of its memory.
    #[serde(default)]
    pub share: Key<GpuAmount>,
    /// The memory of each; alone, compute follows as the same fraction.
    #[serde(default)]
    pub memory: Key<Memory>,
    /// The share of the compute of each; alone, memory follows as the same fraction.
    #[serde(default)]
    pub compute: Key<GpuAmount>,
    /// The profile of each.
    #[serde(default)]
    pub profile: Key<String>,
    /// Boards or families that it may run on, best first; `any` at the end for all others.
    #[serde(default)]
    pub models: Key<Many<String>>,
    /// What it must be promised. Default: `isolation-default` of the policy for parts by share or
    /// memory, hard otherwise.
    #[serde(default)]
    #[schemars(with = "IsolationWord")]
    pub isolation: Key<Isolation>,
    /// Whether it must be able to draw. Default false.
    #[serde(default)]
    pub graphics: Key<bool>,
}

impl<'de> Form<'de> for Gpu {
    const WHAT: &'static str =
        "GPUs such as 8, a part such as 0.25, 12GiB or 1g.10gb, or a mapping";
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        Self::read(text).map_err(E::custom)
    }
    fn map<A: de::MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        GpuKeys::deserialize(MapAccessDeserializer::new(map)).map(|keys| Self::Full(keys.into()))
    }
}

impl Gpu {
    fn read(text: &str) -> Result<Self, String> {
        if ProfileName::parse(text).is_some() {
            return Ok(Self::Profile(text.into()));
        }
        if Memory::looks_like(text) {
            return text.parse().map(Self::Memory);
        }
        let fail = || {
            let shown: String = text.chars().take(40).collect();
            format!("`{}` is not {}", shown.escape_debug(), Self::WHAT)
        };
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(fail());
        }
        let units = text.parse::<GpuAmount>()?.0;
        let gpu = u64::from(cleave_model::GPU);
        if units < gpu && units > 0 {
            Ok(Self::Share(units as u32))
        } else if units % gpu == 0 {
            u32::try_from(units / gpu)
                .map(Self::Whole)
                .map_err(|_| fail())
        } else {
            Err(format!(
                "`{text}` is neither whole GPUs nor a part of one: for parts of several write \
                 {{count: 2, share: 0.75}}"
            ))
        }
    }
}

impl<'de> Deserialize<'de> for Gpu {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        any_form(d)
    }
}

impl JsonSchema for Gpu {
    fn schema_name() -> Cow<'static, str> {
        "Gpu".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let keys = generator.subschema_for::<GpuKeys>();
        json_schema!({
            "description": Self::WHAT,
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": r"^[0-9]+g\.[0-9]+gb([+.-].+)?$"},
                {"type": "string", "pattern": r"^[0-9.]+((T|G|M|K)iB|(T|G|M|K|k)B|B)$"},
                {"type": "string", "pattern": r"^([0-9.]+|[0-9]+/[0-9]+)$"},
                keys,
            ],
        })
    }
}

/// Where not to be.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = or_level)]
pub(crate) struct Apart {
    /// Label key that makes the domains; `host` is the node itself.
    pub level: At<String>,
    /// In no domain where one of these workloads runs. Default: its own.
    #[serde(default)]
    pub from: Key<Many<String>>,
}

/// Where to be.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = or_level)]
pub(crate) struct Near {
    /// Label key that makes the domains; `host` is the node itself.
    pub level: At<String>,
    /// In a domain where one of these workloads runs. Default: its own.
    #[serde(default)]
    pub to: Key<Many<String>>,
}

/// A level alone may stand for the mapping.
fn or_level(schema: &mut Schema) {
    let full = schema.clone();
    *schema = json_schema!({"anyOf": [{"type": "string"}, full]});
}

/// A level read from a short form, whose place is put in by whoever holds it.
fn short_level(text: &str) -> At<String> {
    At {
        value: text.into(),
        place: NOWHERE,
    }
}

impl Single for Apart {
    const WHAT: &'static str = "a level such as host, or a mapping with level and from";
    fn from_scalar(text: &str) -> Result<Self, String> {
        Ok(Self {
            level: short_level(text),
            from: Key::default(),
        })
    }
}

impl Single for Near {
    const WHAT: &'static str = "a level such as host, or a mapping with level and to";
    fn from_scalar(text: &str) -> Result<Self, String> {
        Ok(Self {
            level: short_level(text),
            to: Key::default(),
        })
    }
}

/// What a worker runs.
#[derive(Clone, Debug)]
pub(crate) struct Command(pub Vec<String>);

impl<'de> Form<'de> for Command {
    const WHAT: &'static str = "a line for the shell, or a list such as [python, train.py]";
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self(vec!["/bin/sh".into(), "-c".into(), text.into()]))
    }
    fn list<A: de::SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        let words: Vec<Word> = Vec::deserialize(de::value::SeqAccessDeserializer::new(seq))?;
        match words.first().is_some_and(|Word(first)| !first.is_empty()) {
            true => Ok(Self(words.into_iter().map(|Word(word)| word).collect())),
            false => Err(de::Error::custom(format!("expected {}", Self::WHAT))),
        }
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        any_form(d)
    }
}

impl JsonSchema for Command {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Command".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1},
        ]})
    }
}

/// A word of a command; numbers and truth values are texts as well.
struct Word(String);

impl<'de> Form<'de> for Word {
    const WHAT: &'static str = "a word of a command";
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self(text.into()))
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        any_form(d)
    }
}

/// Where workers run, in order.
#[derive(Clone, Debug)]
pub(crate) struct Spots(pub Vec<Option<String>>);

impl<'de> Form<'de> for Spots {
    const WHAT: &'static str = "a node such as n0, a GPU such as n0/3, or a list of them";
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self(vec![Some(text.into())]))
    }
    fn list<A: de::SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Spots {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        any_form(d)
    }
}

impl JsonSchema for Spots {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Spots".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": ["string", "null"]}},
        ]})
    }
}

/// One kind of ask to expect.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Prior {
    /// How often, relative to the others.
    #[schemars(range(min = 1))]
    pub count: At<u64>,
    /// GPUs or a part of one.
    #[serde(default)]
    pub gpu: Key<Gpu>,
    /// CPU. Default 0.
    #[serde(default)]
    pub cpu: Key<Cpu>,
    /// Host memory. Default 0.
    #[serde(default)]
    pub memory: Key<Memory>,
}

/// One thing that happens: a time and exactly one other key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("minProperties" = 2, "maxProperties" = 2))]
pub(crate) struct Event {
    /// When.
    pub at: At<Duration>,
    /// A workload is submitted.
    #[serde(default)]
    pub submit: Key<Box<Workload>>,
    /// A workload is no longer wanted.
    #[serde(default)]
    pub cancel: Key<Many<String>>,
    /// A workload, or one worker such as `train.3`, ends by itself, its work done.
    #[serde(default)]
    pub finish: Key<Many<String>>,
    /// A workload, or one worker, ends by itself with a failure.
    #[serde(default)]
    pub fail: Key<Many<String>>,
    /// A node comes.
    #[serde(default)]
    pub add_node: Key<Box<cluster::Node>>,
    /// A node is lost with everything on it.
    #[serde(default)]
    pub node_down: Key<Many<String>>,
    /// A lost node comes back, empty.
    #[serde(default)]
    pub node_up: Key<Many<String>>,
    /// A node keeps its work and takes no more.
    #[serde(default)]
    pub cordon: Key<Many<String>>,
    /// A cordoned node takes work again.
    #[serde(default)]
    pub uncordon: Key<Many<String>>,
    /// A GPU such as `n0/3` takes no new work any more; what is on it stays until it ends.
    #[serde(default)]
    pub gpu_down: Key<Many<String>>,
    /// A GPU can be used again.
    #[serde(default)]
    pub gpu_up: Key<Many<String>>,
}
