//! Medians and percentiles.

pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// The smallest of them that so many in ten thousand are not above. They are sorted.
pub(crate) fn percentile(sorted: &[u32], per_ten_thousand: usize) -> f64 {
    let rank = (sorted.len() * per_ten_thousand).div_ceil(10_000).max(1);
    sorted[rank - 1].into()
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}
