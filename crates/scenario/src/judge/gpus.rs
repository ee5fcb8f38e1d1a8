//! What is held on one GPU and what still fits there.

use super::{View, Wrong, or_nothing, wrong};
use crate::quantity::{GpuAmount, Memory};
use crate::scenario::Holding;
use cleave_model::{
    Name,
    board::{Board, Instance, Layouts},
    lease::Slice,
};
use std::{collections::BTreeMap, fmt, sync::Arc};

impl View<'_> {
    /// Everything held on a GPU; an instance that several share stands once.
    fn held(&self, node: &Name, gpu: u8) -> Vec<Slice> {
        let leases = self.snapshot.leases.iter().filter(|l| l.hold.node == *node);
        let slices = leases
            .flat_map(|l| &l.hold.slices)
            .filter(|s| s.gpu == gpu)
            .copied();
        let mut held: Vec<_> = slices
            .map(|s| {
                if s.instance.is_some() {
                    Slice { share: None, ..s }
                } else {
                    s
                }
            })
            .collect();
        held.sort();
        held.dedup_by(|a, b| a.instance.is_some() && a == b);
        held
    }

    fn board(&self, node: &Name, gpu: u8) -> Option<(Arc<Board>, Arc<Layouts>)> {
        let board = self
            .scenario
            .node(node.as_str())?
            .gpus
            .get(usize::from(gpu))?;
        let catalogue = &self.scenario.catalogue;
        let id = catalogue.find(board.as_str()).ok()?;
        Some((catalogue.board(id).clone(), catalogue.layouts(id).clone()))
    }

    pub(super) fn slices(&self, node: &Name, gpu: u8, holdings: &[Holding]) -> Result<(), Wrong> {
        let Some((board, _)) = self.board(node, gpu) else {
            return Ok(());
        };
        let held = self.held(node, gpu);
        // Holdings that leave less open take theirs first.
        let mut wanted: Vec<_> = holdings.iter().collect();
        wanted.sort_by_key(|h| matches!(h, Holding::Instance(_, None)));
        let mut rest = held.clone();
        let all = wanted.into_iter().all(|holding| {
            let found = rest.iter().position(|slice| holding.is(slice, &board));
            found.map(|at| rest.remove(at)).is_some()
        });
        if all && rest.is_empty() {
            return Ok(());
        }
        let want: Vec<_> = holdings.iter().map(ToString::to_string).collect();
        let expected = format!("{node}/{gpu} with {}", or_nothing(&want));
        let got: Vec<_> = held.iter().map(|slice| shown(slice, &board)).collect();
        wrong(expected, or_nothing(&got), Vec::new())
    }

    pub(super) fn fits(&self, node: &Name, gpu: u8, profiles: &[String]) -> Result<(), Wrong> {
        let Some((board, layouts)) = self.board(node, gpu) else {
            return Ok(());
        };
        let held = self.held(node, gpu);
        let instances: Option<Vec<Instance>> = held.iter().map(|s| s.instance).collect();
        let batch: Option<Vec<_>> = profiles.iter().map(|p| board.profile(p).ok()).collect();
        let layout = instances.and_then(|instances| layouts.find(&instances));
        let fits = layout.zip(batch).is_some_and(|(layout, batch)| {
            let mut joined: BTreeMap<_, u8> = BTreeMap::new();
            for ix in batch {
                let count = joined.entry(ix).or_insert(0);
                // No board has so many.
                *count = count.saturating_add(1);
            }
            let joined: Vec<_> = joined.into_iter().collect();
            layouts.joint(layout, &joined).is_some()
        });
        let expected = format!("room on {node}/{gpu} for {}", or_nothing(profiles));
        if self.snapshot.withheld.contains(&(node.clone(), gpu)) {
            return wrong(expected, "a GPU that takes nothing now".into(), Vec::new());
        }
        if fits {
            return Ok(());
        }
        let got: Vec<_> = held.iter().map(|slice| shown(slice, &board)).collect();
        wrong(
            expected,
            format!("none beside {}", or_nothing(&got)),
            Vec::new(),
        )
    }
}

/// A slice as expectations write it.
fn shown(slice: &Slice, board: &Board) -> String {
    match (slice.instance, slice.share) {
        (Some(i), _) => format!("{}@{}", board.at(i.profile).name, i.start),
        (None, None) => "whole".into(),
        (None, Some(share)) => {
            let memory = Memory(u64::from(share.memory_mib) << 20);
            format!("{} ({memory})", GpuAmount(share.compute.into()))
        }
    }
}

impl Holding {
    fn is(&self, slice: &Slice, board: &Board) -> bool {
        match (self, slice.instance, slice.share) {
            (Self::Whole, None, None) => true,
            (Self::Instance(profile, start), Some(i), _) => {
                board.profile(profile).is_ok_and(|ix| ix == i.profile)
                    && start.is_none_or(|start| start == i.start)
            }
            (Self::Compute(units), None, Some(share)) => share.compute == *units,
            (Self::Memory(mib), None, Some(share)) => share.memory_mib == *mib,
            _ => false,
        }
    }
}

impl fmt::Display for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => write!(f, "whole"),
            Self::Instance(profile, Some(start)) => write!(f, "{profile}@{start}"),
            Self::Instance(profile, None) => write!(f, "{profile}"),
            Self::Compute(units) => write!(f, "{}", GpuAmount((*units).into())),
            Self::Memory(mib) => write!(f, "{}", Memory(u64::from(*mib) << 20)),
        }
    }
}
