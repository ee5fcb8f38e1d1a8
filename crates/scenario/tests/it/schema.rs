//! The parts of JSON Schema that the generated schema uses, patterns left out.

use serde_json::{Map, Value};

/// Whether `value` follows `schema`, whose definitions are in `root`.
pub fn follows(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(rules) = schema.as_object() else {
        return schema != &Value::Bool(false);
    };
    rules.iter().all(|(key, rule)| match key.as_str() {
        "$ref" => {
            let path = rule
                .as_str()
                .and_then(|r| r.strip_prefix('#'))
                .expect("a local reference");
            follows(root, root.pointer(path).expect("a definition"), value)
        }
        "type" => match rule {
            Value::Array(types) => types.iter().any(|t| is(t, value)),
            one => is(one, value),
        },
        "anyOf" | "oneOf" => rule
            .as_array()
            .expect("a list")
            .iter()
            .any(|schema| follows(root, schema, value)),
        "enum" => rule.as_array().expect("a list").contains(value),
        "const" => rule == value,
        "minimum" => value
            .as_f64()
            .is_none_or(|v| v >= rule.as_f64().expect("a number")),
        "maximum" => value
            .as_f64()
            .is_none_or(|v| v <= rule.as_f64().expect("a number")),
        "minProperties" => size(value).is_none_or(|n| n >= rule.as_u64().expect("a number")),
        "maxProperties" => size(value).is_none_or(|n| n <= rule.as_u64().expect("a number")),
        "items" => value
            .as_array()
            .is_none_or(|items| items.iter().all(|v| follows(root, rule, v))),
        "required" => value.as_object().is_none_or(|map| {
            let names = rule
                .as_array()
                .expect("a list")
                .iter()
                .filter_map(Value::as_str);
            names.into_iter().all(|name| map.contains_key(name))
        }),
        "properties" => value.as_object().is_none_or(|map| {
            let given = map.iter().filter_map(|(key, v)| Some((rule.get(key)?, v)));
            given.into_iter().all(|(rule, v)| follows(root, rule, v))
        }),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let known = rules.get("properties").and_then(Value::as_object);
            let known = |key: &str| known.is_some_and(|k: &Map<_, _>| k.contains_key(key));
            map.iter()
                .all(|(key, v)| known(key) || follows(root, rule, v))
        }),
        "$schema" | "$defs" | "title" | "description" | "format" | "pattern" | "default" => true,
        other => panic!("the schema uses `{other}`, which this check does not know"),
    })
}

fn size(value: &Value) -> Option<u64> {
    value.as_object().map(|map| map.len() as u64)
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().expect("the name of a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|v| v.fract() == 0.0),
        other => panic!("unknown type `{other}`"),
    }
}
