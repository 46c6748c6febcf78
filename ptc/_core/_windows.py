r"""Open folders on Windows, and files by position, through its C interface.

That interface opens nothing relative to a folder, so an entry is opened by its whole path. Then
the system is asked for the path of what was opened (GetFinalPathNameByHandleW), which must be the
same: no link was followed. A folder is held open without sharing its deletion (CreateFileW), so it
keeps its name as long as it is used.

Paths have the prefix ``\\?\``, which switches off what Windows does to names: dots and spaces at
the end are dropped, ``NUL`` and others are devices.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ._folder import Folder

if TYPE_CHECKING:
    pass

__all__ = [
    "WindowsFolder",
    "lock_file",
    "open_windows_folder",
    "pread",
    "pwrite",
    "without_prefix",
]

# winnt.h, fileapi.h and winbase.h
_GENERIC_READ, _GENERIC_WRITE, _DELETE = 0x8000_0000, 0x4000_0000, 0x1_0000
_LIST_FOLDER = 0x0010_0081
"""SYNCHRONIZE, FILE_READ_ATTRIBUTES and FILE_LIST_DIRECTORY."""
_SHARE_READ_WRITE, _SHARE_ALL = 3, 7
_CREATE_NEW, _OPEN_EXISTING = 1, 3
_BACKUP_SEMANTICS, _OPEN_REPARSE_POINT = 0x0200_0000, 0x0020_0000
_ATTRIBUTE_DIRECTORY, _ATTRIBUTE_REPARSE_POINT = 0x10, 0x400
_FILE_DISPOSITION_INFO, _FILE_ATTRIBUTE_TAG_INFO, _FILE_RENAME_INFO_EX = 4, 9, 22
_RENAME_REPLACE_POSIX = 3
"""FILE_RENAME_FLAG_REPLACE_IF_EXISTS and _POSIX_SEMANTICS: the replaced file may be open."""
_LOCK_EXCLUSIVE_NOW = 3
_INVALID_HANDLE = ctypes.c_void_p(-1).value
_MAX_PATH_CHARS: Final = 32_768
_END_OF_FILE, _INVALID_PARAMETER, _NOT_SUPPORTED, _LOCKED = 38, 87, 50, 33

_RESERVED: Final = re.compile(
    r"(?i)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])(?: *\..*)?"
)
_FORBIDDEN: Final = re.compile(r'[\x00-\x1f"*/:<>?\\|]|[. ]\Z')
"""Characters that no name has; a colon starts the name of a stream of the file."""


class _Overlapped(ctypes.Structure):
    """``OVERLAPPED`` of minwinbase.h: the position of a read or a write."""

    _fields_ = (
        ("internal", ctypes.c_size_t),
        ("internal_high", ctypes.c_size_t),
        ("offset", ctypes.c_uint32),
        ("offset_high", ctypes.c_uint32),
        ("event", ctypes.c_void_p),
    )


class _Rename(ctypes.Structure):
    """``FILE_RENAME_INFO`` of winbase.h, with room for any path."""

    _fields_ = (
        ("flags", ctypes.c_uint32),
        ("folder", ctypes.c_void_p),
        ("size", ctypes.c_uint32),
        ("name", ctypes.c_wchar * _MAX_PATH_CHARS),
    )


_kernel: Any = None


def _api() -> Any:
    global _kernel  # loaded once, and only where it exists
    if _kernel is None:
        _kernel = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined,unused-ignore]
        _kernel.CreateFileW.restype = ctypes.c_void_p
    return _kernel


def _error(path: str, code: int | None = None) -> OSError:
    """Return the error of the last call, of the class that `os` would raise."""
    number = ctypes.get_last_error() if code is None else code  # type: ignore[attr-defined,unused-ignore]
    text = ctypes.FormatError(number).strip()  # type: ignore[attr-defined,unused-ignore]
    return OSError(None, text, path, number)


def _reject_name(name: str) -> None:
    """Raise `OSError` (EINVAL) if a name means something else than an entry of a folder."""
    if not name or name in (".", "..") or _FORBIDDEN.search(name) or _RESERVED.fullmatch(name):
        raise OSError(errno.EINVAL, "Windows has no such name for a file", name)


def _create(path: str, access: int, share: int, disposition: int, flags: int) -> int:
    handle = _api().CreateFileW(path, access, share, None, disposition, flags, None)
    if handle in (None, _INVALID_HANDLE):
        raise _error(path)
    return int(handle)


def _close(handle: int) -> None:
    _api().CloseHandle(ctypes.c_void_p(handle))


def _attributes(handle: int, path: str) -> int:
    found = (ctypes.c_uint32 * 2)()
    if not _api().GetFileInformationByHandleEx(
        ctypes.c_void_p(handle), _FILE_ATTRIBUTE_TAG_INFO, found, ctypes.sizeof(found)
    ):
        raise _error(path)
    return found[0]


def _path_of(handle: int, path: str) -> str:
    buffer = ctypes.create_unicode_buffer(_MAX_PATH_CHARS)
    size = _api().GetFinalPathNameByHandleW(ctypes.c_void_p(handle), buffer, len(buffer), 0)
    if not 0 < size < len(buffer):
        raise _error(path)
    return buffer.value


def _check(handle: int, path: str, *, folder: bool) -> None:
    """Raise `OSError` unless the handle is that of the entry at `path` itself."""
    attributes = _attributes(handle, path)
    if attributes & _ATTRIBUTE_REPARSE_POINT:
        raise OSError(errno.ELOOP, "it is a link", path)
    if bool(attributes & _ATTRIBUTE_DIRECTORY) != folder:
        code = errno.ENOTDIR if folder else errno.EISDIR
        raise OSError(code, os.strerror(code), path)
    found = _path_of(handle, path)
    if found.casefold() != path.casefold():
        raise OSError(errno.ELOOP, f"its path is {found!r}; use that name", path)


class WindowsFolder(Folder):
    """A folder by its handle, which keeps others from renaming it, and its path."""

    __slots__ = ("_handle", "_path")

    def __init__(self, handle: int, path: str) -> None:
        """Take over a handle.

        Args:
            handle: Of the folder, opened without sharing its deletion.
            path: Its path, as the system tells it, with the prefix.
        """
        self._handle = handle
        self._path = path

    @property
    def place(self) -> str:
        """As `Folder`."""
        return without_prefix(self._path)

    def _at(self, name: str) -> str:
        _reject_name(name)
        return f"{self._path.rstrip(chr(92))}\\{name}"

    def copy(self) -> WindowsFolder:
        """As `Folder`."""
        return _open(self._path)

    def close(self) -> None:
        """As `Folder`."""
        _close(self._handle)

    def enter(self, name: str) -> WindowsFolder:
        """As `Folder`."""
        return _open(self._at(name))

    def status(self, name: str) -> os.stat_result:
        """As `Folder`."""
        return os.lstat(self._at(name))

    def target(self, name: str) -> str:
        """As `Folder`."""
        return without_prefix(os.readlink(self._at(name)))

    def names(self) -> Iterator[str]:
        """As `Folder`."""
        with os.scandir(self._path) as entries:
            for entry in entries:
                yield entry.name

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """As `Folder`; a new file gets the permissions of its folder, whatever `mode` says."""
        del mode
        path = self._at(name)
        kind = flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
        access = {os.O_RDONLY: _GENERIC_READ, os.O_WRONLY: _GENERIC_WRITE}.get(
            kind, _GENERIC_READ | _GENERIC_WRITE
        )
        created = bool(flags & os.O_CREAT)
        if created:
            access |= _DELETE
        try:
            handle = _create(
                path, access, _SHARE_ALL, _CREATE_NEW if created else _OPEN_EXISTING,
                _OPEN_REPARSE_POINT | _BACKUP_SEMANTICS,
            )  # fmt: skip
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
            created = False
            handle = _create(
                path, access, _SHARE_ALL, _OPEN_EXISTING, _OPEN_REPARSE_POINT | _BACKUP_SEMANTICS
            )
        try:
            _check(handle, path, folder=False)
            import msvcrt

            return int(
                msvcrt.open_osfhandle(  # type: ignore[attr-defined,unused-ignore]
                    handle,
                    kind | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0),
                )
            )
        except BaseException:
            if created:
                # Through the handle: the path leads elsewhere by now.
                _api().SetFileInformationByHandle(
                    ctypes.c_void_p(handle), _FILE_DISPOSITION_INFO, b"\1", 1
                )
            _close(handle)
            raise

    def make(self, name: str) -> None:
        """As `Folder`."""
        os.mkdir(self._at(name))

    def remove(self, name: str) -> None:
        """As `Folder`."""
        path = self._at(name)
        try:
            os.unlink(path)
        except PermissionError:
            # Unlike POSIX, Windows deletes no file that may not be written.
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise
            os.chmod(path, stat.S_IREAD | stat.S_IWRITE)
            os.unlink(path)

    def remove_folder(self, name: str) -> None:
        """As `Folder`."""
        os.rmdir(self._at(name))

    def replace(self, name: str, new: str) -> None:
        """As `Folder`."""
        old, path = self._at(name), self._at(new)
        handle = _create(old, _DELETE, _SHARE_ALL, _OPEN_EXISTING, _OPEN_REPARSE_POINT)
        try:
            rename = _Rename(_RENAME_REPLACE_POSIX, None, len(path.encode("utf-16-le")), path)
            if _api().SetFileInformationByHandle(
                ctypes.c_void_p(handle),
                _FILE_RENAME_INFO_EX,
                ctypes.byref(rename),
                ctypes.sizeof(rename),
            ):
                return
            code = ctypes.get_last_error()  # type: ignore[attr-defined,unused-ignore]
        finally:
            _close(handle)
        if code not in (_INVALID_PARAMETER, _NOT_SUPPORTED, 1):
            raise _error(path, code)
        os.replace(old, path)  # FAT, and Windows before version 1709

    def link(self, name: str, new: str) -> None:
        """As `Folder`."""
        os.link(self._at(name), self._at(new))

    def touch(self, name: str) -> None:
        """As `Folder`."""
        os.utime(self._at(name))

    def may_write(self, name: str) -> bool:
        """As `Folder`."""
        return os.access(self._at(name), os.W_OK)

    def flush(self) -> None:
        """Do nothing: Windows flushes no folder; NTFS keeps a journal of names."""


def without_prefix(path: str) -> str:
    r"""Return a path without ``\\?\``."""
    if path.startswith("\\\\?\\UNC\\"):
        return "\\\\" + path[8:]
    return path.removeprefix("\\\\?\\")


def _open(path: str) -> WindowsFolder:
    handle = _create(
        path,
        _LIST_FOLDER,
        _SHARE_READ_WRITE,
        _OPEN_EXISTING,
        _BACKUP_SEMANTICS | _OPEN_REPARSE_POINT,
    )
    try:
        _check(handle, path, folder=True)
    except BaseException:
        _close(handle)
        raise
    return WindowsFolder(handle, path)


def open_windows_folder(path: str) -> WindowsFolder:
    """Open a folder by its path, links in it followed; `OSError` if that fails."""
    path = os.path.abspath(path)
    handle = _create(path, _LIST_FOLDER, _SHARE_READ_WRITE, _OPEN_EXISTING, _BACKUP_SEMANTICS)
    try:
        found = _path_of(handle, path)
    finally:
        _close(handle)
    return _open(found)


def _transfer(call: Any, fd: int, buffer: Any, count: int, offset: int) -> int:
    import msvcrt

    handle = msvcrt.get_osfhandle(fd)  # type: ignore[attr-defined,unused-ignore]
    position = _Overlapped(0, 0, offset & 0xFFFF_FFFF, offset >> 32, None)
    done = ctypes.c_uint32()
    if call(
        ctypes.c_void_p(handle),
        buffer,
        ctypes.c_uint32(count),
        ctypes.byref(done),
        ctypes.byref(position),
    ):
        return done.value
    code = ctypes.get_last_error()  # type: ignore[attr-defined,unused-ignore]
    if code == _END_OF_FILE:
        return 0
    raise _error("", code)


def pread(fd: int, count: int, offset: int) -> bytes:
    """Read up to `count` bytes from a position, as `os.pread`."""
    buffer = ctypes.create_string_buffer(max(1, count))
    size = _transfer(_api().ReadFile, fd, buffer, count, offset)
    return buffer.raw[:size]


def pwrite(fd: int, data: bytes | memoryview, offset: int) -> int:
    """Write at a position, as `os.pwrite`."""
    return _transfer(_api().WriteFile, fd, bytes(data), len(data), offset)


def lock_file(fd: int) -> None:
    """Lock a file until it is closed; `BlockingIOError` if another process has."""
    import msvcrt

    handle = msvcrt.get_osfhandle(fd)  # type: ignore[attr-defined,unused-ignore]
    # Beyond the end of any file: a lock on Windows keeps others from reading the bytes.
    place = _Overlapped(0, 0, 0, 0x7FFF_FFFF, None)
    if not _api().LockFileEx(
        ctypes.c_void_p(handle), _LOCK_EXCLUSIVE_NOW, 0, 1, 0, ctypes.byref(place)
    ):
        code = ctypes.get_last_error()  # type: ignore[attr-defined,unused-ignore]
        if code == _LOCKED:
            raise BlockingIOError(errno.EAGAIN, "another process has locked the file")
        raise _error("", code)
