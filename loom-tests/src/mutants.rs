/// A rule taken out of the shipped files.
pub struct Mutant {
    pub name: &'static str,
    /// File, what stands there once, and what stands there in the mutant: for the build script.
    #[allow(dead_code)]
    pub edits: &'static [(&'static str, &'static str, &'static str)],
    /// The model that must fail.
    pub caught_by: &'static str,
}

const fn mutant(name: &'static str, caught_by: &'static str, edits: &'static [(&'static str, &'static str, &'static str)]) -> Mutant {
    Mutant { name, edits, caught_by }
}

pub const MUTANTS: [Mutant; 75] = [
    // The word
    mutant(
        "charge_by_store",
        "word: three threads share a burst",
        &[(
            "word.rs",
            "match self.word.compare_exchange(stored, word.0 ^ self.pad.0, Ordering::Relaxed, Ordering::Acquire) {",
            "self.store(word, Ordering::Relaxed);
            match Ok::<u64, u64>(stored) {",
        )],
    ),
    mutant(
        "denial_writes",
        "word: a denial writes nothing",
        &[(
            "word.rs",
            "if again == stored {
                        return Some(answer);",
            "if again == stored {
                        self.store(Word::live(ask.now + answer.debt + 1), Ordering::Relaxed);
                        return Some(answer);",
        )],
    ),
    // Rule 1: a word goes with the tag read after it
    mutant(
        "tag_read_once",
        "table: a word goes with its tag",
        &[("table.rs", "slot::tag_of(pair) == tag && self.plans.stands(standing)", "self.plans.stands(standing)")],
    ),
    mutant(
        "tag_published_relaxed",
        "table: a new key inherits no debt",
        &[("table/slot.rs", "self.pair[0].store(tag.0, Ordering::Release);", "self.pair[0].store(tag.0, Ordering::Relaxed);")],
    ),
    mutant(
        "claim_published_relaxed",
        "table: a word goes with its tag",
        &[("table/slot.rs", "self.word(tag).store(claim, Ordering::Release);", "self.word(tag).store(claim, Ordering::Relaxed);")],
    ),
    mutant(
        "word_read_relaxed",
        "table: a word goes with its tag",
        &[(
            "word.rs",
            "Partner: `Slot::publish`.
        let mut stored = self.word.load(Ordering::Acquire);",
            "
        let mut stored = self.word.load(Ordering::Relaxed);",
        )],
    ),
    mutant(
        "no_pad",
        "table: a stalled call charges no other key",
        &[("word.rs", "Self(number.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 1)", "Self(number & 1 << 40)")],
    ),
    // Rule 3: only a full bucket gives way by itself, and what it owed until then is not forgotten
    mutant(
        "debt_forgotten",
        "table: two keys never share a slot",
        &[("table/place.rs", "if self.full_at == NEVER { None } else { elapsed.checked_sub(self.full_at) }", "Some(elapsed)")],
    ),
    mutant(
        "mark_not_raised",
        "table: a stale call finds a forgotten debt",
        &[("table/place.rs", "self.mark.0.fetch_max(seat.full_at, Ordering::Relaxed);", "")],
    ),
    mutant(
        "mark_raised_late",
        "table: a stale call finds a forgotten debt",
        &[
            ("table/place.rs", "self.mark.0.fetch_max(seat.full_at, Ordering::Relaxed);", ""),
            ("table/place.rs", "ledger.evicted_full();", "self.mark.0.fetch_max(seat.full_at, Ordering::Relaxed);"),
        ],
    ),
    mutant(
        "mark_read_early",
        "table: a stalled call finds a forgotten debt",
        &[
            (
                "table.rs",
                "        let mut moving = None;\n        let better",
                "        let mut moving = None;\n        let early = self.fresh(&ticks);\n        let better",
            ),
            ("table.rs", "let fresh = self.fresh(&ticks);\n        Some(match", "let fresh = early;\n        Some(match"),
        ],
    ),
    mutant(
        "taken_without_release",
        "table: a stale call finds a forgotten debt",
        &[("table/slot.rs", "instead, Ordering::AcqRel, Ordering::Relaxed", "instead, Ordering::Acquire, Ordering::Relaxed")],
    ),
    // Rule 4: a slot has one owner, and a key has one bucket
    mutant(
        "reserved_by_store",
        "table: a charge outlives an eviction",
        &[(
            "table/slot.rs",
            "self.word(held.tag).exchange(held.word, instead, Ordering::AcqRel, Ordering::Relaxed).is_ok()",
            "{ self.word(held.tag).store(instead, Ordering::Release); true }",
        )],
    ),
    mutant("no_fence", "table: two threads make one bucket", &[("table.rs", "fence(Ordering::SeqCst);", "")]),
    mutant(
        "not_settled",
        "table: two threads make one bucket",
        &[(
            "table.rs",
            "let better = self.look(key, view, |other, mut held| {",
            "let better = self.look(key, view, |other, mut held| { return None;",
        )],
    ),
    mutant(
        "bucket_elsewhere_ignored",
        "table: two threads make one bucket",
        &[(
            "table.rs",
            "Kind::Claimed => {}\n                    _ => return Some(()),",
            "Kind::Claimed => {}\n                    _ => return None,",
        )],
    ),
    mutant(
        "claim_elsewhere_ignored",
        "table: two threads make one bucket",
        &[("table.rs", "Kind::Claimed if self.drop_claim(other, held) => return None,", "Kind::Claimed if true => return None,")],
    ),
    // Rule 5: the cap holds, and no key evicts itself
    mutant(
        "cap_checked_apart",
        "table: the cap holds",
        &[(
            "table/place.rs",
            "let taken = self.taken.0.fetch_add(1, Ordering::Relaxed) < most;",
            "let taken = self.taken.0.fetch_add(1, Ordering::Relaxed) < u64::MAX;",
        )],
    ),
    // Rule 6: the table grows and shrinks
    mutant(
        "debt_left_behind",
        "growth: a bucket is charged while it moves",
        &[("table.rs", "word: Word::live(tat).or_later(fresh),", "word: fresh,")],
    ),
    mutant(
        "lines_before_not_looked_at",
        "growth: a bucket is charged while it moves",
        &[("table/geometry.rs", "if self.phase() == Phase::Moving {", "if false {")],
    ),
    mutant(
        "geometry_not_read_again",
        "growth: a claim sees the step, or the step the claim",
        &[("table.rs", "!self.still_holds(view, key) || !view.now().contains(&mine.line()) || ", "")],
    ),
    mutant(
        "moved_by_store",
        "growth: a bucket makes room for another",
        &[("table/moves.rs", "if slot.take(held, moving) {", "if { slot.word(held.tag).store(moving, Ordering::Release); true } {")],
    ),
    mutant(
        "slots_not_closed",
        "shrinking: a bucket is made while its line goes",
        &[("table/resize.rs", "all &= self.close(slot, step.turn(), elapsed, ledger);", "let _ = slot;")],
    ),
    // Rule 7: quotas change
    mutant(
        "plan_not_read_again",
        "quotas: a bucket is made while its quota changes",
        &[("table.rs", " || self.plan_of(key, ledger) != plan {", " {")],
    ),
    mutant(
        "quota_changed_without_fence",
        "quotas: a bucket is made while its quota changes",
        &[("table/travel.rs", "Partner: `Table::scan`.\n        fence(Ordering::SeqCst);", "Partner: `Table::scan`.")],
    ),
    mutant(
        "tokens_not_converted",
        "quotas: a default changes under a charge",
        &[("table/travel.rs", "ticks.converted(debt.as_of, owed, &old)", "ticks.at(debt.as_of) + owed")],
    ),
    // A bucket's quota
    mutant(
        "changed_by_store",
        "bucket: a charge meets a change",
        &[(
            "account.rs",
            "match self.word.compare_exchange(stored, tat.padded(pad), Ordering::Release, Ordering::Relaxed) {",
            "self.word.store(tat.padded(pad), Ordering::Release);
            match Ok::<u64, u64>(0) {",
        )],
    ),
    mutant(
        "changed_relaxed",
        "bucket: a charge meets a change",
        &[("account.rs", "tat.padded(pad), Ordering::Release, Ordering::Relaxed", "tat.padded(pad), Ordering::Relaxed, Ordering::Relaxed")],
    ),
    mutant(
        "changed_in_place",
        "bucket: a charge meets a change",
        &[
            ("account.rs", "self.side(stored ^ SECOND));", "self.side(stored));"),
            ("account.rs", "Pad::of(number).bits() | !stored & SECOND", "Pad::of(number).bits() | stored & SECOND"),
        ],
    ),
    mutant(
        "bucket_word_read_relaxed",
        "bucket: a charge meets a change",
        &[("account.rs", "let mut stored = self.word.load(Ordering::Acquire);", "let mut stored = self.word.load(Ordering::Relaxed);")],
    ),
    mutant(
        "lost_exchange_relaxed",
        "bucket: a charge meets a change",
        &[(
            "account.rs",
            "word.padded(pad), Ordering::Relaxed, Ordering::Acquire",
            "word.padded(pad), Ordering::Relaxed, Ordering::Relaxed",
        )],
    ),
    mutant(
        "one_pad_for_all",
        "bucket: a charge meets two changes",
        &[("account.rs", "Pad::of(number).bits() | !stored & SECOND", "Pad::of(0).bits() | !stored & SECOND")],
    ),
    mutant("denied_without_a_second_look", "bucket: a denial meets two changes", &[("account.rs", "if again == stored {", "if true {")]),
    mutant(
        "second_look_relaxed",
        "bucket: a denial meets two changes",
        &[("account.rs", "let again = self.word.load(Ordering::Acquire);", "let again = self.word.load(Ordering::Relaxed);")],
    ),
    mutant(
        "terms_read_relaxed",
        "bucket: a denial meets two changes",
        &[("account.rs", "self.0[TICKS + word].load(Ordering::Acquire)", "self.0[TICKS + word].load(Ordering::Relaxed)")],
    ),
    mutant(
        "terms_written_relaxed",
        "bucket: a denial meets two changes",
        &[("account.rs", "word.store(number, Ordering::Release);", "word.store(number, Ordering::Relaxed);")],
    ),
    mutant(
        "label_read_relaxed",
        "bucket: a reading meets two changes",
        &[("account.rs", "self.0[LABEL + word].load(Ordering::Acquire)", "self.0[LABEL + word].load(Ordering::Relaxed)")],
    ),
    mutant(
        "pad_read_relaxed",
        "bucket: a reading meets two changes",
        &[("account.rs", "self.0[PAD].load(Ordering::Acquire)", "self.0[PAD].load(Ordering::Relaxed)")],
    ),
    mutant(
        "pad_written_relaxed",
        "bucket: a reading meets two changes",
        &[("account.rs", "self.0[PAD].store(pad.bits(), Ordering::Release);", "self.0[PAD].store(pad.bits(), Ordering::Relaxed);")],
    ),
    mutant("pad_not_read_again", "bucket: a reading meets two changes", &[("account.rs", "side) && side.pad() == pad {", "side) {")]),
    mutant(
        "side_not_read_again",
        "bucket: a reading meets two changes",
        &[("account.rs", "core::ptr::eq(self.side(stored), side) && side.pad() == pad", "side.pad() == pad")],
    ),
    mutant(
        "reading_relaxed",
        "bucket: a reading meets two changes",
        &[("account.rs", "let stored = self.word.load(Ordering::Acquire);", "let stored = self.word.load(Ordering::Relaxed);")],
    ),
    // Bookings, charges and refunds
    mutant(
        "booked_without_an_end",
        "booking: two meet a cancellation",
        &[("decision.rs", "- self.now + self.ticks.span(),", "- self.now + self.ticks.span() + 1,")],
    ),
    mutant(
        "wait_of_the_first_try",
        "booking: each is told its own wait",
        &[
            (
                "account.rs",
                "let mut stored = self.word.load(Ordering::Acquire);",
                "let mut told = None; let mut stored = self.word.load(Ordering::Acquire);",
            ),
            (
                "account.rs",
                "match self.word.compare_exchange(stored, word.padded(pad), Ordering::Relaxed, Ordering::Acquire) {",
                "let debt = *told.get_or_insert(debt);
                    match self.word.compare_exchange(stored, word.padded(pad), Ordering::Relaxed, Ordering::Acquire) {",
            ),
        ],
    ),
    mutant(
        "cancelled_by_store",
        "booking: each is told its own wait",
        &[(
            "account.rs",
            "match self.word.compare_exchange(stored, word.padded(pad), Ordering::Relaxed, Ordering::Acquire) {",
            "if call.act == crate::decision::Act::GiveBack {
                        self.word.store(word.padded(pad), Ordering::Relaxed);
                        return (ask, Answer::allowed(debt));
                    }
                    match self.word.compare_exchange(stored, word.padded(pad), Ordering::Relaxed, Ordering::Acquire) {",
        )],
    ),
    mutant(
        "charge_may_be_denied",
        "charge: it meets two admissions",
        &[("word.rs", "if let Act::Charge | Act::GiveBack = ask.call.act {", "if let Act::GiveBack = ask.call.act {")],
    ),
    mutant(
        "charge_ends_at_the_burst",
        "charge: it meets two admissions",
        &[("word.rs", "(debt.saturating_add(ask.price()), MAX_TICKS - ask.now)", "(debt.saturating_add(ask.price()), ask.ticks().span())")],
    ),
    mutant(
        "charge_not_tried_again",
        "charge: it meets two admissions",
        &[(
            "account.rs",
            "Ok(_) => return (ask, Answer::allowed(debt)),
                        Err(now) => now,",
            "Ok(_) => return (ask, Answer::allowed(debt)),
                        Err(_) if call.act == crate::decision::Act::Charge => return (ask, Answer::allowed(debt)),
                        Err(now) => now,",
        )],
    ),
    mutant(
        "one_too_few_given_back",
        "refund: it meets an admission",
        &[("word.rs", "debt.saturating_sub(ask.price())", "debt.saturating_sub(ask.ticks().price(ask.call.n - 1))")],
    ),
    mutant(
        "refund_of_more_than_is_owed_dropped",
        "refund: it gives back what is still owed",
        &[("word.rs", "Act::GiveBack if debt == 0 =>", "Act::GiveBack if debt < ask.price() =>")],
    ),
    mutant(
        "refund_not_tried_again",
        "refund: two meet a charge",
        &[(
            "account.rs",
            "Ok(_) => return (ask, Answer::allowed(debt)),
                        Err(now) => now,",
            "Ok(_) => return (ask, Answer::allowed(debt)),
                        Err(_) if call.act == crate::decision::Act::GiveBack => return (ask, Answer::allowed(debt)),
                        Err(now) => now,",
        )],
    ),
    mutant(
        "refund_by_store_over_a_change",
        "bucket: a refund meets a change",
        &[(
            "account.rs",
            "match self.word.compare_exchange(stored, word.padded(pad), Ordering::Relaxed, Ordering::Acquire) {",
            "if call.act == crate::decision::Act::GiveBack {
                        self.word.store(word.padded(pad), Ordering::Relaxed);
                        return (ask, Answer::allowed(debt));
                    }
                    match self.word.compare_exchange(stored, word.padded(pad), Ordering::Relaxed, Ordering::Acquire) {",
        )],
    ),
    mutant(
        "charges_forgiven_by_a_change",
        "bucket: a refund meets a change",
        &[(
            "ticks.rs",
            "if owed < span { owed } else { span } + self.priced(debt - within, from)",
            "if owed < span { owed } else { span }",
        )],
    ),
    mutant(
        "a_pad_for_each_side",
        "bucket: a charge stalls until its word comes again",
        &[("account.rs", "Pad::of(number).bits() | !stored & SECOND", "Pad::of(number % 2).bits() | !stored & SECOND")],
    ),
    mutant(
        "denied_by_terms_that_were_written_over",
        "bucket: a denial stalls until its word comes again",
        &[("account.rs", "if again == stored {", "if true {")],
    ),
    // Leases
    mutant("served_without_a_token", "lease: it meets a taker", &[("lease.rs", "_ => Err(denied.of(missing)),", "_ => Ok(missing),")]),
    mutant(
        "served_what_was_there_a_moment_ago",
        "lease: it meets a taker",
        &[("lease.rs", "take(there).or_else(|_| take(missing))", "{ let _ = take(there); Ok(there) }")],
    ),
    mutant("rests_with_its_tokens", "lease: it meets another", &[("lease.rs", "self.rest();\n    }\n}", "}\n}")]),
    mutant("rests_twice", "lease: it meets a taker", &[("lease.rs", "let left = self.left.take();", "let left = self.left.get();")]),
    mutant(
        "rests_a_whole_batch",
        "lease: it meets a taker",
        &[(
            "lease.rs",
            "self.bucket.act(Act::GiveBack, left, self.bucket.now())",
            "self.bucket.act(Act::GiveBack, self.batch, self.bucket.now())",
        )],
    ),
    mutant(
        "drawn_for_the_whole_call",
        "lease: it meets a taker",
        &[("lease.rs", "(n - self.left.get(), self.bucket.now())", "(n, self.bucket.now())")],
    ),
    // Several limits
    mutant(
        "denied_and_charged",
        "several: the last meets a taker",
        &[("several.rs", "let _ = bucket.act(Act::GiveBack, n, now);", "let _ = (bucket, n, now);")],
    ),
    mutant(
        "the_denied_given_back_too",
        "several: the last meets a taker",
        &[("several.rs", "in limits.take(index) {", "in limits.take(index + 1) {")],
    ),
    mutant(
        "one_token_given_back",
        "several: the last meets a taker",
        &[("several.rs", "let _ = bucket.act(Act::GiveBack, n, now);", "let _ = bucket.act(Act::GiveBack, n.min(1), now);")],
    ),
    mutant(
        "charged_after_a_denial",
        "several: the first meets a taker",
        &[
            ("several.rs", "in limits.take(index) {", "in limits.clone().take(index) {"),
            (
                "several.rs",
                "            return longest(answers);
        }
    }
    None",
                "        }
    }
    longest(answers)",
            ),
        ],
    ),
    mutant(
        "charged_what_was_looked_at",
        "several: two meet in one order",
        &[("several.rs", "let answer = bucket.act(act, n, now);", "let answer = bucket.act(Act::Charge, n, now);")],
    ),
    mutant(
        "a_look_is_enough",
        "several: two meet in opposite orders",
        &[(
            "several.rs",
            "let answer = bucket.act(act, n, now);",
            "let taken = bucket.act(act, n, now);
        let answer = answers[index].unwrap_or(taken);",
        )],
    ),
    // The same in a table
    mutant(
        "refund_by_store",
        "growth: a refund and a charge meet a move",
        &[(
            "word.rs",
            "match self.word.compare_exchange(stored, word.0 ^ self.pad.0, Ordering::Relaxed, Ordering::Acquire) {",
            "if ask.call.act == Act::GiveBack {
                        self.store(word, Ordering::Relaxed);
                        return Some(Answer::allowed(debt));
                    }
                    match self.word.compare_exchange(stored, word.0 ^ self.pad.0, Ordering::Relaxed, Ordering::Acquire) {",
        )],
    ),
    mutant(
        "refund_makes_a_bucket",
        "table: a refund comes late",
        &[("word.rs", "Act::GiveBack if debt == 0 => Verdict::Final(Answer::allowed(0)),", "")],
    ),
    mutant(
        "charged_though_the_claim_was_lost",
        "table: two charges make one bucket",
        &[(
            "table.rs",
            "self.make_live(mine, claim, word, &found).then_some((ask, answer))",
            "{ self.make_live(mine, claim, word, &found); Some((ask, answer)) }",
        )],
    ),
    mutant(
        "charge_ends_in_a_new_bucket",
        "table: two charges make one bucket",
        &[("word.rs", "(debt.saturating_add(ask.price()), MAX_TICKS - ask.now)", "(debt.saturating_add(ask.price()), ask.ticks().span())")],
    ),
    mutant(
        "moved_within_the_burst",
        "growth: a refund and a charge meet a move",
        &[("table/travel.rs", "return Some(debt.tat);", "return Some(debt.tat.min(ticks.at(debt.as_of) + ticks.span()));")],
    ),
    mutant(
        "not_found_in_the_lines_of_before",
        "growth: a refund meets a step",
        &[("table.rs", "is_none() && self.still_holds(view, key);", "is_none();")],
    ),
    mutant(
        "answered_though_the_claim_was_lost",
        "quotas: a refund and a charge meet a change",
        &[(
            "table.rs",
            "return self.drop_claim(mine, claim).then_some((ask, answer)),",
            "return { self.drop_claim(mine, claim); Some((ask, answer)) },",
        )],
    ),
    mutant(
        "charges_forgiven_in_a_table",
        "quotas: a refund and a charge meet a change",
        &[(
            "ticks.rs",
            "if owed < span { owed } else { span } + self.priced(debt - within, from)",
            "if owed < span { owed } else { span }",
        )],
    ),
];
