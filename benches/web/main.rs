//! What the web layer costs: `cargo bench --bench web --features axum`.
//!
//! - *served*: requests a second through a trivial handler of axum, over loopback, without a layer (twice: what the two differ by is noise), with
//!   one that does nothing (axum boxes a route anew for any), with this one, and with `tower_governor` in its place: on the router's routes, as
//!   `Router::layer` has it, and outermost, around the whole router. The servers share one thread; one other thread sends, on connections that
//!   stay open, through plain reads and writes. All but one of them have a request outstanding at any time, so the server is never idle. Slices
//!   of a fiftieth of a second by turns, beginning with another in each round; medians, and medians of the ratios round by round. Beside them
//!   the processor time of the server's thread, which whatever else runs on the machine does not lengthen as much.
//! - *called*: nanoseconds that the layer adds to a call of a tower service that does nothing, without a socket.
//!
//! `-- served` and `-- called` measure one of them alone. Every request comes from one address. Either all are allowed, or all but the first are denied.

mod called;
mod connections;
mod quotas;
mod served;
mod statistics;

fn main() {
    let asked = |part: &str| std::env::args().any(|arg| arg == part);
    // `cargo test --benches` passes this.
    if asked("--test") {
        return;
    }
    if !asked("called")
        && let Err(error) = served::compare()
    {
        eprintln!("no figures: {error}");
    }
    if !asked("served") {
        called::compare();
    }
}
