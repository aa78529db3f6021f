//! Slots: the tokens of a pass by the experts that were chosen for them.

use std::ops::Range;

use super::Pass;
use crate::graph::{RouteId, Rows};
use crate::plan::{ActsInfo, Groups};

/// The slots of a choice: by expert, and by token for each expert.
#[derive(Debug)]
pub(super) struct Slots {
    /// The token of every slot.
    tokens: Vec<usize>,
    /// The slots of every token, in increasing order of experts: `[token][chosen]`.
    of_tokens: Vec<usize>,
    /// The experts that were chosen, with their slots.
    experts: Vec<Group>,
    /// Column tiles: each of the slots of one expert.
    tiles: Vec<Range<usize>>,
}

/// Rows of activations that are multiplied by one matrix of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// Which matrix.
    pub(super) member: usize,
    /// The rows.
    pub(super) rows: Range<usize>,
}

impl Slots {
    /// The slots of `chosen` of `experts` experts. `choice` has for each token their numbers in increasing order, then their
    /// weights. Column tiles of the slots of an expert have `tile` of them.
    pub(super) fn new(
        choice: &[f32],
        (chosen, experts): (usize, usize),
        tile: impl Fn(usize) -> usize,
    ) -> Slots {
        let ids =
            || choice.chunks_exact(2 * chosen).flat_map(|row| row[..chosen].iter().map(|&id| id as usize));
        let mut next = vec![0; experts + 1];
        ids().for_each(|id| next[id + 1] += 1);
        for expert in 0..experts {
            next[expert + 1] += next[expert];
        }
        let taken = (0..experts).filter(|&expert| next[expert] < next[expert + 1]);
        let group = |member| Group { member, rows: next[member]..next[member + 1] };
        let groups: Vec<Group> = taken.map(group).collect();
        let mut tiles = Vec::with_capacity(groups.len());
        for Group { rows, .. } in &groups {
            let tile = tile(rows.len());
            tiles.extend(rows.clone().step_by(tile).map(|from| from..rows.end.min(from + tile)));
        }
        let count = next[experts];
        let (mut tokens, mut of_tokens) = (vec![0; count], Vec::with_capacity(count));
        for (i, id) in ids().enumerate() {
            tokens[next[id]] = i / chosen;
            of_tokens.push(next[id]);
            next[id] += 1;
        }
        Slots { tokens, of_tokens, experts: groups, tiles }
    }

    /// The experts that were chosen, with their slots.
    pub(super) fn experts(&self) -> &[Group] {
        &self.experts
    }

    /// The token of a slot.
    pub(super) fn token(&self, slot: usize) -> usize {
        self.tokens[slot]
    }

    /// The slots of a token, `chosen` of them, in increasing order of experts.
    pub(super) fn of_token(&self, token: usize, chosen: usize) -> &[usize] {
        &self.of_tokens[token * chosen..][..chosen]
    }
}

/// Groups of rows.
pub(super) enum GroupList<'a> {
    /// So many matrices with as many rows each.
    Even {
        /// Matrices.
        count: usize,
        /// Rows.
        rows: usize,
    },
    /// Those of the experts that were chosen.
    Experts(&'a [Group]),
}

impl GroupList<'_> {
    /// Groups.
    pub(super) fn len(&self) -> usize {
        match self {
            GroupList::Even { count, .. } => *count,
            GroupList::Experts(groups) => groups.len(),
        }
    }

    /// One of them.
    pub(super) fn get(&self, i: usize) -> Group {
        match self {
            GroupList::Even { rows, .. } => Group { member: i, rows: i * rows..(i + 1) * rows },
            GroupList::Experts(groups) => groups[i].clone(),
        }
    }

    /// The most rows of a group.
    pub(super) fn largest(&self) -> usize {
        match self {
            GroupList::Even { rows, .. } => *rows,
            GroupList::Experts(groups) => groups.iter().map(|group| group.rows.len()).max().unwrap_or(0),
        }
    }
}

/// The column tiles of the rows of a phase.
pub(super) enum Tiles<'a> {
    /// Of as many rows each, but for the last.
    Even {
        /// All rows.
        rows: usize,
        /// Those of a tile.
        tile: usize,
    },
    /// Those of slots.
    Slots(&'a [Range<usize>]),
}

impl Tiles<'_> {
    /// Tiles.
    pub(super) fn len(&self) -> usize {
        match self {
            Tiles::Even { rows, tile } => rows.div_ceil(*tile),
            Tiles::Slots(tiles) => tiles.len(),
        }
    }

    /// The rows of one of them.
    pub(super) fn get(&self, i: usize) -> Range<usize> {
        match self {
            Tiles::Even { rows, tile } => i * tile..(*rows).min((i + 1) * tile),
            Tiles::Slots(tiles) => tiles[i].clone(),
        }
    }
}

impl Pass<'_> {
    /// Finds the slots of a phase whose rows they are; the choice was made in an earlier phase.
    pub(super) fn find_slots(&self, rows: Rows) {
        if let Rows::Slots(route) = rows {
            let info = &self.graph().routes[route.0];
            let table = self.program.runtime.table();
            self.slots[route.0].get_or_init(|| {
                let sizes = (info.routing.chosen, info.experts);
                Slots::new(self.value(info.choice), sizes, |n| table.column_tile(n))
            });
        }
    }

    /// The slots of a choice.
    ///
    /// # Panics
    /// If no phase of slots has begun yet.
    pub(super) fn slots(&self, route: RouteId) -> &Slots {
        self.slots[route.0].get().unwrap_or_else(|| panic!("slots are read before experts are chosen"))
    }

    /// The column tiles of rows of a kind.
    pub(super) fn tiles(&self, rows: Rows) -> Tiles<'_> {
        match rows {
            Rows::Slots(route) => Tiles::Slots(&self.slots(route).tiles),
            Rows::Tokens | Rows::Outputs => Tiles::Even { rows: self.count(rows), tile: self.tile(rows) },
        }
    }

    /// The groups of activations.
    pub(super) fn groups(&self, acts: &ActsInfo) -> GroupList<'_> {
        match acts.groups {
            Groups::One => GroupList::Even { count: 1, rows: self.count(acts.rows(self.graph())) },
            Groups::Heads(count) => GroupList::Even { count, rows: self.count(acts.rows(self.graph())) },
            Groups::Experts(route) => GroupList::Experts(&self.slots(route).experts),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
