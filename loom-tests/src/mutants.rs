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

pub const MUTANTS: [Mutant; 19] = [
    // The word
    mutant(
        "charge_by_store",
        "word: three threads share a burst",
        &[(
            "word.rs",
            "match self.exchange(seen, charged, Ordering::Relaxed, Ordering::Acquire) {",
            "self.store(charged, Ordering::Relaxed);
            match Ok::<(), Word>(()) {",
        )],
    ),
    mutant(
        "denial_writes",
        "word: a denial writes nothing",
        &[(
            "word.rs",
            "Verdict::Final(answer) => return Some(answer),",
            "Verdict::Final(answer) => {
                self.store(Word::live(ask.now + answer.debt + 1), Ordering::Relaxed);
                return Some(answer);
            }",
        )],
    ),
    // Rule 1: a word goes with the tag read before and after it
    mutant(
        "tag_read_once",
        "table: a word goes with its tag",
        &[("table.rs", "slot::still(slot, tag) && tag.is_of(key.fingerprint())", "tag.is_of(key.fingerprint())")],
    ),
    mutant(
        "tag_published_relaxed",
        "table: a new key inherits no debt",
        &[(
            "table/slot.rs",
            "self.pair[0].store(old.next(fingerprint.0).0, Ordering::Release);",
            "self.pair[0].store(old.next(fingerprint.0).0, Ordering::Relaxed);",
        )],
    ),
    mutant(
        "claim_published_relaxed",
        "table: a word goes with its tag",
        &[("table/slot.rs", "self.word().store(claim, Ordering::Release);", "self.word().store(claim, Ordering::Relaxed);")],
    ),
    mutant(
        "word_read_relaxed",
        "table: a word goes with its tag",
        &[("table.rs", "let seen = word.load(Ordering::Acquire);", "let seen = word.load(Ordering::Relaxed);")],
    ),
    // Rule 3: only a full bucket gives way by itself, and what it owed until then is not forgotten
    mutant(
        "debt_forgotten",
        "table: two keys never share a slot",
        &[("table/place.rs", "let in_debt = tat > Some(ask.now);", "let in_debt = false;")],
    ),
    mutant("mark_not_raised", "table: a stale call finds a forgotten debt", &[("table/place.rs", "self.raise_mark(full);", "")]),
    mutant(
        "mark_raised_late",
        "table: a stale call finds a forgotten debt",
        &[
            ("table/place.rs", "self.raise_mark(full);", ""),
            ("table/place.rs", "Some(_) => ledger.evicted_full(),", "Some(full) => self.raise_mark(full),"),
        ],
    ),
    mutant(
        "mark_read_early",
        "table: a stalled call finds a forgotten debt",
        &[
            (
                "table.rs",
                "if let Verdict::Final(answer) = self.fresh().decide(ask) {",
                "let early = self.fresh(); if let Verdict::Final(answer) = early.decide(ask) {",
            ),
            (
                "table.rs",
                "claim);\n        self.settle(key, slot, claim, ask)",
                "claim);\n        self.settle(key, slot, claim, ask, early)",
            ),
            (
                "table.rs",
                "Some((slot, claim)) => self.settle(key, slot, claim, ask),",
                "Some((slot, claim)) => self.settle(key, slot, claim, ask, self.fresh()),",
            ),
            (
                "table.rs",
                "mine: Slot<'_>, claim: Word, ask: &Ask<'_>) -> Option<Answer> {",
                "mine: Slot<'_>, claim: Word, ask: &Ask<'_>, early: Word) -> Option<Answer> {",
            ),
            ("table.rs", "match self.fresh().decide(ask) {", "match early.decide(ask) {"),
        ],
    ),
    mutant(
        "reserved_without_release",
        "table: a stale call finds a forgotten debt",
        &[("table/slot.rs", "Word::RESERVED, Ordering::AcqRel, Ordering::Relaxed", "Word::RESERVED, Ordering::Acquire, Ordering::Relaxed")],
    ),
    // Rule 4: a slot has one owner, and a key has one bucket
    mutant(
        "reserved_by_store",
        "table: a charge outlives an eviction",
        &[(
            "table/slot.rs",
            "self.word().exchange(free, Word::RESERVED, Ordering::AcqRel, Ordering::Relaxed).ok()?;",
            "self.word().store(Word::RESERVED, Ordering::Release);",
        )],
    ),
    mutant("no_fence", "table: two threads make one bucket", &[("table.rs", "fence(Ordering::SeqCst);", "")]),
    mutant(
        "not_settled",
        "table: two threads make one bucket",
        &[("table.rs", "while let Some(word) = other.word_of(key.fingerprint()) {", "while let Some(word) = None::<Word> {")],
    ),
    mutant(
        "bucket_elsewhere_ignored",
        "table: two threads make one bucket",
        &[("table.rs", "Kind::Live(_) => return false,", "Kind::Live(_) => return true,")],
    ),
    mutant(
        "claim_elsewhere_ignored",
        "table: two threads make one bucket",
        &[("table.rs", "Kind::Claimed if other.drop_claim(word) => return true,", "Kind::Claimed if true => return true,")],
    ),
    mutant(
        "claims_not_helped",
        "table: two threads make one bucket",
        &[("table.rs", "Some((slot, claim)) => self.settle(key, slot, claim, ask),", "Some(_) => None,")],
    ),
    mutant("stamps_repeat", "table: a claim has its own stamp", &[("word.rs", "Self(CLAIMED | stamp & STAMP_MASK)", "Self(CLAIMED)")]),
    // Rule 5: the cap holds, and no key evicts itself
    mutant(
        "cap_checked_apart",
        "table: the cap holds",
        &[(
            "table/place.rs",
            ".fetch_update(Ordering::Relaxed, Ordering::Relaxed, |occupied| (occupied < self.max_keys).then_some(occupied + 1))
            .is_ok()",
            ".load(Ordering::Relaxed) < self.max_keys && self.occupied.fetch_add(1, Ordering::Relaxed) < u64::MAX",
        )],
    ),
];
