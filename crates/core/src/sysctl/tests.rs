//! The call is one of a kernel that is not there, with the manners of the real one.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::*;

fn value(name: &[u8]) -> Option<Vec<u8>> {
    Some(match name {
        b"four" => 7_u32.to_ne_bytes().to_vec(),
        b"eight" => (1_u64 << 40).to_ne_bytes().to_vec(),
        b"two" => vec![1, 2],
        b"text" => b"Example M9 \0".to_vec(),
        b"unterminated" => b"abc".to_vec(),
        b"empty" => Vec::new(),
        b"long" => vec![b'x'; 300],
        _ => return None,
    })
}

/// # Safety
/// As [`SysctlByName`].
unsafe extern "C" fn kernel(
    name: *const c_char,
    old: *mut c_void,
    len: *mut usize,
    new: *mut c_void,
    new_len: usize,
) -> c_int {
    assert!(new.is_null() && new_len == 0, "nothing is to be changed");
    // SAFETY: the caller vouches for the name.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(value) = value(name.to_bytes()) else { return -1 };
    // SAFETY: the caller vouches for both, and only as many bytes are written as there are.
    unsafe {
        if value.len() > *len {
            return -1;
        }
        std::ptr::copy_nonoverlapping(value.as_ptr(), old.cast(), value.len());
        *len = value.len();
    }
    0
}

#[test]
fn numbers_have_four_or_eight_bytes() {
    assert_eq!(number(kernel, "four"), Some(7));
    assert_eq!(number(kernel, "eight"), Some(1 << 40));
    for name in ["two", "empty", "long", "nothing", "fo\0ur"] {
        assert_eq!(number(kernel, name), None, "{name:?}");
    }
}

#[test]
fn texts_end_at_the_first_zero() {
    assert_eq!(text(kernel, "text").as_deref(), Some("Example M9"));
    assert_eq!(text(kernel, "unterminated").as_deref(), Some("abc"));
    assert_eq!(text(kernel, "empty").as_deref(), Some(""));
    assert_eq!((text(kernel, "long"), text(kernel, "nothing"), text(kernel, "te\0xt")), (None, None, None));
}
