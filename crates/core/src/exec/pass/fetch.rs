//! Bringing the chosen experts to memory, where a budget keeps only some of them there.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use cera_quant::pack::{PackedRef, packed_bytes};

use super::{Pass, expect};
use crate::buffer::AlignedBuf;
use crate::graph::{MatrixId, RouteId};
use crate::resident::{Found, Member, Wanted};
use crate::weights::Matrix;

/// The experts of the layer that is worked on.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// Those in memory, once those to pack are packed.
    strips: HashMap<Member, Arc<AlignedBuf>>,
    /// Those to pack.
    to_pack: Vec<Member>,
    /// Those without a place.
    without: Vec<Member>,
}

impl Pass<'_> {
    /// Finds the chosen experts of `matrices`, and gives the number of those to pack: the chunks of the phase. No earlier
    /// phase runs any more.
    pub(super) fn find_experts(&self, route: RouteId, matrices: &[MatrixId]) -> usize {
        let Some(resident) = &self.program.resident else { return 0 };
        let groups = self.slots(route).experts();
        let wanted: Vec<Wanted> = matrices
            .iter()
            .filter(|matrix| !self.program.weights[matrix.0].is_packed())
            .flat_map(|matrix| groups.iter().map(|group| (matrix.0, group.member)))
            .map(|member| {
                let weight = &self.program.weights[member.0];
                let packed = expect(packed_bytes(weight.format(), weight.m(), weight.k()));
                Wanted { member, packed, plain: weight.m() * weight.row_bytes() }
            })
            .collect();
        let mut fetched = self.fetched.write().unwrap_or_else(PoisonError::into_inner);
        self.release(&fetched.without);
        // What the layer before held may be dropped from here on.
        *fetched = Fetched::default();
        for (Wanted { member, .. }, found) in wanted.iter().zip(resident.take(&wanted)) {
            match found {
                Found::Here(strips) => drop(fetched.strips.insert(*member, strips)),
                Found::ToPack(strips) => {
                    fetched.strips.insert(*member, strips);
                    fetched.to_pack.push(*member);
                }
                Found::NoRoom => fetched.without.push(*member),
            }
        }
        // The system reads the later ones while the first are packed.
        for (matrix, member) in fetched.to_pack.iter().chain(&fetched.without) {
            self.program.weights[*matrix].will_need(*member);
        }
        fetched.to_pack.len()
    }

    /// Packs one of the experts that were not in memory.
    pub(super) fn fetch(&self, chunk: usize) {
        let fetched = self.fetched.read().unwrap_or_else(PoisonError::into_inner);
        let (matrix, member) = fetched.to_pack[chunk];
        let Some(strips) = fetched.strips.get(&(matrix, member)) else { return };
        let weight = &self.program.weights[matrix];
        // SAFETY: the memory was made for this expert and is used by this chunk alone until the phase ends (chunks,
        // barriers).
        let out = unsafe { std::slice::from_raw_parts_mut(strips.as_ptr_mut(), strips.len()) };
        expect(weight.pack_member(member, out));
        weight.release(member);
    }

    /// Gives back the pages of the file that the last layer read. The phases have ended.
    pub(in crate::exec) fn release_experts(&self) {
        let fetched = self.fetched.read().unwrap_or_else(PoisonError::into_inner);
        self.release(&fetched.without);
    }

    fn release(&self, members: &[Member]) {
        for &(matrix, member) in members {
            self.program.weights[matrix].release(member);
        }
    }

    /// Calls `run` with the packed strips of a matrix of a stack, if they are in memory.
    pub(super) fn with_packed(
        &self,
        matrix: MatrixId,
        member: usize,
        run: impl FnOnce(Option<PackedRef<'_>>),
    ) {
        let weight: &Matrix = &self.program.weights[matrix.0];
        if self.program.resident.is_none() || weight.is_packed() {
            return run(weight.packed_ref(member));
        }
        let fetched = self.fetched.read().unwrap_or_else(PoisonError::into_inner);
        let strips = fetched.strips.get(&(matrix.0, member));
        run(strips.and_then(|strips| PackedRef::new(weight.format(), weight.m(), weight.k(), strips).ok()));
    }
}
