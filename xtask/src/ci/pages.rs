//! Stage `docs`: what a reader types works.
//!
//! The `sh` blocks of each page run in order, as one shell session, in a copy of the project's
//! files: what git ignores is not there, and nothing a page writes lands in the checkout.
//! `yaml` blocks that are scenarios are checked. Blocks with another language (`console`) are
//! shown, not run. The copy keeps the files'
//! times and links the checkout's target directory, so that nothing is built twice.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::markdown::{self, TESTS};
use crate::tree::project_files;

/// Runs the blocks of every page that a newcomer follows.
pub fn run(root: &Path) -> Result<()> {
    let files = project_files(root)?;
    for page in files.iter().filter(|path| is_followed(path)) {
        let text = fs::read_to_string(root.join(page))?;
        let Some(script) = script(page, &text)? else {
            continue;
        };
        let copy = Copy::of(root, &files)?;
        // The link is the target directory, also for a page that names `target/` itself.
        let script = format!("unset CARGO_TARGET_DIR\n{script}");
        super::stages::shell(&copy.dir, &script).with_context(|| format!("in {page}"))?;
    }
    Ok(())
}

fn is_followed(path: &str) -> bool {
    path == "README.md" || (path.starts_with("docs/start-") && path.ends_with(".md"))
}

/// A page's `sh` blocks as one script that says which block it is at, if there are any. The
/// block under `Tests` has a stage of its own.
fn script(page: &str, text: &str) -> Result<Option<String>> {
    let blocks = markdown::blocks(text)
        .map_err(|line| anyhow::anyhow!("{page}:{line}: nothing closes this fence"))?;
    let part = |block: &markdown::Block| {
        let (line, text) = (block.line, &block.text);
        let is_scenario = block.language == "yaml" && text.starts_with("cleave:");
        let part = if block.language == "sh" && block.heading != TESTS {
            text.clone()
        } else if is_scenario {
            let check = "cargo run --release -q -p cleave -- check";
            format!("cat > line-{line}.yaml <<'END'\n{text}END\n{check} line-{line}.yaml\n")
        } else {
            return None;
        };
        Some(format!("echo '--- {page}:{line}'\n{part}"))
    };
    let script: String = blocks.iter().filter_map(part).collect();
    Ok((!script.is_empty()).then_some(script))
}

/// A copy of the project in the temporary directory, gone when dropped.
struct Copy {
    dir: PathBuf,
}

impl Copy {
    fn of(root: &Path, files: &[String]) -> Result<Copy> {
        let dir = env::temp_dir().join(format!("cleave-docs-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let copy = Copy { dir };
        for file in files {
            let (from, to) = (root.join(file), copy.dir.join(file));
            fs::create_dir_all(to.parent().expect("a file has a folder"))?;
            fs::copy(&from, &to)?;
            // Cargo builds anew what is newer than the last build.
            File::options()
                .append(true)
                .open(&to)?
                .set_modified(fs::metadata(&from)?.modified()?)?;
        }
        let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        symlink(root.join(target), copy.dir.join("target"))?;
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // A leftover in the temporary directory harms nobody.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_one_session() {
        let page = "# Try\n```sh\na\n```\n```console\n$ b\n```\n## Tests\n```sh\nc\n```\n";
        let script = script("README.md", page).unwrap();
        assert_eq!(script.as_deref(), Some("echo '--- README.md:3'\na\n"));
        assert_eq!(super::script("README.md", "text\n").unwrap(), None);
        let yaml = "```yaml\ncleave: 1\n```\n```yaml\na: b\n```\n";
        let script = super::script("README.md", yaml).unwrap().unwrap();
        assert!(script.contains("check line-2.yaml") && !script.contains("a: b"));
        assert!(super::script("README.md", "```sh\nopen\n").is_err());
    }

    #[test]
    fn a_copy_has_the_files_with_their_times_and_goes() {
        let root = crate::workspace_root(&env::current_dir().unwrap()).unwrap();
        let file = "xtask/src/main.rs";
        let copy = Copy::of(&root, &[file.to_owned()]).unwrap();
        let dir = copy.dir.clone();
        let time = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(dir.join(file)), time(root.join(file)));
        drop(copy);
        assert!(!dir.exists());
    }
}
