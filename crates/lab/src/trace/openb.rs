//! The openb trace (Alibaba cluster-trace-gpu-v2023): a node list, a pod list, arrival orders.
//!
//! Columns as in the published CSV files, found by name in any order; `gpu_spec`, `qos`,
//! `pod_phase` and the three times may be missing (the `multigpu*` lists have none of them).

use std::path::Path;

use super::table::{Names, Row, Table};
use super::{Text, TraceError};

/// Thousandths of one GPU in a whole one, the trace's unit.
pub const GPU_MILLI: u32 = 1_000;

const MAX_GPUS: u32 = 1_024;
const MAX_CPU_MILLI: u32 = 1_000_000_000;
const MAX_MEMORY_MIB: u32 = 1 << 30;
const MAX_TIME_S: u64 = 1 << 40;

/// One machine of the node list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique in the list.
    pub name: String,
    /// Thousandths of a vCPU.
    pub cpu_milli: u32,
    /// MiB of host memory.
    pub memory_mib: u32,
    /// GPUs, all of one model.
    pub gpus: u32,
    /// The GPUs' model; none where there are no GPUs.
    pub model: Option<String>,
}

/// One pod of the pod list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Unique in the list.
    pub name: String,
    /// Thousandths of a vCPU.
    pub cpu_milli: u32,
    /// MiB of host memory.
    pub memory_mib: u32,
    /// GPUs asked for.
    pub gpus: u32,
    /// Thousandths asked of each; below 1,000 only where one GPU is asked, 0 only where none is.
    pub gpu_milli: u32,
    /// Models it may run on, as written (some lists name one twice); empty for any.
    pub models: Vec<String>,
    /// Service class, such as `LS` (latency sensitive) or `BE` (best effort).
    pub qos: Option<String>,
    /// What became of it, such as `Running` or `Pending`.
    pub phase: Option<String>,
    /// Seconds from the trace's start.
    pub created_s: Option<u64>,
    /// Seconds from the trace's start.
    pub deleted_s: Option<u64>,
    /// Seconds from the trace's start; none for a pod that was never placed.
    pub scheduled_s: Option<u64>,
}

impl Pod {
    /// Thousandths of a GPU over all GPUs asked for.
    pub fn total_gpu_milli(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.gpu_milli)
    }

    /// The number its name ends in: 255 for `openb-pod-0255`.
    pub fn number(&self) -> Option<u64> {
        let digits = self
            .name
            .bytes()
            .rev()
            .take_while(u8::is_ascii_digit)
            .count();
        self.name[self.name.len() - digits..].parse().ok()
    }
}

/// A node list and a pod list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// In the file's order.
    pub nodes: Vec<Node>,
    /// In the file's order.
    pub pods: Vec<Pod>,
}

impl Trace {
    /// Reads both lists.
    pub fn read(nodes: impl AsRef<Path>, pods: impl AsRef<Path>) -> Result<Self, TraceError> {
        Ok(Self {
            nodes: self::nodes(&Text::read(nodes)?)?,
            pods: self::pods(&Text::read(pods)?)?,
        })
    }

    /// Thousandths of a GPU over all nodes.
    pub fn total_gpu_milli(&self) -> u64 {
        let gpus: u64 = self.nodes.iter().map(|n| u64::from(n.gpus)).sum();
        gpus * u64::from(GPU_MILLI)
    }
}

/// Reads a node list.
pub fn nodes(text: &Text) -> Result<Vec<Node>, TraceError> {
    let table = Table::open(text)?;
    let name = table.column("sn")?;
    let cpu = table.column("cpu_milli")?;
    let memory = table.column("memory_mib")?;
    let gpus = table.column("gpu")?;
    let model = table.column("model")?;
    let mut names = Names::default();
    table.read(|row| {
        let node = Node {
            name: names.claim(row, row.name(&name)?)?,
            cpu_milli: row.whole(&cpu, MAX_CPU_MILLI)?,
            memory_mib: row.whole(&memory, MAX_MEMORY_MIB)?,
            gpus: row.whole(&gpus, MAX_GPUS)?,
            model: row.optional(Some(&model)).map(str::to_owned),
        };
        match (&node.model, node.gpus) {
            (None, 1..) => Err(row.wrong(&model, "a node with GPUs needs their model")),
            (Some(_), 0) => {
                Err(row.wrong(&model, "a node without GPUs has no model: leave it empty"))
            }
            _ => Ok(node),
        }
    })
}

