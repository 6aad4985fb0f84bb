//! Writes, for each mutant, a copy of the shipped files with one rule taken out, as a module beside the real ones.

use std::path::{Path, PathBuf};
use std::{env, fs};

include!("src/mutants.rs");

/// The shipped floors that are modelled, and what stands for the rest of the crate here.
const SHIPPED: [&str; 16] = [
    "account.rs",
    "clock/instant.rs",
    "decision.rs",
    "lease.rs",
    "plans.rs",
    "several.rs",
    "table.rs",
    "table/geometry.rs",
    "table/moves.rs",
    "table/place.rs",
    "table/resize.rs",
    "table/slot.rs",
    "table/travel.rs",
    "ticks.rs",
    "token_bucket.rs",
    "word.rs",
];
const OURS: [&str; 4] = ["sync.rs", "models.rs", "bucket_models.rs", "waiting_models.rs"];

/// What a mutant is made of, besides what all of them are: the modules that the model named for it needs.
fn floors(model: &str) -> (&'static str, &'static str) {
    match model.split_once(':').expect("a model's name says what it is of").0 {
        "word" | "table" | "growth" | "shrinking" | "quotas" => ("mod models; mod plans; mod table;", "models"),
        "bucket" => ("mod account; mod bucket_models;", "bucket_models"),
        _ => (
            "mod account; mod clock { pub mod instant; pub use instant::Instant; } mod lease; mod several; mod token_bucket; mod waiting_models;",
            "waiting_models",
        ),
    }
}

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut modules = String::new();
    for mutant in &MUTANTS {
        let to = out.join(mutant.name);
        for folder in ["clock", "table"] {
            fs::create_dir_all(to.join(folder)).expect("a folder in OUT_DIR");
        }
        let mut edits_made = 0;
        for file in &SHIPPED {
            let mut text = read(&here.join("../src").join(file));
            for (in_file, from, instead) in mutant.edits {
                if in_file == file {
                    assert_eq!(text.matches(from).count(), 1, "mutant {}: {file} should hold once: {from}", mutant.name);
                    text = text.replace(from, instead);
                    edits_made += 1;
                }
            }
            write(&to.join(file), &text, mutant.name);
        }
        assert_eq!(edits_made, mutant.edits.len(), "mutant {}: an edit names a file that is not modelled", mutant.name);
        for file in OURS {
            write(&to.join(file), &only(mutant.caught_by, &read(&here.join("src").join(file))), mutant.name);
        }
        let (floors, models) = floors(mutant.caught_by);
        let floors = format!("use crate::Model; mod decision; mod sync; mod ticks; mod word; {floors} pub use {models}::MODELS;\n");
        fs::write(to.join("mod.rs"), format!("#![allow(dead_code, unused, clippy::all, clippy::pedantic)]\n{floors}"))
            .expect("OUT_DIR is writable");
        modules.push_str(&format!("#[path = {:?}] pub mod {};\n", to.join("mod.rs"), mutant.name));
    }
    let list: String = MUTANTS.iter().map(|mutant| format!("(\"{0}\", &{0}::MODELS), ", mutant.name)).collect();
    modules.push_str(&format!("pub const ALL: [(&str, &[crate::Model]); {}] = [{list}];\n", MUTANTS.len()));
    fs::write(out.join("mutated.rs"), modules).expect("OUT_DIR is writable");
}

/// The models' text with one model listed: the compiler leaves the others out, and all that they alone use.
fn only(name: &str, text: &str) -> String {
    let Some((before, (_, list))) =
        text.split_once("[Model; ").map(|(before, rest)| (before, rest.split_once("];").expect("a list of models")))
    else {
        return text.to_owned();
    };
    let listed = text.lines().find(|line| line.starts_with("    model(") && line.contains(&format!("\"{name}\"")));
    format!("{before}[Model; {}] = [{}];{list}", usize::from(listed.is_some()), listed.unwrap_or_default())
}

fn read(path: &Path) -> String {
    println!("cargo::rerun-if-changed={}", path.display());
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes a copy whose crate is the mutant's module.
fn write(path: &Path, text: &str, mutant: &str) {
    fs::write(path, text.replace("crate::", &format!("crate::mutated::{mutant}::"))).expect("OUT_DIR is writable");
}
