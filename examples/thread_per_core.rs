//! A server of one thread per core, on a runtime whose futures never leave their thread: `cargo run --release --example thread_per_core`.
//!
//! Every core answers requests out of one hot bucket that all cores share, by a lease of its own, so that most checks write nothing shared; and makes
//! calls to a provider that allows so many in all, waiting on the runtime's own timer. A core's tasks share the lease behind an `Rc`, which cannot
//! go to another thread, and hold it while they wait.

#[cfg(unix)]
fn main() {
    unix::main();
}

#[cfg(not(unix))]
fn main() {
    println!("The runtime of this example is for Unix.");
}

#[cfg(unix)]
mod unix {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::thread;
    use std::time::{Duration, Instant};

    use monoio::{LegacyDriver, RuntimeBuilder};
    use tollgate::{Bucket, Clock, Lease, MonotonicClock, Quota};

    const A_SECOND: u32 = 100_000;
    const BURST: u32 = 2_000;
    /// What all cores may answer.
    static REQUESTS: Bucket = Bucket::new(Quota::per_second(A_SECOND as u64).burst(BURST as u64));
    /// What a provider lets all cores call.
    static PROVIDER: Bucket = Bucket::new(Quota::per_second(500).burst(4));

    const CONNECTIONS: u32 = 4;
    const TURNS: u32 = 20;
    const REQUESTS_A_TURN: u32 = 200;
    /// What a lease takes at a time. All cores' batches together are to be a small part of the burst.
    const BATCH: u64 = 16;

    /// What a core's tasks count, without an atomic.
    #[derive(Default)]
    struct Counts {
        answered: Cell<u32>,
        refused: Cell<u32>,
        /// Checks that found the lease empty, and went to the shared bucket.
        visits: Cell<u32>,
        calls: Cell<u32>,
        shed: Cell<u32>,
        waited: Cell<Duration>,
    }

    pub(super) fn main() {
        // The first reading calibrates the clock.
        _ = MonotonicClock::new().now();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let began = Instant::now();
        let threads: Vec<_> = (0..cores).map(|core| thread::spawn(move || run(core))).collect();
        let answered: u32 = threads.into_iter().map(|thread| thread.join().expect("a core does not panic")).sum();
        let took = began.elapsed();
        let most = f64::from(BURST) + f64::from(A_SECOND) * took.as_secs_f64();
        println!("{answered} answered in {took:.2?} on {cores} cores; {BURST} and {A_SECOND} a second are {most:.0}");
    }

    fn run(number: usize) -> u32 {
        let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().expect("epoll");
        runtime.block_on(async {
            let (lease, counts) = (Rc::new(REQUESTS.lease(BATCH)), Rc::new(Counts::default()));
            let connections: Vec<_> = (0..CONNECTIONS).map(|_| monoio::spawn(serve(Rc::clone(&lease), Rc::clone(&counts)))).collect();
            for connection in connections {
                connection.await;
            }
            let [answered, refused, visits] = [&counts.answered, &counts.refused, &counts.visits].map(Cell::get);
            let (calls, shed, waited) = (counts.calls.get(), counts.shed.get(), counts.waited.get());
            println!(
                "core {number}: {answered} answered, {refused} refused, {visits} visits to the shared bucket\n\
                 \x20       {calls} calls, {:.1?} waited for each, and {shed} shed",
                waited / calls.max(1)
            );
            answered
        })
    }

    async fn serve(lease: Rc<Lease<&'static Bucket>>, counts: Rc<Counts>) {
        for _ in 0..TURNS {
            for _ in 0..REQUESTS_A_TURN {
                if lease.unused() == 0 {
                    bump(&counts.visits);
                }
                match lease.check() {
                    Ok(()) => bump(&counts.answered),
                    Err(_) => bump(&counts.refused),
                }
            }
            // Nothing to do until the timer rings: what is left is for the other cores.
            lease.rest();
            let asked = Instant::now();
            match PROVIDER.acquire_with(1, Duration::from_secs(1), monoio::time::sleep).await {
                Ok(_) => {
                    bump(&counts.calls);
                    counts.waited.update(|waited| waited + asked.elapsed());
                }
                Err(_) => bump(&counts.shed),
            }
        }
    }

    fn bump(count: &Cell<u32>) {
        count.update(|count| count + 1);
    }
}
