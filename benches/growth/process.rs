//! A process for each measurement, and what the system says of its memory.

use std::env;
use std::fs;
use std::process::{Command, Stdio};

/// Its arguments are this, a section and a subject.
const MEASURE: &str = "--measure";

/// What this process was started to measure, if it was.
pub(crate) fn asked() -> Option<(String, String)> {
    let mut args = env::args().skip_while(|arg| arg != MEASURE).skip(1);
    Some((args.next()?, args.next()?))
}

/// The figures of one measurement, from a fresh process.
pub(crate) fn ask<const N: usize>(section: &str, subject: &str) -> [f64; N] {
    let program = env::current_exe().expect("a running program has a file");
    let output = Command::new(program).args([MEASURE, section, subject]).stderr(Stdio::inherit()).output().expect("it starts again");
    assert!(output.status.success(), "measuring {section} of {subject} failed");
    let text = String::from_utf8(output.stdout).expect("numbers are UTF-8");
    let figures: Vec<f64> = text.split_whitespace().map(|figure| figure.parse().expect("a number")).collect();
    figures.try_into().expect("as many figures as were asked for")
}

/// Gives the figures to the process that asked.
pub(crate) fn answer(figures: &[f64]) {
    for figure in figures {
        println!("{figure}");
    }
}

/// The memory of this process that is resident now, in KiB; NaN where the system does not say.
///
/// Linux counts exactly in `smaps_rollup`; `statm` and `status` may lag by some dozens of pages for each processor.
pub(crate) fn resident() -> f64 {
    let kib = || fs::read_to_string("/proc/self/smaps_rollup").ok()?.lines().find_map(|line| kib(line.strip_prefix("Rss:")?));
    kib().map_or(f64::NAN, f64::from)
}

fn kib(amount: &str) -> Option<u32> {
    amount.trim().strip_suffix(" kB")?.parse().ok()
}

/// An amount of KiB in words.
pub(crate) fn mib(kib: f64) -> String {
    if kib.is_nan() { "not measured".to_owned() } else { format!("{:.2} MiB", kib / 1024.0) }
}
