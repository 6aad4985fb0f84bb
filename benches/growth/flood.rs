//! Ten million keys used once.

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use crate::LIMITERS;
use crate::common::spread;
use crate::process::{ask, mib, resident};
use crate::statistics::{float, median};
use crate::subject::{HOURLY, Says, Subject};

pub(crate) const NAME: &str = "flood";

const MAX_KEYS: usize = 100_000;

/// Keys are numbers, spread. These owe their whole burst.
const HOT: u64 = 0;
const LIMITED: Range<u64> = 1..101;
const FLOOD: Range<u64> = 101..10_000_101;

/// Keys of the flood between two batches of checks of the hot key.
const STEP: usize = 1_000;
const BATCHES: usize = 10_000;
const BATCH: u32 = 100;

/// Between two looks at the limited keys, 1,000,000 keys of the flood.
const LOOK: usize = BATCHES / 10;

/// Nanoseconds of a check in the limiter, and in its twin.
type Pair = [f64; 2];

pub(crate) fn report() {
    let answers = LIMITERS.map(|subject| (subject, ask::<13>(NAME, subject)));
    println!(
        "flood of {} keys used once, max_keys {MAX_KEYS}; memory over that of the process without the limiter",
        FLOOD.end - FLOOD.start
    );
    println!(
        "{:16}{:>14}{:>14}{:>14}{:>11}{:>10}{:>9}   still limited of {}, at the worst of 10 looks",
        "",
        "before",
        "at 10 %",
        "after",
        "keys held",
        "let off",
        "took",
        LIMITED.end - LIMITED.start
    );
    for (subject, [before, tenth, after, keys, let_off, took, still, ..]) in answers {
        println!("{subject:16}{:>14}{:>14}{:>14}{keys:>11}{let_off:>10}{took:>7.1} s   {still}", mib(before), mib(tenth), mib(after));
    }
    println!("a check of a hot key that is limited, medians of {BATCHES} batches of {BATCH}, one for each {STEP} keys of the flood");
    println!(
        "{:16}{:>10}{:>10}{:>10}   ratio to one not flooded: {:>8}{:>8}{:>8}",
        "", "before", "during", "after", "before", "during", "after"
    );
    for (subject, [.., before, ratio_before, during, ratio_during, after, ratio_after]) in answers {
        println!(
            "{subject:16}{before:>7.1} ns{during:>7.1} ns{after:>7.1} ns                             {ratio_before:>8.2}{ratio_during:>8.2}{ratio_after:>8.2}"
        );
    }
}

/// Memory before, at 10 % and after; keys, keys let off; seconds; the fewest keys still limited; the hot key before, during and
/// after, each with the ratio to the twin.
pub(crate) fn measure<S: Subject>() -> Vec<f64> {
    let twin = drained::<S>();
    // Not zeros, which would be untouched memory still.
    let [mut before, mut during, mut after] = [const { [f64::NAN; 2] }; 3].map(|pair: Pair| vec![pair; BATCHES]);
    resident();

    let empty = resident();
    let limiter = drained::<S>();
    let began = Instant::now();
    let mut memory = vec![resident()];
    let mut still = LIMITED.end;
    by_turns([&limiter, &twin], &mut before, |_| ());
    let mut flood = FLOOD.map(spread);
    by_turns([&limiter, &twin], &mut during, |batch| {
        flood.by_ref().take(STEP).for_each(|key| _ = black_box(limiter.check(key)));
        if (batch + 1) % LOOK == 0 {
            memory.push(resident());
            still = still.min(limited(&limiter));
        }
    });
    by_turns([&limiter, &twin], &mut after, |_| ());
    let took = began.elapsed().as_secs_f64();

    let Says { keys, let_off } = limiter.says();
    let [let_off, still] = [let_off, still].map(|count| float(usize::try_from(count).expect("at most the keys")));
    let [first, tenth, last] = [0, 1, 10].map(|look| memory[look] - empty);
    let mut figures = vec![first, tenth, last, float(keys), let_off, took, still];
    figures.extend([before, during, after].iter().flat_map(|pairs| medians(pairs)));
    figures
}

/// A limiter where the hot key and those to be looked at have used all they had.
fn drained<S: Subject>() -> S {
    let limiter = S::build(MAX_KEYS);
    for key in [HOT].into_iter().chain(LIMITED).map(spread) {
        let allowed = (0..=HOURLY).filter(|_| limiter.check(key)).count();
        assert_eq!(allowed, HOURLY as usize, "the burst and no more");
    }
    limiter
}

fn limited(limiter: &impl Subject) -> u64 {
    LIMITED.map(spread).map(|key| u64::from(limiter.is_limited(key))).sum()
}

/// Times a batch in both limiters, by turns which is first, after something else each time.
fn by_turns<S: Subject>(limiters: [&S; 2], pairs: &mut [Pair], mut between: impl FnMut(usize)) {
    for (batch, pair) in pairs.iter_mut().enumerate() {
        between(batch);
        for turn in [batch % 2, 1 - batch % 2] {
            pair[turn] = time(limiters[turn]);
        }
    }
}

/// Nanoseconds of a check of the hot key.
fn time(limiter: &impl Subject) -> f64 {
    let began = Instant::now();
    for _ in 0..BATCH {
        black_box(limiter.check(black_box(spread(HOT))));
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH)
}

/// The median time in the limiter, and the median ratio to its twin.
fn medians(pairs: &[Pair]) -> [f64; 2] {
    [median(pairs.iter().map(|pair| pair[0])), median(pairs.iter().map(|[flooded, twin]| flooded / twin))]
}
