//! Time that moves while threads work.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Clock, Instant, ManualClock, Quota};

use crate::random::Random;

/// About the time of four tokens, so that calls on the whole ask for more than there is.
pub(crate) fn longest_move(quota: Quota) -> u64 {
    let nanos = 4 * quota.period().as_nanos() / u128::from(quota.tokens()) + 4;
    u64::try_from(nanos).expect("a few tokens' time")
}

/// Moves the clock until told to stop, now and then back.
fn move_about(clock: &ManualClock, quota: Quota, done: &AtomicBool) {
    let mut random = Random::new(0);
    let longest = longest_move(quota);
    while !done.load(Ordering::Relaxed) {
        let by = Duration::from_nanos(random.below(longest) + 1);
        if random.below(8) == 0 {
            clock.set(Duration::from_nanos(clock.now().as_nanos()).saturating_sub(by));
        } else {
            clock.advance(by);
        }
        thread::yield_now();
    }
}

/// A stamp: the time, or an old or a future one.
pub(crate) fn stamp(clock: &ManualClock, quota: Quota, random: &mut Random) -> Instant {
    let off = Duration::from_nanos(random.below(longest_move(quota)));
    match random.below(4) {
        0 => clock.now() - off,
        1 if random.below(64) == 0 => clock.now() + off,
        _ => clock.now(),
    }
}

/// Runs `work` on so many threads, beside one that moves the clock, and gathers what they return.
pub(crate) fn gather<T: Send>(threads: usize, clock: &ManualClock, quota: Quota, work: impl Fn(usize) -> Vec<T> + Sync) -> Vec<T> {
    let (done, start) = (AtomicBool::new(false), Barrier::new(threads));
    thread::scope(|scope| {
        let mover = scope.spawn(|| move_about(clock, quota, &done));
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (work, start) = (&work, &start);
                scope.spawn(move || {
                    start.wait();
                    work(thread)
                })
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        // Joined, not left to the scope: a sanitizer sees only the former, as the latter is within the standard library.
        mover.join().expect("the clock's thread does not panic");
        results.into_iter().flat_map(|result| result.expect("no thread panics")).collect()
    })
}
