//! A line on stderr about a run under way: rewritten in place on a terminal, one after the other elsewhere.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use crate::{driver::Sample, figures::Tally};

pub(crate) struct Progress {
    name: &'static str,
    duration: Duration,
    in_place: bool,
}

impl Progress {
    pub(crate) fn new(name: &'static str, duration: Duration) -> Self {
        Self { name, duration, in_place: io::stderr().is_terminal() }
    }

    /// How far the run is, `elapsed` after its start.
    pub(crate) fn show(&self, elapsed: Duration, samples: &[Sample]) {
        let stage = format!("{:.0} s of {:.0} s", elapsed.as_secs_f64(), self.duration.as_secs_f64());
        self.line(&stage, samples, if self.in_place { "\r" } else { "\n" });
    }

    pub(crate) fn finish(self, elapsed: Duration, samples: &[Sample]) {
        self.line(&format!("done in {:.0} s", elapsed.as_secs_f64()), samples, "\n");
    }

    fn line(&self, stage: &str, samples: &[Sample], end: &str) {
        let Tally { success, rate_limited, errors } = Tally::of(samples);
        let name = self.name;
        // A reader of stderr that has gone away is no reason to stop.
        let _ = write!(io::stderr(), "{name:<8}  {stage:<14} {success:>7} admitted {rate_limited:>7} limited {errors:>7} errors{end}");
    }
}
