//! Lock-free rate limiting.
