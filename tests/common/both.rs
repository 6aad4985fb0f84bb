//! The same for a bucket of its own and for a key's.

/// Runs a block twice: with a handle to a bucket under the quota, and with one to a key's bucket. The clock, a `ManualClock`, starts at zero.
macro_rules! on_both {
    ($quota:expr, |$clock:ident, $bucket:ident| $test:block) => {{
        let quota: tollgate::Quota = $quota;
        {
            let $clock = tollgate::ManualClock::new();
            let bucket = tollgate::Bucket::with_clock(quota, $clock.clone());
            let $bucket = &bucket;
            $test
        }
        {
            let $clock = tollgate::ManualClock::new();
            let limiter = tollgate::Limiter::builder(quota).max_keys(8).clock($clock.clone()).build();
            let $bucket = limiter.bucket("key");
            $test
        }
    }};
}
pub(crate) use on_both;
