//! What the build script makes the mutants from.

include!("mutants.rs");
