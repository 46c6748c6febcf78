"""Names and errors of paths in messages."""

from __future__ import annotations

import errno

from ptc import ToolError

__all__ = ["conflict_error", "outside_error", "quote", "readable", "refusal"]


def readable(name: str) -> str:
    """Return a file name as valid text: bytes that are not UTF-8 become U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def quote(path: str) -> str:
    """Quote a path for a message, shortened to keep the rest readable."""
    return repr(path if len(path) <= 200 else f"{path[:100]}...{path[-80:]}")


def outside_error(path: str) -> ToolError:
    msg = (
        f"{quote(path)} leads outside the session's root; pass a path beneath it, "
        'like "src/main.py"; the root itself is "."'
    )
    return ToolError(msg, code="outside_root")


def conflict_error(path: str) -> ToolError:
    """Create the error for a file that another program changed meanwhile."""
    msg = f"{quote(path)} changed meanwhile; read it again and retry"
    return ToolError(msg, code="failed", retryable=True)


def refusal(error: OSError, path: str, verb: str = "read") -> ToolError:
    """Convert an error of the operating system."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        msg = f"{quote(path)}: permission denied; the host's user may not {verb} it"
        return ToolError(msg, code="permission_denied")
    if error.errno == errno.ENAMETOOLONG:
        msg = f"{quote(path)}: a name in it is too long; most systems stop at 255 bytes"
        return ToolError(msg, code="invalid_path")
    busy = error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR)
    msg = f"{quote(path)} cannot be {'written' if verb == 'write' else 'opened'}: {error.strerror}"
    return ToolError(msg, code="failed", retryable=busy)