/// Reads a pod list.
pub fn pods(text: &Text) -> Result<Vec<Pod>, TraceError> {
    let table = Table::open(text)?;
    let name = table.column("name")?;
    let cpu = table.column("cpu_milli")?;
    let memory = table.column("memory_mib")?;
    let gpus = table.column("num_gpu")?;
    let milli = table.column("gpu_milli")?;
    let spec = table.optional("gpu_spec");
    let qos = table.optional("qos");
    let phase = table.optional("pod_phase");
    let created = table.optional("creation_time");
    let deleted = table.optional("deletion_time");
    let scheduled = table.optional("scheduled_time");
    let time = |row: &Row<'_>, column: Option<&_>| match column {
        Some(c) if row.optional(column).is_some() => row.whole(c, MAX_TIME_S).map(Some),
        _ => Ok(None),
    };
    let mut names = Names::default();
    table.read(|row| {
        let pod = Pod {
            name: names.claim(row, row.name(&name)?)?,
            cpu_milli: row.whole(&cpu, MAX_CPU_MILLI)?,
            memory_mib: row.whole(&memory, MAX_MEMORY_MIB)?,
            gpus: row.whole(&gpus, MAX_GPUS)?,
            gpu_milli: row.whole(&milli, GPU_MILLI)?,
            models: row.optional(spec.as_ref()).map_or_else(Vec::new, models),
            qos: row.optional(qos.as_ref()).map(str::to_owned),
            phase: row.optional(phase.as_ref()).map(str::to_owned),
            created_s: time(row, created.as_ref())?,
            deleted_s: time(row, deleted.as_ref())?,
            scheduled_s: time(row, scheduled.as_ref())?,
        };
        match (pod.gpus, pod.gpu_milli) {
            (0, 1..) => return Err(row.wrong(&milli, "no GPU is asked for: must be 0")),
            (1.., 0) => return Err(row.wrong(&milli, "GPUs are asked for: must be 1 to 1000")),
            (2.., ..GPU_MILLI) => {
                return Err(row.wrong(&milli, "several GPUs are whole ones: must be 1000"));
            }
            _ => {}
        }
        for (column, later) in [(&deleted, pod.deleted_s), (&scheduled, pod.scheduled_s)] {
            if let (Some(column), Some(from), Some(to)) = (column, pod.created_s, later)
                && to < from
            {
                return Err(row.wrong(column, format!("before its creation_time {from}")));
            }
        }
        Ok(pod)
    })
}

/// Reads an arrival order: one pod number a line, as [`Pod::number`] counts them. Numbers repeat
/// where the order is inflated.
pub fn order(text: &Text) -> Result<Vec<u64>, TraceError> {
    let lines = text.text.lines().enumerate();
    let order: Vec<u64> = lines
        .map(|(index, line)| (index, line.trim()))
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| {
            line.parse().map_err(|_| TraceError::Field {
                file: text.file.clone(),
                line: index as u64 + 1,
                column: "pod number".to_owned(),
                value: line.chars().take(60).collect(),
                reason: "expected a whole number, one a line".to_owned(),
            })
        })
        .collect::<Result<_, _>>()?;
    if order.is_empty() {
        return Err(TraceError::Empty {
            file: text.file.clone(),
        });
    }
    Ok(order)
}

