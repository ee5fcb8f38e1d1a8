//! What there is and what of it is taken: nodes, their GPUs, and what lies on each.
//!
//! The same type serves as the books of a [`crate::state::State`] and as a planner's working
//! copy. Fit is exact here: milli-cores, bytes, MiB and GPU units, never rounded.

use cleave_model::{
    GPU, Name,
    board::{Board, BoardId, Catalogue, LayoutId, Layouts},
    lease::{Hold, Share, Sharing, Slice},
    node::{Health, Node},
    verdict::Dimension,
};
use std::sync::Arc;

/// Position of a node in a state; stays the same while the node is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub u32);

/// What lies on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Use {
    /// Nothing.
    #[default]
    Free,
    /// One worker has it whole.
    Whole,
    /// Shares of the uncut GPU.
    Shared(Shares),
    /// It is cut into these instances.
    Cut {
        /// The instances.
        layout: LayoutId,
        /// Instances that are shared in turn, by start; the others are held whole.
        shared: Vec<(u8, Shares)>,
    },
}

/// Shares of one GPU or instance, summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// How many.
    pub count: u32,
    /// Compute taken, in GPU units.
    pub compute: u32,
    /// Memory taken, in MiB.
    pub memory_mib: u32,
    /// How they are kept apart.
    pub by: Sharing,
}

/// One GPU of a node.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// Its board.
    pub board: BoardId,
    /// What lies on it.
    pub used: Use,
    /// It can't be used.
    pub sick: bool,
}

/// A node and what is left of it.
#[derive(Clone, Debug)]
pub struct NodeBooks {
    /// As described from outside.
    pub node: Arc<Node>,
    /// What is known of its health.
    pub health: Health,
    /// Milli-cores left.
    pub cpu_milli: u64,
    /// Bytes of host memory left.
    pub memory_bytes: u64,
    /// Places for workers left.
    pub pods: u32,
    /// Its GPUs by device index.
    pub gpus: Vec<Gpu>,
    /// Leases that contradict others on it; while there are any it takes no work.
    pub contested: u32,
}

/// Why a hold does not fit what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit(pub Dimension);

impl Shares {
    /// Adds a share to those on something of `compute` units and `memory_mib`.
    fn with(self, share: Share, compute: u32, memory_mib: u32) -> Result<Self, Misfit> {
        if self.count > 0 && self.by != share.by {
            return Err(Misfit(Dimension::Gpu));
        }
        let sum = Self {
            count: self.count + 1,
            compute: self.compute.saturating_add(share.compute),
            memory_mib: self.memory_mib.saturating_add(share.memory_mib),
            by: share.by,
        };
        if sum.compute > compute {
            Err(Misfit(Dimension::Gpu))
        } else if sum.memory_mib > memory_mib {
            Err(Misfit(Dimension::GpuMemory))
        } else {
            Ok(sum)
        }
    }

    fn none(by: Sharing) -> Self {
        Self {
            count: 0,
            compute: 0,
            memory_mib: 0,
            by,
        }
    }
}

impl Use {
    /// What lies on a GPU of `board` when `slice` comes to it.
    ///
    /// # Errors
    /// The dimension in which it does not fit.
    pub fn with(&self, slice: &Slice, board: &Board, layouts: &Layouts) -> Result<Self, Misfit> {
        let full = Misfit(Dimension::Gpu);
        match (slice.instance, slice.share) {
            (None, None) => match self {
                Self::Free => Ok(Self::Whole),
                _ => Err(full),
            },
            (None, Some(share)) => {
                let before = match self {
                    Self::Free => Shares::none(share.by),
                    Self::Shared(shares) => *shares,
                    _ => return Err(full),
                };
                before.with(share, GPU, board.memory_mib).map(Self::Shared)
            }
            (Some(instance), share) => {
                let (layout, mut shared) = match self {
                    Self::Free => (LayoutId::EMPTY, Vec::new()),
                    Self::Cut { layout, shared } => (*layout, shared.clone()),
                    _ => return Err(full),
                };
                if usize::from(instance.profile.0) >= board.profiles.len() {
                    return Err(Misfit(Dimension::Slice));
                }
                let there = layouts.instances(layout).contains(&instance);
                let at = shared.binary_search_by_key(&instance.start, |(start, _)| *start);
                let layout = match (there, share, at) {
                    (true, Some(_), Ok(_)) => layout,
                    (true, ..) => return Err(Misfit(Dimension::Slice)),
                    (false, ..) => layouts
                        .add(layout, instance.profile, instance.start)
                        .ok_or(Misfit(Dimension::Slice))?,
                };
                if let Some(share) = share {
                    let profile = board.at(instance.profile);
                    let compute = u32::from(profile.compute) * (GPU / u32::from(board.compute));
                    let before = at.map_or(Shares::none(share.by), |ix| shared[ix].1);
                    let sum = before.with(share, compute, profile.memory_mib)?;
                    match at {
                        Ok(ix) => shared[ix].1 = sum,
                        Err(ix) => shared.insert(ix, (instance.start, sum)),
                    }
                }
                Ok(Self::Cut { layout, shared })
            }
        }
    }

