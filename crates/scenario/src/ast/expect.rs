//! What should come of it.

use crate::forms::{Form, Many, any_form};
use crate::place::{At, Key};
use crate::quantity::Duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de, de::value::MapAccessDeserializer};
use std::{borrow::Cow, collections::BTreeMap, str::FromStr};

/// What should hold at one time. Names may have ranges, and `*` for any text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Expect {
    /// When: a time (after everything decided at it), or `end`. Default `end`.
    #[serde(default)]
    pub at: Key<When>,
    /// Workloads of which every group has its minimum placed.
    #[serde(default)]
    pub running: Key<Which>,
    /// How many workers of a workload are placed.
    #[serde(default)]
    pub workers: BTreeMap<String, At<Count>>,
    /// Workloads that are not running, in a list or each with the reason.
    #[serde(default)]
    pub pending: Key<Pending>,
    /// Where the workers of a workload are.
    #[serde(default)]
    pub on: BTreeMap<String, At<Whereabouts>>,
    /// Everything that is held on a GPU such as `n0/0`: `whole`, `4g.40gb@0`, `1g.10gb` for any
    /// start, `0.25` or `12GiB` for a share.
    #[serde(default)]
    pub slices: BTreeMap<String, At<Vec<String>>>,
    /// Profiles that a GPU such as `n0/0` could take now, all together.
    #[serde(default)]
    pub fits: BTreeMap<String, At<Vec<String>>>,
    /// Workloads of which a worker was told to leave to end or to wait.
    #[serde(default)]
    pub evicted: Key<Which>,
    /// How many workers were told to leave to end or to wait.
    #[serde(default)]
    pub evictions: Key<Count>,
    /// Workloads of which a worker was moved.
    #[serde(default)]
    pub moved: Key<Which>,
    /// How many workers were moved.
    #[serde(default)]
    pub moves: Key<Count>,
    /// Workloads of which no worker was told to leave.
    #[serde(default)]
    pub untouched: Key<Many<String>>,
    /// Workloads that ended by themselves.
    #[serde(default)]
    pub finished: Key<Which>,
    /// Giving back any eviction or move would break the plan that made it. Only `true`.
    #[serde(default)]
    pub minimal: Key<bool>,
    /// So many more plans over the same state decide nothing.
    #[serde(default)]
    pub stable: Key<u32>,
}

/// A time, or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// Milliseconds from the start, after everything decided then.
    At(u64),
    /// When nothing more happens.
    End,
}

impl FromStr for When {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "end" {
            return Ok(Self::End);
        }
        text.parse::<Duration>()
            .map(|d| Self::At(d.0))
            .map_err(|e| format!("{e}; or `end`"))
    }
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        crate::quantity::from_text(d, "a time such as 10m, or end")
    }
}

impl JsonSchema for When {
    fn schema_name() -> Cow<'static, str> {
        "When".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<Duration>();
        json_schema!({"anyOf": [{"const": "end"}, time]})
    }
}

/// Which workloads: a list is *all of these*, whatever else; `none`; or conditions.
#[derive(Clone, Debug)]
pub(crate) enum Which {
    All(Many<String>),
    None,
    Keys(Box<WhichKeys>),
}

/// Conditions on a set of workloads; all that are named must hold.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "WhichKeys", extend("minProperties" = 1))]
pub(crate) struct WhichKeys {
    /// So many, or these and no others.
    #[serde(default)]
    pub exactly: Key<CountOrNames>,
    /// No fewer.
    #[serde(default)]
    pub at_least: Key<u64>,
    /// No more.
    #[serde(default)]
    pub at_most: Key<u64>,
    /// Count only among these. Default: all.
    #[serde(default)]
    pub among: Key<Many<String>>,
    /// None but these.
    #[serde(default)]
    pub only: Key<Many<String>>,
}

impl<'de> Form<'de> for Which {
    const WHAT: &'static str = "names, `none`, or a mapping such as {exactly: 1, among: [a, b]}";
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        if text == "none" {
            Ok(Self::None)
        } else {
            Many::scalar(text).map(Self::All)
        }
    }
    fn list<A: de::SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        Many::list(seq).map(Self::All)
    }
    fn map<A: de::MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        WhichKeys::deserialize(MapAccessDeserializer::new(map)).map(|keys| Self::Keys(keys.into()))
    }
}

/// A number, or names.
#[derive(Clone, Debug)]
pub(crate) enum CountOrNames {
    Count(u64),
    Names(Many<String>),
}

