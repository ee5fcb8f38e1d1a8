//! The tree of GPUs inside a node.

/// Groups of GPUs by level, the tightest level first, such as NVLink clique, PCIe switch, NUMA
/// node. Groups are masks of GPU indices; all GPUs of the node are the last level and need not
/// be said. The default is flat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Masks of each level's groups.
    pub levels: Vec<Vec<u32>>,
}

impl Topology {
    /// The tightest `count` of the `free` GPUs, as (level, mask): of the lowest level that has a
    /// group with enough of them, the group with the fewest; inside it, whole lesser groups
    /// before parts of others, then the lowest indices.
    pub fn tightest(&self, free: u32, count: u32) -> Option<(u8, u32)> {
        if free.count_ones() < count {
            return None;
        }
        for (level, groups) in self.levels.iter().enumerate() {
            let fitting = groups.iter().map(|group| group & free);
            let fitting = fitting.filter(|group| group.count_ones() >= count);
            if let Some(group) = fitting.min_by_key(|group| (group.count_ones(), *group)) {
                return Some((level as u8, self.take(group, count, level)));
            }
        }
        let level = self.levels.len();
        Some((level as u8, self.take(free, count, level)))
    }

    /// `count` of the GPUs in `from`, where no group below `level` has as many.
    fn take(&self, mut from: u32, mut count: u32, level: usize) -> u32 {
        let mut taken = 0;
        for groups in self.levels[..level].iter().rev() {
            loop {
                let whole = groups.iter().map(|group| group & from);
                let whole = whole.filter(|group| (1..=count).contains(&group.count_ones()));
                let Some(group) = whole.max_by_key(|g| (g.count_ones(), u32::MAX - g)) else {
                    break;
                };
                taken |= group;
                from &= !group;
                count -= group.count_ones();
            }
        }
        for _ in 0..count {
            taken |= from & from.wrapping_neg();
            from &= from - 1;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tightest_sets() {
        // two NUMA halves of two pairs each
        let tree = Topology {
            levels: vec![vec![0x03, 0x0c, 0x30, 0xc0], vec![0x0f, 0xf0]],
        };
        for (free, count, level, mask) in [
            (0xff, 1, 0, 0x01),
            (0xff, 2, 0, 0x03),
            (0xfe, 2, 0, 0x0c),
            (0xfe, 1, 0, 0x02),
            (0xff, 4, 1, 0x0f),
            (0xfe, 3, 1, 0x0e),
            (0xff, 3, 1, 0x07),
            (0x5f, 2, 0, 0x03),
            (0x55, 2, 1, 0x05),
            (0xff, 6, 2, 0x3f),
        ] {
            assert_eq!(
                tree.tightest(free, count),
                Some((level, mask)),
                "{free:x} {count}"
            );
        }
        assert_eq!(tree.tightest(0x03, 3), None);
        assert_eq!(Topology::default().tightest(0x16, 2), Some((0, 0x06)));
    }
}
