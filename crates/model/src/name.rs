//! Names: how people and journals refer to things.

use serde::{Deserialize, Serialize};
use std::{borrow::Borrow, fmt, sync::Arc};

/// A validated name: 1 to 253 bytes of letters, digits and `. _ - / : @ + #`, starting with a
/// letter or a digit. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

/// Why a string is no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadName(String);

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(60).collect();
        write!(
            f,
            "`{}` is not a name: use 1 to 253 letters, digits or any of . _ - / : @ + #, \
             beginning with a letter or digit",
            shown.escape_debug()
        )
    }
}

impl std::error::Error for BadName {}

impl Name {
    /// Checks `text` and makes it a name.
    pub fn new(text: impl AsRef<str>) -> Result<Self, BadName> {
        let text = text.as_ref();
        let legal = |b: &u8| b.is_ascii_alphanumeric() || b"._-/:@+#".contains(b);
        let starts_well = text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric());
        if starts_well && text.len() <= 253 && text.as_bytes().iter().all(legal) {
            Ok(Self(text.into()))
        } else {
            Err(BadName(text.into()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;
    fn try_from(text: String) -> Result<Self, BadName> {
        Self::new(text)
    }
}

impl std::str::FromStr for Name {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        Self::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.as_ref().into()
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// One worker of a workload; `index` runs over the workers of all its groups, in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId {
    /// The workload.
    pub workload: Name,
    /// Position among all workers of the workload, from 0.
    pub index: u32,
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.workload, self.index)
    }
}
