//! The same rows once more: how a pipeline of an older state comes to a later one without results.

use super::Pipeline;
use crate::clock::HandingOut;
use crate::cold::ColdPanes;
use crate::error::PipelineError;

/// Panes that are passed over at once.
const PART: usize = 65_536;

impl Pipeline {
    /// Says by which rules rows are made and judged from here on; call it after [`Self::restore`]. If they are others than
    /// before, or none were said, a new history begins: `fresh` is a number that no other one has.
    pub fn judged_by(&mut self, rules: u32, fresh: u64) {
        let trail = &mut self.trail;
        if trail.history != 0 && trail.rules == rules {
            return;
        }
        (trail.history, trail.rules) = (fresh, rules);
        if self.has_closed() {
            self.handing_out.panes = None;
        }
    }

    /// What follows does not come from the log alone, so it is a history of its own, with a number that no other one has.
    pub fn begin_history(&mut self, fresh: u64) {
        self.trail.history = fresh;
    }

    /// Rows follow that were taken before, up to a state of which `handed_out` says what [`crate::Clocks::handing_out`] said.
    /// Give them to [`Self::process_unmoved`] or [`Self::process`] with a wall clock that refuses none, and call
    /// [`Self::forget_due`] after each batch, then [`Self::catch_up`].
    pub fn retrace(&mut self, handed_out: Option<HandingOut>) {
        // What was closed in the older state and not handed out was so since, unless it is a part of the last close.
        self.forget_closed(handed_out.map(|of| of.due));
    }

    /// Drops closed windows that were due at a frontier: their results went out before.
    pub fn forget_due(&mut self, frontier: Option<i64>) {
        self.forget_closed(Some(frontier));
    }

    fn forget_closed(&mut self, due: Option<Option<i64>>) {
        for window in &mut self.windows {
            window.forget_closed(due);
        }
        self.note_handed_out();
    }

    /// The frontier is here, and all that it closes was handed out.
    pub fn skip_to(&mut self, frontier: Option<i64>) {
        self.frontier.advance(frontier);
        self.close_due();
        self.forget_closed(None);
    }

    /// All rows were taken again. Sets the frontier to where it was, and drops what was handed out at that state. Whether
    /// what came of it can be that state; if not, the pipeline is of no use any more.
    ///
    /// # Errors
    /// If a pane cannot be read.
    pub fn catch_up<C: ColdPanes + ?Sized>(
        &mut self,
        frontier: Option<i64>,
        handed_out: Option<HandingOut>,
        cold: &C,
    ) -> Result<bool, PipelineError<C::Error>> {
        if self.frontier.get() > frontier {
            return Ok(false);
        }
        let Some(handed_out) = handed_out else {
            self.skip_to(frontier);
            return Ok(true);
        };
        let Some(panes) = handed_out.panes else {
            return Ok(false);
        };
        let before = match self.handing_out.panes {
            Some(before) if self.handing_out.due == handed_out.due => before,
            _ => 0,
        };
        self.frontier.advance(frontier);
        self.close_due();
        self.forget_due(handed_out.due);
        let mut left = panes.saturating_sub(before);
        while left > 0 && self.has_closed() {
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(PART);
            let (_, passed_over) = self.drain(part, cold)?;
            left -= passed_over as u64;
        }
        self.handing_out = handed_out;
        self.note_handed_out();
        Ok(left == 0)
    }
}
