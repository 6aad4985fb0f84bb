//! Requests that wait for their tokens. What is booked is told by a clock that stands; the waits themselves are real.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate::http::{Everyone, Fields, Policy, RateLimitLayer};
use tollgate::{MaxWait, Quota, Waiters};

use crate::app::CALL;
use crate::client::{Outcome, Version, call};
use crate::servers::{Server, Setup};
use crate::{Limits, limiter, on_every_server, until};

struct Queue {
    limiter: Limits,
    waiters: Waiters,
    server: Arc<Server>,
}

/// One at once, the others each so much later, up to a bound.
async fn start(setup: Setup, every: Duration, longest: Duration, most: usize) -> Queue {
    let (_, limiter) = limiter(Quota::new(1, every).expect("fits"));
    let waiters = Waiters::new(most);
    let layer = RateLimitLayer::new(Policy::new("default", limiter.clone(), Everyone)).wait(MaxWait::new(longest).among(&waiters));
    let server = Arc::new(setup.start(layer.fields(Fields::default().on_allowed())).await);
    Queue { limiter, waiters, server }
}

impl Queue {
    async fn has(&self, waiting: usize) {
        until("as many wait as should", || self.waiters.waiting() == waiting).await;
    }

    /// When the bucket will be full.
    fn owes(&self) -> Duration {
        self.limiter.peek(&()).reset_after()
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn requests_wait_in_the_order_in_which_they_came() {
    on_every_server(async |setup| {
        let every = Duration::from_millis(60);
        let queue = start(setup, every, MINUTE, 10).await;
        let begin = Instant::now();
        assert!(queue.server.send(call(CALL).id("0")).await.is_served());
        let mut requests = Vec::new();
        for (number, id) in (1..).zip(["1", "2", "3"]) {
            let server = queue.server.clone();
            let request = async move { (server.send(call(CALL).id(id)).await, begin.elapsed()) };
            requests.push(tokio::spawn(request));
            let booked = || queue.owes() == every * (number + 1);
            until("it is booked", booked).await;
        }
        for (number, request) in (1..).zip(requests) {
            let (answer, after) = request.await.expect("no panic");
            assert!(answer.is_served());
            assert!(after >= every * number, "{number} after {after:?}");
        }
        assert_eq!(queue.server.app.order(), ["0", "1", "2", "3"]);
        assert_eq!(queue.waiters.waiting(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_wait_that_would_be_too_long_is_rejected_at_once() {
    on_every_server(async |setup| {
        let queue = start(setup, MINUTE, 2 * MINUTE, 10).await;
        assert!(queue.server.call().await.is_served());
        for waiting in 1..=2 {
            queue.server.spawn(call(CALL));
            queue.has(waiting).await;
        }
        // Its answer comes while the others wait, for minutes: as soon as it would be let wait, not when it would be served.
        let answer = queue.server.call().await;
        assert_eq!((answer.outcome(), answer.field("retry-after")), (Outcome::OverQuota, Some("60")));
        assert_eq!((queue.waiters.waiting(), queue.owes()), (2, 3 * MINUTE));
    })
    .await;
}

#[tokio::test]
async fn no_more_wait_than_may() {
    on_every_server(async |setup| {
        let queue = start(setup, MINUTE, 100 * MINUTE, 2).await;
        assert!(queue.server.call().await.is_served());
        for waiting in 1..=2 {
            queue.server.spawn(call(CALL));
            queue.has(waiting).await;
        }
        let answer = queue.server.call().await;
        assert_eq!((answer.outcome(), answer.field("retry-after")), (Outcome::OverQuota, Some("180")));
        assert_eq!((queue.waiters.waiting(), queue.owes()), (2, 3 * MINUTE));
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_away_gives_back_its_tokens_and_its_place() {
    on_every_server(async |setup| {
        let queue = start(setup, MINUTE, 100 * MINUTE, 3).await;
        assert!(queue.server.call().await.is_served());
        let mut requests = Vec::new();
        for waiting in 1..=3 {
            requests.push(queue.server.spawn(call(CALL)));
            queue.has(waiting).await;
        }
        assert_eq!(queue.owes(), 4 * MINUTE);
        // With their connections.
        requests.remove(1).abort();
        queue.has(2).await;
        assert_eq!(queue.owes(), 3 * MINUTE);
        requests.iter().for_each(tokio::task::JoinHandle::abort);
        queue.has(0).await;
        assert_eq!((queue.owes(), queue.server.app.served()), (MINUTE, 1));

        // One stream of a connection that stays.
        if setup.version == Version::Http2 {
            let mut connection = queue.server.connect().await;
            let wait = tokio::time::timeout(Duration::from_millis(50), connection.send(&queue.server, call(CALL)));
            assert!(wait.await.is_err());
            queue.has(0).await;
            assert_eq!(queue.owes(), MINUTE);
        }
    })
    .await;
}

#[tokio::test]
async fn a_request_waits_for_the_slowest_of_several_limits() {
    on_every_server(async |setup| {
        let policy = |name, every| {
            let (_, limiter) = limiter(Quota::new(1, every).expect("fits"));
            (limiter.clone(), Policy::new(name, limiter, Everyone))
        };
        let ((fast, first), (slow, second)) = (policy("fast", Duration::from_millis(10)), policy("slow", Duration::from_millis(80)));
        let layer = RateLimitLayer::new(first).and(second).wait(Duration::from_millis(100));
        let server = Arc::new(setup.start(layer).await);
        assert!(server.call().await.is_served());
        let begin = Instant::now();
        assert!(server.call().await.is_served());
        assert!(begin.elapsed() >= Duration::from_millis(80));
        // A third would wait too long for one of them, and is booked with neither.
        let answer = server.call().await;
        assert_eq!((answer.outcome(), answer.field("retry-after")), (Outcome::OverQuota, Some("1")));
        let owed = (fast.peek(&()).reset_after(), slow.peek(&()).reset_after());
        assert_eq!(owed, (Duration::from_millis(20), Duration::from_millis(160)));
    })
    .await;
}
