//! Reasons as expectations write them: the words follow from the model's own variants.

use crate::read::meant;
use crate::scenario::ReasonCode;
use cleave_model::verdict::{Reason, Verdict};
use serde_json::{Value, json};
use std::fmt;

/// Reads `full gpu`, `full`, `no-board`, `taint spot`, `waits`, `budget-ended`.
pub(crate) fn reason_code(text: &str) -> Result<ReasonCode, String> {
    let (word, about) = match text.split_once(' ') {
        Some((word, about)) => (word, Some(about)),
        None => (text, None),
    };
    let reads = |value: Value| serde_json::from_value::<Reason>(value).is_ok();
    let good = match about {
        None => {
            matches!(word, "waits" | "budget-ended")
                || reads(json!(word))
                || reads(json!({word: "gpu"}))
        }
        Some(about) => reads(json!({word: about})),
    };
    if good {
        return Ok(ReasonCode {
            word: word.into(),
            about: about.map(Into::into),
        });
    }
    let words = reason_words();
    let known = words.iter().any(|w| w == word);
    Err(match (known, about) {
        (true, Some(about)) => {
            format!("`{word}` is not about `{about}`: leave it out or name what")
        }
        _ => {
            let all = words.join(", ");
            format!(
                "`{word}` is no reason{}; reasons are {all}",
                meant(word, &words)
            )
        }
    })
}

/// Every word for a reason, from the type itself.
fn reason_words() -> Vec<String> {
    let error = serde_json::from_value::<Reason>(json!("?"))
        .map(|_| ())
        .expect_err("no reason");
    let text = error.to_string();
    let words = text.split('`').skip(3).step_by(2).map(String::from);
    words
        .chain(["waits".into(), "budget-ended".into()])
        .collect()
}

impl ReasonCode {
    /// Whether the verdict says this; a search that ended early says only `budget-ended`.
    pub fn matches(&self, verdict: &Verdict) -> bool {
        let code = verdict_code(verdict);
        code.word == self.word && (self.about.is_none() || self.about == code.about)
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.word)?;
        self.about
            .iter()
            .try_for_each(|about| write!(f, " {about}"))
    }
}

/// A verdict as expectations write it.
pub(crate) fn verdict_code(verdict: &Verdict) -> ReasonCode {
    let word = |word: &str| ReasonCode {
        word: word.into(),
        about: None,
    };
    match verdict {
        Verdict::Placed => word("placed"),
        Verdict::WaitsFor(_) => word("waits"),
        Verdict::BudgetEnded(_) => word("budget-ended"),
        Verdict::Not(reason) => reason_word(reason),
    }
}

/// A reason's word is its variant, its object what the variant holds.
fn reason_word(reason: &Reason) -> ReasonCode {
    let value = serde_json::to_value(reason).expect("a reason is plain data");
    match value {
        Value::String(word) => ReasonCode { word, about: None },
        Value::Object(map) => {
            let (word, about) = map.into_iter().next().expect("a variant has a name");
            ReasonCode {
                word,
                about: about.as_str().map(Into::into),
            }
        }
        other => ReasonCode {
            word: other.to_string(),
            about: None,
        },
    }
}
