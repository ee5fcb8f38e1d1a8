//! Shapes of values that have a short and a long form.

use crate::place::{At, NOWHERE, Place};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, de};
use std::{borrow::Cow, fmt, marker::PhantomData};

/// One thing, or a list of things.
#[derive(Clone, Debug)]
pub(crate) struct Many<T>(pub Vec<At<T>>);

/// What a list, a scalar or a mapping is read as; a form says which of them it takes.
pub(crate) trait Form<'de>: Sized {
    const WHAT: &'static str;
    fn scalar<E: de::Error>(_: &str) -> Result<Self, E> {
        Err(E::custom(format!("expected {}", Self::WHAT)))
    }
    fn map<A: de::MapAccess<'de>>(_: A) -> Result<Self, A::Error> {
        Err(de::Error::custom(format!(
            "expected {}, not a mapping",
            Self::WHAT
        )))
    }
    fn list<A: de::SeqAccess<'de>>(_: A) -> Result<Self, A::Error> {
        Err(de::Error::custom(format!(
            "expected {}, not a list",
            Self::WHAT
        )))
    }
}

/// Reads a value in whichever form it is written.
///
/// A plain number arrives as a float here and is printed in its shortest form before it is read,
/// which gives back every decimal of up to 15 digits.
pub(crate) fn any_form<'de, T: Form<'de>, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
    struct Any<T>(PhantomData<T>);
    impl<'de, T: Form<'de>> de::Visitor<'de> for Any<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(T::WHAT)
        }
        fn visit_str<E: de::Error>(self, v: &str) -> Result<T, E> {
            T::scalar(v)
        }
        fn visit_u64<E: de::Error>(self, v: u64) -> Result<T, E> {
            T::scalar(&v.to_string())
        }
        fn visit_i64<E: de::Error>(self, v: i64) -> Result<T, E> {
            T::scalar(&v.to_string())
        }
        fn visit_f64<E: de::Error>(self, v: f64) -> Result<T, E> {
            T::scalar(&v.to_string())
        }
        fn visit_bool<E: de::Error>(self, v: bool) -> Result<T, E> {
            T::scalar(if v { "true" } else { "false" })
        }
        fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::map(map)
        }
        fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
            T::list(seq)
        }
    }
    d.deserialize_any(Any(PhantomData))
}

impl<'de, T: Deserialize<'de> + Single> Form<'de> for Many<T> {
    const WHAT: &'static str = T::WHAT;
    fn scalar<E: de::Error>(text: &str) -> Result<Self, E> {
        T::from_scalar(text).map(Self::one).map_err(E::custom)
    }
    fn map<A: de::MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Self::one)
    }
    fn list<A: de::SeqAccess<'de>>(seq: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Self)
    }
}

impl<T> Many<T> {
    fn one(value: T) -> Self {
        Self(vec![At {
            value,
            place: NOWHERE,
        }])
    }

    /// The things with their places; a thing that stands alone is where its key's value is.
    pub fn items(&self, outer: Place) -> impl Iterator<Item = (Place, &T)> {
        self.0.iter().map(move |at| (at.place.or(outer), &at.value))
    }
}

/// A thing that can stand alone where a list of it may.
pub(crate) trait Single: Sized {
    const WHAT: &'static str;
    fn from_scalar(text: &str) -> Result<Self, String>;
}

impl<'de, T: Deserialize<'de> + Single> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        any_form(d)
    }
}

impl<T: JsonSchema> JsonSchema for Many<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Many{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}

impl Single for String {
    const WHAT: &'static str = "a name, or a list of names";
    fn from_scalar(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }
}
