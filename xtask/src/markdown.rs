//! The code blocks of a Markdown page, with where they stand.

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The word after the opening fence; empty without one.
    pub language: String,
    /// The nearest heading above, without its `#`s.
    pub heading: String,
    /// Line of the block's first line of content, counted from one.
    pub line: usize,
    /// The content.
    pub text: String,
}

/// All fenced blocks of a page, or the line of a fence that nothing closes.
pub fn blocks(page: &str) -> Result<Vec<Block>, usize> {
    let mut blocks = Vec::new();
    let mut heading = "";
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line = line.trim_start();
        let ticks = line.bytes().take_while(|&byte| byte == b'`').count();
        if ticks < 3 {
            if line.starts_with('#') {
                heading = line.trim_start_matches('#').trim();
            }
            continue;
        }
        let language = line[ticks..].split_whitespace().next().unwrap_or_default();
        let mut text = String::new();
        loop {
            let Some((_, line)) = lines.next() else {
                return Err(at + 1);
            };
            let fence = line.trim();
            if fence.len() >= ticks && fence.bytes().all(|byte| byte == b'`') {
                break;
            }
            text.push_str(line);
            text.push('\n');
        }
        let (language, heading) = (language.into(), heading.into());
        blocks.push(Block {
            language,
            heading,
            line: at + 2,
            text,
        });
    }
    Ok(blocks)
}

/// The one `sh` block under the heading `Tests`: the command that runs all tests.
pub fn test_command(readme: &str) -> Result<String, String> {
    let blocks = blocks(readme).map_err(|line| format!("the fence in line {line} is open"))?;
    let mut tests = blocks
        .into_iter()
        .filter(|b| b.heading == TESTS && b.language == "sh");
    match (tests.next(), tests.next()) {
        (Some(block), None) => Ok(block.text),
        _ => Err("needs exactly one ```sh block under the heading `Tests`".into()),
    }
}

/// The heading whose block is run by the CI stage `test`, not by `docs`.
pub const TESTS: &str = "Tests";

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Start
```sh
a
# no heading
```
## Tests
1. like this:
   ```sh
   cargo test
   ```
````text
```
````
";

    #[test]
    fn blocks_know_their_heading_language_and_line() {
        let seen: Vec<_> = blocks(PAGE)
            .unwrap()
            .into_iter()
            .map(|b| (b.heading, b.language, b.line, b.text))
            .collect();
        let row = |heading: &str, language: &str, line, text: &str| {
            (
                heading.to_owned(),
                language.to_owned(),
                line,
                text.to_owned(),
            )
        };
        assert_eq!(
            seen,
            [
                row("Start", "sh", 3, "a\n# no heading\n"),
                row("Tests", "sh", 9, "   cargo test\n"),
                row("Tests", "text", 12, "```\n"),
            ]
        );
        assert_eq!(blocks("text\n```sh\nnever closed\n"), Err(2));
    }

    #[test]
    fn the_test_command_is_one_block() {
        assert_eq!(test_command(PAGE).as_deref(), Ok("   cargo test\n"));
        assert!(test_command("# Tests\nnone\n").is_err());
        assert!(test_command("# Tests\n```sh\na\n```\n```sh\nb\n```\n").is_err());
    }
}