/// `A10|T4` → `[A10, T4]`.
fn models(spec: &str) -> Vec<String> {
    let models = spec.split('|').map(str::trim).filter(|m| !m.is_empty());
    models.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NODES: &str =
        "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,8000,32768,0,\n";
    const PODS: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,\
deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0
openb-pod-0017,6000,12288,1,460,T4|P100|T4,LS,Pending,427061,12902960,
p2,1000,128,0,0,,BE,Failed,5,5,5
";

    fn text(text: &str) -> Text {
        Text::decode("f.csv", text.as_bytes()).expect("test text is text")
    }

    #[test]
    fn rows() {
        let nodes = nodes(&text(NODES)).expect("valid");
        assert_eq!(nodes[0].model.as_deref(), Some("P100"));
        assert_eq!(
            (nodes[1].cpu_milli, nodes[1].gpus, &nodes[1].model),
            (8_000, 0, &None)
        );

        let pods = pods(&text(PODS)).expect("valid");
        assert_eq!(pods[1].models, ["T4", "P100", "T4"]);
        assert_eq!((pods[1].number(), pods[2].number()), (Some(17), Some(2)));
        assert_eq!(
            (pods[1].created_s, pods[1].scheduled_s),
            (Some(427_061), None)
        );

        let few = text("gpu_milli,num_gpu,name,memory_mib,cpu_milli\r\n1000,8,a,1,2\r\n");
        let pods = self::pods(&few).expect("valid");
        assert_eq!((pods[0].total_gpu_milli(), pods[0].cpu_milli), (8_000, 2));
        assert_eq!(pods[0].qos, None);

        assert_eq!(
            order(&text("255\n\n 7 \n255")).expect("valid"),
            [255, 7, 255]
        );
    }

    #[test]
    fn errors_name_the_place_and_the_way_out() {
        let pod = |fields: &str| {
            format!("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,0,0\n{fields}\n")
        };
        for (list, message) in [
            (
                pod("b,1,1,1,1001"),
                "f.csv:3: gpu_milli is \"1001\": expected a whole number from 0 to 1000",
            ),
            (
                pod("b,1,1,2,500"),
                "f.csv:3: gpu_milli is \"500\": several GPUs are whole ones: must be 1000",
            ),
            (
                pod("b,1,1,1,0"),
                "f.csv:3: gpu_milli is \"0\": GPUs are asked for: must be 1 to 1000",
            ),
            (
                pod("b,1,1,0,10"),
                "f.csv:3: gpu_milli is \"10\": no GPU is asked for: must be 0",
            ),
            (
                pod("b,-1,1,0,0"),
                "f.csv:3: cpu_milli is \"-1\": expected a whole number from 0 to 1000000000",
            ),
            (
                pod("b,1.5,1,0,0"),
                "f.csv:3: cpu_milli is \"1.5\": expected a whole number from 0 to 1000000000",
            ),
            (
                pod("a,1,1,0,0"),
                "f.csv:3: \"a\" is also on line 2: names must be unique",
            ),
            (
                pod("b,1,1,0"),
                "f.csv:3: 4 fields where the header has 5: is a quote left open?",
            ),
            (
                pod("\"b,1,1,0,0\nc,1,1,0,0"),
                "f.csv:3: 1 fields where the header has 5: is a quote left open?",
            ),
            (
                pod(",1,1,0,0"),
                "f.csv:3: name is \"\": expected a name of 1 to 253 printable bytes",
            ),
            (
                PODS.replace("12537496", "x"),
                "f.csv:2: deletion_time is \"x\": expected a whole number from 0 to 1099511627776",
            ),
            (
                PODS.replace("5,5,5", "5,4,5"),
                "f.csv:4: deletion_time is \"4\": before its creation_time 5",
            ),
            (
                "name,cpu_milli,memory_mib,num_gpu\na,1,1,0\n".into(),
                "f.csv: no column gpu_milli; there is name, cpu_milli, memory_mib, num_gpu: \
                 rename one or map it",
            ),
            (
                "name,name,x\n".into(),
                "f.csv: two columns are called name: rename one",
            ),
            (
                String::new(),
                "f.csv: empty: expected a header line and at least one row",
            ),
            (
                "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n\n".into(),
                "f.csv: empty: expected a header line and at least one row",
            ),
        ] {
            assert_eq!(pods(&text(&list)).expect_err(message).to_string(), message);
        }
        for (list, message) in [
            (
                NODES.replace("P100", ""),
                "f.csv:2: model is \"\": a node with GPUs needs their model",
            ),
            (
                NODES.replace(",0,", ",0,T4"),
                "f.csv:3: model is \"T4\": a node without GPUs has no model: leave it empty",
            ),
        ] {
            assert_eq!(nodes(&text(&list)).expect_err(message).to_string(), message);
        }
        let wrong = order(&text("1\nx\n"))
            .expect_err("not a number")
            .to_string();
        assert_eq!(
            wrong,
            "f.csv:2: pod number is \"x\": expected a whole number, one a line"
        );
    }

    fn edit() -> impl Strategy<Value = (prop::sample::Index, String)> {
        (any::<prop::sample::Index>(), "[,\"\n0-9|x-]{0,3}")
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            edits in proptest::collection::vec(edit(), 0..8),
        ) {
            let mut edited = PODS.to_owned();
            for (at, with) in &edits {
                let at = at.index(edited.len());
                edited.replace_range(at..at + 1, with);
                if edited.is_empty() { break }
            }
            for bytes in [&bytes, edited.as_bytes()] {
                let Ok(text) = Text::decode("f", bytes) else { continue };
                let _ = (nodes(&text), order(&text));
                // What is read keeps the promises of the types.
                for pod in pods(&text).unwrap_or_default() {
                    prop_assert!(pod.gpu_milli <= GPU_MILLI && !pod.name.is_empty());
                    prop_assert!(pod.gpus < 2 || pod.gpu_milli == GPU_MILLI);
                    prop_assert_eq!(pod.gpus == 0, pod.gpu_milli == 0);
                }
            }
        }
    }
}