impl<'de> Form<'de> for CountOrNames {
    const WHAT: &'static str = "a number, or a list of names";
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        match text.parse() {
            Ok(count) => Ok(Self::Count(count)),
            Err(_) => Many::scalar(text).map(Self::Names),
        }
    }
    fn list<A: de::SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        Many::list(seq).map(Self::Names)
    }
}

/// A number or bounds of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// No fewer.
    pub least: u64,
    /// No more.
    pub most: u64,
}

/// Bounds of a number.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "Bounds", extend("minProperties" = 1))]
pub(crate) struct Bounds {
    /// No fewer.
    #[serde(default)]
    pub at_least: Key<u64>,
    /// No more.
    #[serde(default)]
    pub at_most: Key<u64>,
}

impl<'de> Form<'de> for Count {
    const WHAT: &'static str = "a number, or a mapping such as {at-most: 2}";
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        let n = text
            .parse()
            .map_err(|_| E::custom(format!("`{text}` is not {}", Self::WHAT)))?;
        Ok(Self { least: n, most: n })
    }
    fn map<A: de::MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        let bounds = Bounds::deserialize(MapAccessDeserializer::new(map))?;
        if bounds.at_least.get().is_none() && bounds.at_most.get().is_none() {
            return Err(de::Error::custom("says nothing: give at-least or at-most"));
        }
        Ok(Self {
            least: bounds.at_least.or(0),
            most: bounds.at_most.or(u64::MAX),
        })
    }
}

/// Workloads that wait, perhaps with the reason of each.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    None,
    Names(Many<String>),
    Reasons(BTreeMap<String, At<String>>),
}

impl<'de> Form<'de> for Pending {
    const WHAT: &'static str = "names, `none`, or a mapping of names to reasons";
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        if text == "none" {
            Ok(Self::None)
        } else {
            Many::scalar(text).map(Self::Names)
        }
    }
    fn list<A: de::SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        Many::list(seq).map(Self::Names)
    }
    fn map<A: de::MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        BTreeMap::deserialize(MapAccessDeserializer::new(map)).map(Self::Reasons)
    }
}

/// Where the workers of a workload are: all on these nodes, or conditions.
#[derive(Clone, Debug)]
pub(crate) enum Whereabouts {
    Nodes(Many<String>),
    Keys(Box<WhereKeys>),
}

/// Conditions on where workers are; all that are named must hold.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "WhereKeys", extend("minProperties" = 1))]
pub(crate) struct WhereKeys {
    /// All on some of these nodes.
    #[serde(default)]
    pub nodes: Key<Many<String>>,
    /// All in one domain of this level.
    #[serde(default)]
    pub same: Key<String>,
    /// No two in one domain of this level.
    #[serde(default)]
    pub apart: Key<String>,
    /// The GPUs of each worker within one group of this level of links.
    #[serde(default)]
    pub link: Key<String>,
}

impl<'de> Form<'de> for Whereabouts {
    const WHAT: &'static str = "nodes, or a mapping such as {same: rack}";
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        Many::scalar(text).map(Self::Nodes)
    }
    fn list<A: de::SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        Many::list(seq).map(Self::Nodes)
    }
    fn map<A: de::MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        WhereKeys::deserialize(MapAccessDeserializer::new(map)).map(|keys| Self::Keys(keys.into()))
    }
}

macro_rules! form {
    ($type:ident, |$generator:ident| $schema:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                any_form(d)
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                let mut schema = $schema;
                schema.insert("description".into(), <Self as Form>::WHAT.into());
                schema
            }
        }
    };
}

form!(Which, |g| {
    let (names, keys) = (
        g.subschema_for::<Many<String>>(),
        g.subschema_for::<WhichKeys>(),
    );
    json_schema!({"anyOf": [names, keys]})
});
form!(CountOrNames, |g| {
    let names = g.subschema_for::<Many<String>>();
    json_schema!({"anyOf": [{"type": "integer", "minimum": 0}, names]})
});
form!(Count, |g| {
    let bounds = g.subschema_for::<Bounds>();
    json_schema!({"anyOf": [{"type": "integer", "minimum": 0}, bounds]})
});
form!(Pending, |g| {
    let names = g.subschema_for::<Many<String>>();
    let reason = json_schema!({"type": "string", "pattern": "^[a-z-]+( [^ ]+)?$"});
    json_schema!({"anyOf": [names, {"type": "object", "additionalProperties": reason}]})
});
form!(Whereabouts, |g| {
    let (names, keys) = (
        g.subschema_for::<Many<String>>(),
        g.subschema_for::<WhereKeys>(),
    );
    json_schema!({"anyOf": [names, keys]})
});