    /// What lies on a GPU when all of `slices` do.
    ///
    /// # Errors
    /// They contradict each other.
    pub fn of<'a>(
        slices: impl IntoIterator<Item = &'a Slice>,
        board: &Board,
        layouts: &Layouts,
    ) -> Result<Self, Misfit> {
        slices
            .into_iter()
            .try_fold(Self::Free, |used, slice| used.with(slice, board, layouts))
    }
}

impl NodeBooks {
    /// A node as it comes, empty. Boards that the catalogue lacks make their GPUs sick.
    pub fn new(node: Arc<Node>, boards: &Catalogue) -> Self {
        // The GPUs of a node are mostly alike: what was found for one serves those that follow.
        let mut last = None;
        let gpus = node.gpus.iter().map(|name| {
            let board = match last {
                Some((known, board)) if known == name => board,
                _ => boards.find(name.as_str()).ok(),
            };
            last = Some((name, board));
            Gpu {
                board: board.unwrap_or(BoardId(0)),
                used: Use::Free,
                sick: board.is_none(),
            }
        });
        Self {
            health: Health::Ready,
            cpu_milli: node.cpu_milli,
            memory_bytes: node.memory_bytes,
            pods: node.pods,
            gpus: gpus.collect(),
            contested: 0,
            node,
        }
    }

    /// The same node with nothing on it and nothing wrong with it.
    pub fn emptied(&self) -> Self {
        let gpus = self.gpus.iter().map(|gpu| Gpu {
            board: gpu.board,
            used: Use::Free,
            sick: false,
        });
        Self {
            node: self.node.clone(),
            health: Health::Ready,
            cpu_milli: self.node.cpu_milli,
            memory_bytes: self.node.memory_bytes,
            pods: self.node.pods,
            gpus: gpus.collect(),
            contested: 0,
        }
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.node.name
    }

    /// Whether it takes new work.
    pub fn is_open(&self) -> bool {
        self.health == Health::Ready && self.contested == 0
    }

    /// Takes the hold from what is left, all or nothing.
    ///
    /// # Errors
    /// The first dimension in which it does not fit; nothing is taken then.
    pub fn take(&mut self, hold: &Hold, boards: &Catalogue) -> Result<(), Misfit> {
        if self.pods == 0 {
            return Err(Misfit(Dimension::Pods));
        }
        if self.cpu_milli < hold.cpu_milli {
            return Err(Misfit(Dimension::Cpu));
        }
        if self.memory_bytes < hold.memory_bytes {
            return Err(Misfit(Dimension::Memory));
        }
        let mut changed: Vec<(usize, Use)> = Vec::with_capacity(hold.slices.len());
        for slice in &hold.slices {
            let ix = usize::from(slice.gpu);
            let Some(gpu) = self.gpus.get(ix).filter(|gpu| !gpu.sick) else {
                return Err(Misfit(Dimension::Gpu));
            };
            let earlier = changed.iter().rposition(|(other, _)| *other == ix);
            let before = earlier.map_or(&gpu.used, |at| &changed[at].1);
            let after = before.with(slice, boards.board(gpu.board), boards.layouts(gpu.board))?;
            changed.push((ix, after));
        }
        for (ix, used) in changed {
            self.gpus[ix].used = used;
        }
        self.pods -= 1;
        self.cpu_milli -= hold.cpu_milli;
        self.memory_bytes -= hold.memory_bytes;
        Ok(())
    }
}

/// The weight of a slice in GPU units: half its compute share plus half its memory share, rounded
/// down, so that the slices of one GPU never sum to more than [`GPU`].
pub fn weight(slice: &Slice, board: &Board) -> u32 {
    match (slice.instance, slice.share) {
        (None, None) => GPU,
        (Some(instance), None) => board.weight(instance.profile),
        (_, Some(share)) => {
            let memory = u64::from(share.memory_mib) * u64::from(GPU);
            let memory = memory / u64::from(board.memory_mib.max(1));
            ((u64::from(share.compute) + memory) / 2).min(u64::from(GPU)) as u32
        }
    }
}
