//! What there is: boards, nodes, queues.

use crate::forms::{Form, any_form};
use crate::place::{At, Key};
use crate::quantity::{Cpu, GpuAmount, Memory, Price};
use cleave_model::board::ModeChange;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use std::{borrow::Cow, collections::BTreeMap};

/// A GPU model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Board {
    /// Its name, such as H100-80GB-SXM.
    pub name: At<String>,
    /// The model without memory or form factor. Default: its name.
    #[serde(default)]
    pub family: Key<String>,
    /// Other names of exactly this board.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Usable memory of the whole GPU.
    pub memory: At<Memory>,
    /// Memory units on the line. Default 1: it can't be cut.
    #[serde(default)]
    pub units: Key<u8>,
    /// Compute slices in the whole board. Default: as many as units.
    #[serde(default)]
    pub compute: Key<u8>,
    /// Media engines on the whole board. Default: none.
    #[serde(default)]
    pub engines: Engines,
    /// What switching MIG mode takes. Default: `live` with profiles, `never` without.
    #[serde(default)]
    #[schemars(with = "ModeWord")]
    pub mode_change: Key<ModeChange>,
    /// The shapes that it can be cut into.
    #[serde(default)]
    pub profiles: Vec<Profile>,
}

/// One shape that a board can be cut into.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Profile {
    /// Name as the driver spells it: 1g.10gb, 1g.10gb+me.
    pub name: At<String>,
    /// Memory units that it takes. Default 1.
    #[serde(default)]
    pub size: Key<u8>,
    /// Usable memory.
    pub memory: At<Memory>,
    /// Units that an instance may start at.
    pub starts: At<Vec<u8>>,
    /// Most instances on one GPU. Default: as many as fit side by side.
    #[serde(default)]
    pub max: Key<u8>,
    /// Media engines that one instance takes. Default: none.
    #[serde(default)]
    pub engines: Engines,
    /// The driver's GPU instance profile id. Default: its position in this list.
    #[serde(default)]
    pub gi_profile: Key<u16>,
    /// Streaming multiprocessors, where known.
    #[serde(default)]
    pub sm: Key<u16>,
}

/// Media engines.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Engines {
    /// Video decoders.
    pub decoders: u8,
    /// Video encoders.
    pub encoders: u8,
    /// JPEG decoders.
    pub jpegs: u8,
    /// Optical flow accelerators.
    pub flows: u8,
}

/// The schema of [`ModeChange`].
#[derive(JsonSchema)]
#[schemars(rename = "ModeChange", rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum ModeWord {
    /// The board has no MIG mode.
    Never,
    /// A GPU reset.
    Reset,
    /// No reset.
    Live,
}

/// A machine, or many alike through a range in the name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Node {
    /// Its name; `n[0-499]` makes 500 nodes.
    pub name: At<String>,
    /// How many GPUs of `board`, or a list with the board of each. Default: none.
    #[serde(default)]
    pub gpus: Key<Gpus>,
    /// The board of its GPUs.
    #[serde(default)]
    pub board: Key<String>,
    /// CPU that work may use. Default 0.
    #[serde(default)]
    pub cpu: Key<Cpu>,
    /// Host memory that work may use. Default 0.
    #[serde(default)]
    pub memory: Key<Memory>,
    /// How many workers it can hold. Default 110.
    #[serde(default)]
    pub pods: Key<u32>,
    /// How its GPUs are connected, tightest level first. Default: all alike.
    #[serde(default)]
    pub links: Vec<Link>,
    /// Labels. `r[0-15]` goes round as the node's range proceeds; `$1` is the value of the first
    /// range in its name.
    #[serde(default)]
    pub labels: BTreeMap<String, At<String>>,
    /// Taint keys: only work that tolerates them may come.
    #[serde(default)]
    pub taints: Vec<At<String>>,
    /// Where its capacity comes from. Default `on-demand`.
    #[serde(default)]
    pub pool: Key<String>,
    /// List price. Default: unpriced.
    #[serde(default)]
    pub price: Key<Price>,
}

/// A number of GPUs, or the board of each.
#[derive(Clone, Debug)]
pub(crate) enum Gpus {
    Count(u8),
    Each(Vec<At<String>>),
}

impl<'de> Form<'de> for Gpus {
    const WHAT: &'static str = "a number of GPUs from 0 to 255, or a list of boards";
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        let count = text.parse().map(Self::Count);
        count.map_err(|_| E::custom(format!("`{text}` is not {}", Self::WHAT)))
    }
    fn list<A: de::SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(Self::Each)
    }
}

impl<'de> Deserialize<'de> for Gpus {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        any_form(d)
    }
}

impl JsonSchema for Gpus {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "NodeGpus".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 255},
            {"type": "array", "items": {"type": "string"}},
        ]})
    }
}

/// One level of connections between the GPUs of a node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Link {
    /// What connects them, such as nvlink, pcie or numa.
    pub name: At<String>,
    /// GPU indexes of each group: `[0-3, 4-7]`.
    pub groups: At<Vec<At<GpuSet>>>,
}

/// Indexes of GPUs: `0-3`, `0`, or a list of numbers.
#[derive(Clone, Debug)]
pub(crate) struct GpuSet(pub Vec<u8>);

impl<'de> Form<'de> for GpuSet {
    const WHAT: &'static str = "GPU indexes such as 0-3, or a list of them";
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        let fail = || E::custom(format!("`{text}` is not {}", Self::WHAT));
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let from: u8 = from.parse().map_err(|_| fail())?;
        let to: u8 = to.parse().map_err(|_| fail())?;
        if from > to {
            Err(fail())
        } else {
            Ok(Self((from..=to).collect()))
        }
    }
    fn list<A: de::SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(Self)
    }
}

impl<'de> Deserialize<'de> for GpuSet {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        any_form(d)
    }
}

impl JsonSchema for GpuSet {
    fn schema_name() -> Cow<'static, str> {
        "GpuSet".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 255},
            {"type": "string", "pattern": "^[0-9]+(-[0-9]+)?$"},
            {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}},
        ]})
    }
}

/// A team's place in the tree, with what it is entitled to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Queue {
    /// Its name.
    pub name: At<String>,
    /// Its parent. Default: it stands at the top.
    #[serde(default)]
    pub parent: Key<String>,
    /// Guaranteed amounts. Default: nothing is guaranteed.
    #[serde(default)]
    pub quota: Amounts,
    /// Upper bounds. Default: none.
    #[serde(default)]
    pub limit: Amounts,
    /// Share of what is left over, relative to its siblings. Default 1.
    #[serde(default)]
    pub weight: Key<u32>,
    /// Who is served first when there is not enough. Default 0.
    #[serde(default)]
    pub priority: Key<i32>,
}

/// Amounts by resource; what is not named is not set.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Amounts {
    /// GPUs.
    pub gpu: Key<GpuAmount>,
    /// CPU.
    pub cpu: Key<Cpu>,
    /// Host memory.
    pub memory: Key<Memory>,
}
