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

pub const MUTANTS: [Mutant; 42] = [
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
        &[("word.rs", "let mut stored = self.word.load(Ordering::Acquire);", "let mut stored = self.word.load(Ordering::Relaxed);")],
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
        &[("table/place.rs", "self.counts.mark.fetch_max(seat.full_at, Ordering::Relaxed);", "")],
    ),
    mutant(
        "mark_raised_late",
        "table: a stale call finds a forgotten debt",
        &[
            ("table/place.rs", "self.counts.mark.fetch_max(seat.full_at, Ordering::Relaxed);", ""),
            ("table/place.rs", "ledger.evicted_full();", "self.counts.mark.fetch_max(seat.full_at, Ordering::Relaxed);"),
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
        &[("table.rs", "self.view(key) != *view || !view.now().contains(&mine.line()) || ", "")],
    ),
    mutant(
        "moved_by_store",
        "growth: a bucket makes room for another",
        &[("table/moves.rs", "if slot.take(held, moving) {", "if { slot.word(held.tag).store(moving, Ordering::Release); true } {")],
    ),
    mutant(
        "slots_not_closed",
        "shrinking: a bucket is made while its line goes",
        &[("table/resize.rs", "all &= if step.grows() {", "all &= if true { true } else if step.grows() {")],
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
        &[("table/travel.rs", "ticks.converted(owed, &old)", "owed")],
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
];
