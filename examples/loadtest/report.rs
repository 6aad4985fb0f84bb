//! The figures in words: a table with a column for each limiter, and what it shows in one sentence.

use std::{fmt, time::Duration};

use crate::{
    args::{Args, UnderLoad},
    figures::Figures,
    gate::QUOTA,
    schedule::{Load, Pattern},
};

/// A limiter's name, and what its run came to.
pub(crate) type Column = (&'static str, Figures);

pub(crate) struct Report<'a> {
    pub(crate) args: &'a Args,
    pub(crate) columns: &'a [Column],
}

/// A number and what follows it, apart so that both line up.
struct Cell {
    number: String,
    unit: String,
}

const LABEL: usize = 16;
const NUMBER: usize = 12;
const UNIT: usize = 10;
/// An admission's time is read just before its decision. This many tokens' worth of time between the two, 20 ms, is
/// no excess.
const TIMING: f64 = 2.0;

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", headline(self.args))?;
        self.row(f, "", |(name, _)| Cell::new((*name).to_owned(), ""))?;
        self.row(f, "requests sent", |(_, figures)| Cell::count(figures.tally.sent()))?;
        self.row(f, "success", |(_, figures)| Cell::share(figures.tally.success, figures))?;
        self.row(f, "rate_limited", |(_, figures)| Cell::share(figures.tally.rate_limited, figures))?;
        self.row(f, "errors", |(_, figures)| Cell::share(figures.tally.errors, figures))?;
        self.row(f, "mean latency", |(_, figures)| Cell::latency(figures.mean_latency))?;
        self.row(f, "p99 latency", |(_, figures)| Cell::latency(figures.p99_latency))?;
        self.row(f, "worst second", |(_, figures)| Cell::count(figures.worst_second))?;
        self.row(f, "largest burst", |(_, figures)| Cell::new(format!("{:.0}", figures.largest_burst), ""))?;
        writeln!(f)?;
        writeln!(f, "latency        from the time a request was due to the end of its answer")?;
        let target = matches!(self.args.under_load, UnderLoad::Target(_));
        writeln!(f, "worst second   most requests of one tenant admitted within any one second")?;
        writeln!(f, "largest burst  most admitted, over any stretch of time, beyond {QUOTA} for each second of it\n")?;
        if target {
            writeln!(f, "The target does not tell when it admits: the last two count by the time of its answers.")?;
        }
        writeln!(f, "{}", conclusion(self.columns, !target))
    }
}

impl Report<'_> {
    fn row(&self, f: &mut fmt::Formatter<'_>, label: &str, cell: impl Fn(&Column) -> Cell) -> fmt::Result {
        write!(f, "{label:LABEL$}")?;
        let mut width = NUMBER;
        for column in self.columns {
            let Cell { number, unit } = cell(column);
            write!(f, "{number:>width$}{unit}")?;
            width = NUMBER + UNIT - unit.len();
        }
        writeln!(f)
    }
}

impl Cell {
    fn new(number: String, unit: &str) -> Self {
        Self { number, unit: unit.to_owned() }
    }

    fn count(count: usize) -> Self {
        Self::new(grouped(count), "")
    }

    fn share(count: usize, figures: &Figures) -> Self {
        let percent = 100.0 * count as f64 / figures.tally.sent().max(1) as f64;
        Self::new(grouped(count), &format!("{percent:>6.1} %"))
    }

    fn latency(latency: Option<Duration>) -> Self {
        match latency {
            Some(latency) => Self::new(format!("{:.2}", latency.as_secs_f64() * 1e3), " ms"),
            None => Self::new("none".to_owned(), ""),
        }
    }
}

/// What was sent, by whom, against which quota.
pub(crate) fn headline(args: &Args) -> String {
    let Load { rps, seconds, clients, pattern } = args.load;
    let tenants = match clients {
        1 => format!("tenant {}:", args.tenant),
        _ => format!("{clients} tenants, {} to {}-{clients}, each", args.tenant, args.tenant),
    };
    let pattern = match pattern {
        Pattern::Steady => "steady",
        Pattern::Herd => "a herd around every other second's edge",
    };
    let quota = match &args.under_load {
        UnderLoad::Own(_) => format!("quota {QUOTA}/s, burst {QUOTA}"),
        UnderLoad::Target(target) => format!("to {target}, under the quota that holds there"),
    };
    format!("{tenants} {rps} requests a second for {seconds} s, {pattern}; {quota}")
}

