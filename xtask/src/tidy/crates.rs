//! Rules about crates: who may know whom, and what keeps a pure crate pure.

use crate::tree::{Finding, Package, Tree};

/// What a crate may depend on.
struct Layer {
    name: &'static str,
    /// A pure crate computes: of the world outside the workspace it gets std and
    /// [`PURE_HELPERS`].
    pure: bool,
    /// The members that it may know, in its tests too; and through them what they may know.
    knows: &'static [&'static str],
}

const PURE: bool = true;
const EDGE: bool = false;

/// Every crate, from the words outwards: each knows only crates above it.
const LAYERS: &[Layer] = &[
    layer("cleave-model", PURE, &[]),
    layer("cleave-engine", PURE, &["cleave-model"]),
    layer("cleave-ledger", PURE, &["cleave-model"]),
    layer("cleave-edge", PURE, &["cleave-model"]),
    layer("cleave-device", PURE, &["cleave-model"]),
    layer("cleave-control", PURE, &["cleave-engine"]),
    layer("cleave-scenario", EDGE, &["cleave-model"]),
    layer(
        "cleave-sim",
        EDGE,
        &[
            "cleave-control",
            "cleave-device",
            "cleave-edge",
            "cleave-ledger",
        ],
    ),
    layer("cleave-lab", EDGE, &["cleave-sim", "cleave-scenario"]),
    layer("cleave-wire", EDGE, &["cleave-device"]),
    layer("cleave-node", EDGE, &["cleave-wire", "cleave-edge"]),
    layer("cleave-nvml-sim", EDGE, &["cleave-device", "cleave-edge"]),
    layer(
        "cleave-server",
        EDGE,
        &["cleave-sim", "cleave-scenario", "cleave-wire"],
    ),
    layer(
        "cleave-kube",
        EDGE,
        &["cleave-sim", "cleave-scenario", "cleave-wire"],
    ),
    layer(
        "cleave",
        EDGE,
        &["cleave-lab", "cleave-node", "cleave-server", "cleave-kube"],
    ),
    layer(
        "xtask",
        EDGE,
        &["cleave-lab", "cleave-server", "cleave-kube"],
    ),
];

/// What a pure crate may use besides std.
const PURE_HELPERS: &[&str] = &["serde"];

const fn layer(name: &'static str, pure: bool, knows: &'static [&'static str]) -> Layer {
    Layer { name, pure, knows }
}

fn layer_of(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

fn may_know(layer: &Layer, name: &str) -> bool {
    let through = |known: &&str| layer_of(known).is_some_and(|layer| may_know(layer, name));
    layer.knows.contains(&name) || layer.knows.iter().any(through)
}

/// Dependencies point inwards, and pure crates have no others.
pub fn directions(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in &tree.packages {
        match layer_of(&package.name) {
            Some(layer) => found.extend(strays(layer, package)),
            None => found.push(Finding::file(
                &package.name,
                "a crate without a place; give it a row in xtask/src/tidy/crates.rs",
            )),
        }
    }
    found
}

fn strays(layer: &Layer, package: &Package) -> Vec<Finding> {
    let mut found = Vec::new();
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        let text = if dependency.path.is_some() {
            if may_know(layer, name) {
                continue;
            }
            format!("must not know `{name}`; pass what it needs as a value, or move the code")
        } else {
            let test_only = dependency.kind.as_deref() == Some("dev");
            if !layer.pure || test_only || PURE_HELPERS.contains(&name) {
                continue;
            }
            format!("is pure and must not use `{name}`; leave that to a shell")
        };
        found.push(Finding::file(&package.name, text));
    }
    found
}

/// Every crate takes the workspace's lints, `unsafe_code = "forbid"` among them.
pub fn workspace_lints(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree
        .files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml"))
    {
        let speaks_c = super::files::UNSAFE
            .iter()
            .any(|place| file.path.starts_with(place));
        if !speaks_c && !file.text.contains("[lints]\nworkspace = true\n") {
            found.push(Finding::file(
                &file.path,
                "needs `[lints]` with `workspace = true`",
            ));
        }
    }
    found
}

/// The pure crates forbid the same things in the same words.
pub fn same_clippy_toml(tree: &Tree) -> Vec<Finding> {
    let pure = tree
        .packages
        .iter()
        .filter(|p| layer_of(&p.name).is_some_and(|l| l.pure));
    let paths: Vec<String> = pure
        .map(|package| format!("crates/{}/clippy.toml", package.name.replace("cleave-", "")))
        .collect();
    let Some(first) = paths.first() else {
        return Vec::new();
    };
    let model = tree.text(first);
    let differs = |path: &&String| model.is_none() || tree.text(path) != model;
    let finding = |path: &String| Finding::file(path, format!("must equal {first}; copy it"));
    paths.iter().filter(differs).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Dependency;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependency = |&(name, kind): &(&str, Option<&str>)| Dependency {
            name: name.into(),
            kind: kind.map(Into::into),
            path: name.starts_with("cleave").then(String::new),
        };
        Package {
            name: name.into(),
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    #[test]
    fn layers_name_only_layers_above() {
        for (at, layer) in LAYERS.iter().enumerate() {
            for known in layer.knows {
                assert!(
                    LAYERS[..at].iter().any(|above| above.name == *known),
                    "{}",
                    layer.name
                );
            }
        }
    }

    #[test]
    fn a_dependency_that_points_outwards_is_found() {
        for (name, dependency, kind, findings) in [
            ("cleave-control", "cleave-engine", None, 0),
            ("cleave-control", "cleave-model", None, 0),
            ("cleave-engine", "serde", None, 0),
            ("cleave-engine", "proptest", Some("dev"), 0),
            ("cleave-sim", "rand", None, 0),
            ("cleave-engine", "cleave-control", None, 1),
            ("cleave-engine", "cleave-sim", Some("dev"), 1),
            ("cleave-device", "cleave-engine", None, 1),
            ("cleave-engine", "rand", None, 1),
            ("cleave-engine", "cc", Some("build"), 1),
            ("cleave-newcomer", "serde", None, 1),
        ] {
            let mut tree = Tree::of(&[]);
            tree.packages = vec![package(name, &[(dependency, kind)])];
            assert_eq!(directions(&tree).len(), findings, "{name} -> {dependency}");
        }
    }

    #[test]
    fn a_crate_without_the_workspace_lints_is_found() {
        let with = "[package]\n\n[lints]\nworkspace = true\n";
        assert_eq!(
            workspace_lints(&Tree::of(&[("crates/model/Cargo.toml", with)])),
            []
        );
        let without = |path| workspace_lints(&Tree::of(&[(path, "[package]\n")])).len();
        assert_eq!(without("crates/model/Cargo.toml"), 1);
        assert_eq!(without("crates/node/Cargo.toml"), 0);
        assert_eq!(without("Cargo.toml"), 0);
    }

    #[test]
    fn a_pure_crate_with_its_own_rules_is_found() {
        let found = |files: &[(&str, &str)]| {
            let mut tree = Tree::of(files);
            tree.packages = vec![
                package("cleave-model", &[]),
                package("cleave-engine", &[]),
                package("cleave-lab", &[]),
            ];
            same_clippy_toml(&tree).len()
        };
        let (model, engine) = ("crates/model/clippy.toml", "crates/engine/clippy.toml");
        assert_eq!(found(&[(model, "a"), (engine, "a")]), 0);
        assert_eq!(found(&[(model, "a"), (engine, "b")]), 1);
        assert_eq!(found(&[(model, "a")]), 1);
        assert_eq!(found(&[]), 2);
    }
}
