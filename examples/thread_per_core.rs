//! A server of one thread per core, on a runtime whose futures never leave their thread: `cargo run --release --example thread_per_core`.
//!
//! Every core answers requests out of one hot bucket that all cores share, by a lease of its own, so that most checks write nothing shared; and makes
//! calls to a provider that allows so many in all, waiting on the runtime's own timer. Neither `Rc` nor `Lease` can go to another thread, and both are
//! held while a future waits.

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
    use tollgate::{Bucket, Clock, Denied, Lease, MonotonicClock, Quota};

    /// What all cores may answer.
    static REQUESTS: Bucket = Bucket::new(Quota::per_second(20_000).burst(2_000));
    /// What a provider lets all cores call.
    static PROVIDER: Bucket = Bucket::new(Quota::per_second(100).burst(4));

    const CONNECTIONS: u32 = 4;
    const TURNS: u32 = 20;
    const REQUESTS_A_TURN: u32 = 200;
    /// All cores' batches together are a small part of the burst.
    const BATCH: u64 = 32;

    /// A core's own, shared by its tasks without an atomic.
    struct Core {
        requests: Lease<&'static Bucket>,
        answered: Cell<u32>,
        refused: Cell<u32>,
        visits: Cell<u32>,
        calls: Cell<u32>,
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
        println!(
            "{answered} answered in {took:.2?} in all; 2000 + 20000 a second make {:.0}",
            20_000.0_f64.mul_add(took.as_secs_f64(), 2_000.0)
        );
    }

    fn run(number: usize) -> u32 {
        let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build().expect("epoll");
        runtime.block_on(async {
            let core = Rc::new(Core {
                requests: REQUESTS.lease(BATCH),
                answered: Cell::default(),
                refused: Cell::default(),
                visits: Cell::default(),
                calls: Cell::default(),
                waited: Cell::default(),
            });
            let connections: Vec<_> = (0..CONNECTIONS).map(|_| monoio::spawn(serve(Rc::clone(&core)))).collect();
            for connection in connections {
                connection.await.expect("a wait of a second is enough");
            }
            println!(
                "core {number}: {} answered, {} refused, {} visits to the shared bucket; {} calls, waited {:.1?} each",
                core.answered.get(),
                core.refused.get(),
                core.visits.get(),
                core.calls.get(),
                core.waited.get() / core.calls.get()
            );
            core.answered.get()
        })
    }

    async fn serve(core: Rc<Core>) -> Result<(), Denied> {
        for _ in 0..TURNS {
            for _ in 0..REQUESTS_A_TURN {
                if core.requests.unused() == 0 {
                    core.visits.update(|visits| visits + 1);
                }
                match core.requests.check() {
                    Ok(()) => core.answered.update(|answered| answered + 1),
                    Err(_) => core.refused.update(|refused| refused + 1),
                }
            }
            // Nothing to do until the timer rings: what is left is for the other cores.
            core.requests.rest();
            let asked = Instant::now();
            PROVIDER.acquire_with(monoio::time::sleep, 1, Duration::from_secs(1)).await?;
            core.calls.update(|calls| calls + 1);
            core.waited.update(|waited| waited + asked.elapsed());
        }
        Ok(())
    }
}