/// One sentence: who kept to the quota, if that is known, and how much of the load got through.
fn conclusion(columns: &[Column], quota_is_known: bool) -> String {
    let findings: Vec<String> = columns.iter().map(|column| finding(column, quota_is_known)).collect();
    let mut sentence = findings.join("; ");
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    sentence + "."
}

fn finding((name, figures): &Column, quota_is_known: bool) -> String {
    let Figures { tally, worst_second, largest_burst, .. } = figures;
    let excess = largest_burst - f64::from(QUOTA);
    let verdict = match excess > TIMING {
        _ if !quota_is_known => format!(" beyond {QUOTA} a second"),
        true => format!(", {excess:.0} over its quota"),
        false => ", within its quota".to_owned(),
    };
    let errors = match tally.errors {
        0 => String::new(),
        errors => format!(" ({} failed)", grouped(errors)),
    };
    format!(
        "{name} let {} of {} requests through{errors}, up to {} within one second: a burst of {largest_burst:.0}{verdict}",
        grouped(tally.success),
        grouped(tally.sent()),
        grouped(*worst_second),
    )
}

/// With a comma between each three digits.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Tally;

    fn figures(success: usize, rate_limited: usize, worst_second: usize, largest_burst: f64) -> Figures {
        Figures {
            tally: Tally { success, rate_limited, errors: 0 },
            mean_latency: Some(Duration::from_micros(214)),
            p99_latency: Some(Duration::from_micros(1_500)),
            worst_second,
            largest_burst,
        }
    }

    #[test]
    fn thousands_are_set_apart() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")];
        for (count, expected) in cases {
            assert_eq!(grouped(count), expected);
        }
    }

    #[test]
    fn columns_line_up() {
        let args = Args::from_defaults();
        let columns = [("legacy", figures(1_000, 200, 100, 17.7)), ("tollgate", figures(1_099, 101, 121, 99.6))];
        let text = Report { args: &args, columns: &columns }.to_string();
        let ends = |line: &str, cells: [&str; 2]| {
            let line = text.lines().find(|text| text.starts_with(line)).expect("the row is there");
            let second = line.rfind(cells[1]).expect("the second cell") + cells[1].len();
            let first = line[..second - cells[1].len()].rfind(cells[0]).expect("the first cell") + cells[0].len();
            (first, second)
        };
        let expected = ends("requests sent", ["1,200", "1,200"]);
        assert_eq!(ends("success", ["1,000", "1,099"]), expected);
        assert_eq!(ends("mean latency", ["0.21", "0.21"]), expected);
        assert_eq!(ends("worst second", ["100", "121"]), expected);
        assert!(text.contains("83.3 %") && text.contains("91.6 %"), "{text}");
    }

    #[test]
    fn the_conclusion_follows_the_figures() {
        let columns = [("legacy", figures(1_000, 200, 200, 192.6)), ("tollgate", figures(525, 675, 106, 100.1))];
        assert_eq!(
            conclusion(&columns, true),
            "Legacy let 1,000 of 1,200 requests through, up to 200 within one second: a burst of 193, 93 over its quota; \
             tollgate let 525 of 1,200 requests through, up to 106 within one second: a burst of 100, within its quota."
        );
    }

    #[test]
    fn a_target_is_not_held_to_a_quota_that_is_not_known() {
        let sentence = conclusion(&[("target", figures(1_000, 200, 200, 192.6))], false);
        assert!(sentence.ends_with("up to 200 within one second: a burst of 193 beyond 100 a second."), "{sentence}");
    }

    #[test]
    fn the_conclusion_does_not_hide_errors() {
        let mut failing = figures(900, 100, 100, 20.0);
        failing.tally.errors = 7;
        assert!(conclusion(&[("legacy", failing)], true).contains("let 900 of 1,007 requests through (7 failed), "));
    }

    #[test]
    fn no_answer_has_no_latency() {
        let args = Args::from_defaults();
        let silent = Figures { mean_latency: None, p99_latency: None, ..figures(0, 0, 0, 0.0) };
        let text = Report { args: &args, columns: &[("legacy", silent)] }.to_string();
        assert!(text.contains("none") && !text.contains("NaN"), "{text}");
    }
}
