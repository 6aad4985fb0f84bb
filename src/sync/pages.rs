//! Memory given back to the operating system: the crate's one unsafe call.

use super::Pair;

/// Gives back the whole pages within `pairs`, which read as zeros from then on, and says how many bytes come before the first of them. `None`:
/// there is none, or it is not known how on this system.
#[cfg(all(target_os = "linux", not(miri)))]
#[allow(unsafe_code)]
pub(super) fn release(pairs: &[Pair]) -> Option<usize> {
    // SAFETY: asks for a number, and touches no memory.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok().filter(|page| page.is_power_of_two())?;
    let start = pairs.as_ptr().addr();
    let before = start.next_multiple_of(page) - start;
    let bytes = size_of_val(pairs).checked_sub(before)? / page * page;
    if bytes == 0 {
        return None;
    }
    // SAFETY: the pages lie within `pairs`, which is borrowed, and hold nothing but atomic words, in private anonymous memory of this process.
    // For these MADV_DONTNEED (madvise(2)) is as if another thread stored a zero in each: every bit pattern is a valid word, so whoever reads or
    // writes them meanwhile sees what was there or zeros. (Were the memory of another kind, what was there would stay: as right, only no gain.)
    let result = unsafe { libc::madvise(pairs.as_ptr().cast_mut().wrapping_byte_add(before).cast(), bytes, libc::MADV_DONTNEED) };
    (result == 0).then_some(before)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn release(_pairs: &[Pair]) -> Option<usize> {
    None
}
