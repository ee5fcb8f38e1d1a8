//! Rules about the pages for people.

use crate::markdown;
use crate::tree::{Finding, Tree};

const CHANGELOG: &str = "CHANGELOG.md";
const README: &str = "README.md";

/// There is a place for the next release's changes.
pub fn changelog(tree: &Tree) -> Vec<Finding> {
    match tree.text(CHANGELOG) {
        Some(text) if text.lines().any(|line| line == "## [Unreleased]") => Vec::new(),
        _ => vec![Finding::file(
            CHANGELOG,
            "needs a heading `## [Unreleased]`",
        )],
    }
}

/// Every page's fences are closed, and the readme says how to run the tests.
pub fn pages(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        if let Err(line) = markdown::blocks(&page.text) {
            found.push(Finding::line(&page.path, line, "nothing closes this fence"));
        } else if page.path == README
            && let Err(text) = markdown::test_command(&page.text)
        {
            found.push(Finding::file(README, text));
        }
    }
    found
}

/// Links between the project's files lead somewhere.
pub fn links(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (at, line) in page.text.lines().enumerate() {
            for target in local_links(line) {
                let path = resolve(folder, target);
                let inside = |file: &String| file.starts_with(&format!("{path}/"));
                if !tree.paths.iter().any(|file| *file == path || inside(file)) {
                    let text = format!("links to `{target}`, which is not in the project");
                    found.push(Finding::line(&page.path, at + 1, text));
                }
            }
        }
    }
    found
}

/// The targets of `[text](target)` that are paths, without their anchors.
fn local_links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'));
    targets
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|path| !path.is_empty() && !path.contains(':'))
}

fn resolve(folder: &str, link: &str) -> String {
    let mut parts = Vec::new();
    for part in folder.split('/').chain(link.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changelog_without_an_open_release_is_found() {
        assert_eq!(
            changelog(&Tree::of(&[(CHANGELOG, "# Log\n\n## [Unreleased]\n")])),
            []
        );
        assert_eq!(changelog(&Tree::of(&[(CHANGELOG, "# Log\n")])).len(), 1);
        assert_eq!(changelog(&Tree::of(&[])).len(), 1);
    }

    #[test]
    fn a_broken_page_is_found() {
        let good = "## Tests\n```sh\ncargo test\n```\n";
        assert_eq!(
            pages(&Tree::of(&[(README, good), ("docs/a.md", "text\n")])),
            []
        );
        assert_eq!(pages(&Tree::of(&[(README, "no tests\n")])).len(), 1);
        assert_eq!(pages(&Tree::of(&[("docs/a.md", "```sh\nopen\n")])).len(), 1);
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        for (link, findings) in [
            ("[a](start.md)", 0),
            ("[a](start.md#first), [b](../LICENSE)", 0),
            (
                "[a folder](../scenarios) and [a site](https://example.org/x)",
                0,
            ),
            ("[here](#below)", 0),
            ("[a](gone.md), [b](LICENSE)", 2),
        ] {
            let tree = Tree::of(&[
                ("docs/a.md", link),
                ("docs/start.md", ""),
                ("LICENSE", ""),
                ("scenarios/one.yaml", ""),
            ]);
            assert_eq!(links(&tree).len(), findings, "{link}");
        }
    }
}
