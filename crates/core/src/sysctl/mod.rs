//! The named values of the kernel of macOS, iOS and their like: the one system call of this crate outside of the standard
//! library and of other crates.

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(test)]
mod tests;

use std::ffi::{CString, c_char, c_int, c_void};

#[cfg(target_vendor = "apple")]
pub(crate) use self::apple::System;

/// `sysctlbyname` of sysctl(3): copies the value of a name into `old`, whose size `old_len` holds, and writes the size of
/// the value there; returns 0 if all went well. With a null `old` it writes the size only.
///
/// # Safety
/// - the name ends with a zero byte;
/// - `old` is null or has `*old_len` bytes that can be written;
/// - `new` is null.
type SysctlByName = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

/// The value of a name that holds an integer of 4 or 8 bytes.
fn number(call: SysctlByName, name: &str) -> Option<u64> {
    let name = CString::new(name).ok()?;
    let mut value = [0_u8; 8];
    let mut len = value.len();
    // SAFETY: the name is a C string, the value has `len` bytes, nothing is set.
    let failed =
        unsafe { call(name.as_ptr(), value.as_mut_ptr().cast(), &raw mut len, std::ptr::null_mut(), 0) };
    match (failed, len) {
        (0, 4) => value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes).into()),
        (0, 8) => Some(u64::from_ne_bytes(value)),
        _ => None,
    }
}

/// The value of a name that holds a text of less than 256 bytes.
fn text(call: SysctlByName, name: &str) -> Option<String> {
    let name = CString::new(name).ok()?;
    let mut value = [0_u8; 256];
    let mut len = value.len();
    // SAFETY: the name is a C string, the value has `len` bytes, nothing is set.
    let failed =
        unsafe { call(name.as_ptr(), value.as_mut_ptr().cast(), &raw mut len, std::ptr::null_mut(), 0) };
    let bytes = value.get(..len).filter(|_| failed == 0)?;
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]).trim().to_owned())
}
