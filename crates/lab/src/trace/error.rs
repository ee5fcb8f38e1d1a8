//! What can be wrong with a trace, and what to do about it.

/// Why a trace was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be opened or read.
    #[error("{file}: not read")]
    Read {
        /// As given by the caller.
        file: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A `.gz` or `.zst` stream is damaged or cut short.
    #[error("{file}: not a whole {format} stream ({reason}): fetch or compress it again")]
    Compressed {
        /// As given by the caller.
        file: String,
        /// `gzip` or `zstd`.
        format: &'static str,
        /// The decoder's reason.
        reason: String,
    },
    /// More text than the limit, after decompression.
    #[error("{file}: more than {limit_mib} MiB of text: split the trace into parts")]
    TooLarge {
        /// As given by the caller.
        file: String,
        /// The limit in MiB.
        limit_mib: usize,
    },
    /// A line that no trace would have.
    #[error("{file}:{line}: longer than {limit_bytes} bytes: is this a text file?")]
    LineTooLong {
        /// As given by the caller.
        file: String,
        /// 1-based.
        line: u64,
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// Bytes that are not UTF-8.
    #[error("{file}:{line}: not UTF-8: convert the file, for example with iconv -t UTF-8")]
    NotUtf8 {
        /// As given by the caller.
        file: String,
        /// 1-based.
        line: u64,
    },
    /// No header, or a header and nothing else.
    #[error("{file}: empty: expected a header line and at least one row")]
    Empty {
        /// As given by the caller.
        file: String,
    },
    /// The header lacks a column that cannot be done without.
    #[error("{file}: no column {column}; there is {found}: rename one or map it")]
    MissingColumn {
        /// As given by the caller.
        file: String,
        /// What was looked for.
        column: String,
        /// The columns there are.
        found: String,
    },
    /// Two columns have one name.
    #[error("{file}: two columns are called {column}: rename one")]
    RepeatedColumn {
        /// As given by the caller.
        file: String,
        /// The name.
        column: String,
    },
    /// A row with more or fewer fields than the header.
    #[error("{file}:{line}: {found} fields where the header has {expected}: is a quote left open?")]
    Fields {
        /// As given by the caller.
        file: String,
        /// 1-based line where the row starts.
        line: u64,
        /// Fields in the row.
        found: usize,
        /// Columns in the header.
        expected: usize,
    },
    /// One field cannot be what its column says.
    #[error("{file}:{line}: {column} is {value:?}: {reason}")]
    Field {
        /// As given by the caller.
        file: String,
        /// 1-based.
        line: u64,
        /// The column's name.
        column: String,
        /// The field, cut short if long.
        value: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A name that must be unique was seen before.
    #[error("{file}:{line}: {name:?} is also on line {first_line}: names must be unique")]
    RepeatedName {
        /// As given by the caller.
        file: String,
        /// 1-based.
        line: u64,
        /// The name.
        name: String,
        /// Where it was first.
        first_line: u64,
    },
    /// A column map that cannot be understood.
    #[error("column map: {item:?}: {reason}")]
    ColumnMap {
        /// The part that is wrong.
        item: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// An arrival order names a pod that the list does not have.
    #[error(
        "arrival {position}: the list has no pod number {number}: is it the order of this list?"
    )]
    UnknownPod {
        /// 1-based place in the order.
        position: usize,
        /// The number in the order.
        number: u64,
    },
    /// Demand cannot be inflated to what was asked.
    #[error("cannot inflate demand to {target_gpu_milli} GPU milli: {reason}")]
    Inflation {
        /// The demand wanted.
        target_gpu_milli: u64,
        /// What is wrong and what would be right.
        reason: &'static str,
    },
}
