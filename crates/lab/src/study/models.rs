//! GPU models that a trace names and Cleave does not know.

use std::collections::BTreeMap;
use std::fmt;

use cleave_model::board::{Catalogue, UnknownBoard};

use crate::trace::openb::Trace;

/// A model that is no board to Cleave: GPUs of such nodes are out of service to it and pods that
/// ask for nothing else wait in vain, while the baselines take any name for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownModel {
    /// As the trace writes it.
    pub model: String,
    /// Boards that it could mean, if they are several.
    pub several: Vec<String>,
    /// Nodes of this model.
    pub nodes: usize,
    /// Their GPUs.
    pub gpus: u64,
    /// Pods that name it and no known model.
    pub pods: usize,
}

impl fmt::Display for UnknownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            model,
            several,
            nodes,
            gpus,
            pods,
        } = self;
        match several[..] {
            [] => write!(f, "no board is called {model}: ")?,
            _ => write!(f, "{model} means several boards: ")?,
        }
        let nodes = (*nodes > 0).then(|| format!("{gpus} GPUs on {nodes} nodes"));
        let pods = (*pods > 0).then(|| format!("{pods} pods that ask for it"));
        let left_out: Vec<_> = nodes.into_iter().chain(pods).collect();
        let left_out = left_out.join(" and ");
        write!(f, "cleave leaves out {left_out}, other policies do not; ")?;
        match several[..] {
            [] => write!(f, "write a name that `cleave boards` lists"),
            _ => write!(f, "write one of {}", several.join(", ")),
        }
    }
}

/// The unknown models of a trace, by name.
pub fn unknown(trace: &Trace) -> Vec<UnknownModel> {
    let boards = Catalogue::builtin();
    let mut found: BTreeMap<&str, UnknownModel> = BTreeMap::new();
    for node in &trace.nodes {
        let Some(model) = &node.model else { continue };
        let several = match boards.find(model) {
            Ok(_) => continue,
            Err(UnknownBoard::None(..)) => Vec::new(),
            Err(UnknownBoard::Several(_, several)) => several,
        };
        let unknown = found.entry(model).or_insert_with(|| new(model, several));
        unknown.nodes += 1;
        unknown.gpus += u64::from(node.gpus);
    }
    for pod in &trace.pods {
        let known = |model: &String| boards.answering(model).next().is_some();
        if let Some(model) = pod.models.first()
            && !pod.models.iter().any(known)
        {
            let unknown = found.entry(model);
            unknown.or_insert_with(|| new(model, Vec::new())).pods += 1;
        }
    }
    found.into_values().collect()
}

fn new(model: &str, several: Vec<String>) -> UnknownModel {
    UnknownModel {
        model: model.to_owned(),
        several,
        nodes: 0,
        gpus: 0,
        pods: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Text, openb};

    #[test]
    fn unknown_models_are_counted() {
        let text = |text: &str| Text::decode("f", text.as_bytes()).expect("text");
        let nodes = "sn,cpu_milli,memory_mib,gpu,model\n\
                     a,1,1,8,MI5\nb,1,1,4,MI5\nc,1,1,8,T4\nd,1,1,2,A100\ne,1,1,0,\n";
        let pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n\
                    a,1,1,1,1000,MI5\nb,1,1,1,1000,MI5|T4\nc,1,1,1,1000,A100\n\
                    d,1,1,1,1000,K8|MI5\n";
        let trace = Trace {
            nodes: openb::nodes(&text(nodes)).expect("nodes"),
            pods: openb::pods(&text(pods)).expect("pods"),
        };
        let said: Vec<String> = unknown(&trace).iter().map(ToString::to_string).collect();
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        assert_eq!(
            said,
            [
                "A100 means several boards: cleave leaves out 2 GPUs on 1 nodes, other policies \
                 do not; write one of A100-40GB, A100-80GB",
                "no board is called K8: cleave leaves out 1 pods that ask for it, other policies \
                 do not; write a name that `cleave boards` lists",
                "no board is called MI5: cleave leaves out 12 GPUs on 2 nodes and 1 pods that \
                 ask for it, other policies do not; write a name that `cleave boards` lists",
            ]
        );
    }
}
