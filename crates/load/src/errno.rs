//! Error numbers by name, as the kernel's documentation calls them.

/// A request moved fewer bytes than requested; not an error number of the kernel.
pub const SHORT_TRANSFER: i32 = 0;

/// The name of an error number.
pub fn name(errno: i32) -> String {
    let known = match errno {
        SHORT_TRANSFER => "short transfer",
        libc::EIO => "EIO",
        libc::ENOSPC => "ENOSPC",
        libc::ENODEV => "ENODEV",
        libc::ENXIO => "ENXIO",
        libc::ELOOP => "ELOOP",
        libc::EMFILE => "EMFILE",
        libc::ENFILE => "ENFILE",
        libc::EINVAL => "EINVAL",
        libc::EAGAIN => "EAGAIN",
        libc::EBADF => "EBADF",
        libc::EBUSY => "EBUSY",
        libc::EDQUOT => "EDQUOT",
        libc::EEXIST => "EEXIST",
        libc::EFAULT => "EFAULT",
        libc::EFBIG => "EFBIG",
        libc::EILSEQ => "EILSEQ",
        libc::EINTR => "EINTR",
        libc::ENODATA => "ENODATA",
        libc::ENOLINK => "ENOLINK",
        libc::ENOENT => "ENOENT",
        libc::ENOMEM => "ENOMEM",
        libc::ENOTEMPTY => "ENOTEMPTY",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EPERM => "EPERM",
        libc::EREMOTEIO => "EREMOTEIO",
        libc::EROFS => "EROFS",
        libc::ESTALE => "ESTALE",
        libc::ETIMEDOUT => "ETIMEDOUT",
        _ => return format!("errno {errno}"),
    };
    known.to_owned()
}
