"""Escapes that a command may try: to a server, files or processes of the host.

Each is one technique. The test substitutes ``@NAME@``.
"""

from __future__ import annotations

import sys

__all__ = ["NETWORK", "PROCESSES", "WRITES"]

_PY = [sys.executable, "-c"]

_RAW = """
import ctypes, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    r = libc.syscall(*map(ctypes.c_long, a))
    return r if r >= 0 else -ctypes.get_errno()
"""

# int 0x80: the 32-bit table, where socket is 359 and connect 362.
_INT80 = (
    _RAW
    + """
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ|mmap.PROT_WRITE|mmap.PROT_EXEC)
# push rbx; mov eax,359; mov ebx,2; mov ecx,1; xor edx,edx; int 0x80; pop rbx; ret
page.write(bytes.fromhex("53b867010000bb02000000b90100000031d2cd805bc3"))
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
fd = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=fd)
s.connect(("127.0.0.1", @PORT@)); s.send(b"x")
"""
)

NETWORK: dict[str, list[str]] = {
    "python-tcp": [
        *_PY,
        "import socket; socket.create_connection(('127.0.0.1', @PORT@)).send(b'x')",
    ],
    "python-tcp-any": [
        *_PY,
        "import socket; socket.create_connection(('0.0.0.0', @PORT@)).send(b'x')",
    ],
    "python-tcp6": [
        *_PY,
        "import socket; s = socket.socket(socket.AF_INET6); "
        "s.connect(('::1', @PORT6@)); s.send(b'x')",
    ],
    "python-udp": [
        *_PY,
        "import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', @UDP@))",
    ],
    "python-fastopen": [
        *_PY,
        "import socket; socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', @PORT@))",
    ],
    "python-mptcp": [
        *_PY,
        "import socket; s = socket.socket(2, 1, 262); "
        "s.connect(('127.0.0.1', @PORT@)); s.send(b'x')",
    ],
    "unix-path": [*_PY, "import socket; s = socket.socket(1); s.connect('@UNIX@'); s.send(b'x')"],
    "unix-datagram": [*_PY, "import socket; socket.socket(1, 2).sendto(b'x', '@UNIXDGRAM@')"],
    "unix-abstract": [
        *_PY,
        "import socket; s = socket.socket(1); s.connect('\\0@ABSTRACT@'); s.send(b'x')",
    ],
    "unix-through-proc": [
        *_PY,
        "import os, socket\nfor p in os.listdir('/proc'):\n try:\n"
        "  s = socket.socket(1); s.connect(f'/proc/{p}/root@UNIX@'); s.send(b'x')\n"
        " except OSError: pass",
    ],
    "unix-datagram-pair": [
        *_PY,
        "import socket; a, b = socket.socketpair(1, 2); a.sendto(b'x', '@UNIXDGRAM@')",
    ],
    "perl": [
        "perl",
        "-MIO::Socket::INET",
        "-e",
        "print {IO::Socket::INET->new('127.0.0.1:@PORT@')} 'x'",
    ],
    "dev-tcp": ["bash", "-c", "echo x > /dev/tcp/127.0.0.1/@PORT@"],
    "dev-udp": ["bash", "-c", "echo x > /dev/udp/127.0.0.1/@UDP@"],
    "busybox-nc": ["busybox", "nc", "127.0.0.1", "@PORT@"],
    "nc": ["nc", "-N", "127.0.0.1", "@PORT@"],
    "curl-by-env": ["env", "curl", "-s", "-m", "2", "http://127.0.0.1:@PORT@/"],
    "curl-quoted": ["sh", "-c", '"cu"rl -s -m 2 127.0.0.1:@PORT@'],
    "curl-glob": ["sh", "-c", "/usr/bin/cur? -s -m 2 127.0.0.1:@PORT@"],
    "curl-unix": ["sh", "-c", "c=curl; $c -s -m 2 --unix-socket @UNIX@ http://x/"],
    "wget": ["sh", "-c", "w=wget; $w -q -T 2 -t 1 -O- http://127.0.0.1:@PORT@/"],
    "proxy-variable": [
        *(
            "env",
            "http_proxy=http://127.0.0.1:@PORT@",
            "curl",
            "-s",
            "-m",
            "2",
            "http://example.org/",
        ),
    ],
    "python-m-pip": [
        *(sys.executable, "-m", "pip", "download", "-i", "http://127.0.0.1:@PORT@/", "--retries=0"),
        "x",
    ],
    "git-hook": [
        "sh",
        "-c",
        "mkdir hooked && cd hooked && git init -q && printf '#!/bin/bash\\n"
        "echo x > /dev/tcp/127.0.0.1/@PORT@\\n' > .git/hooks/pre-commit && "
        "chmod +x .git/hooks/pre-commit; git -c user.name=a -c user.email=b commit "
        "--allow-empty -qm x",
    ],
    "git-remote": ["git", "ls-remote", "http://127.0.0.1:@PORT@/x.git"],
    "git-ext": [
        *("git", "-c", "protocol.ext.allow=always", "ls-remote"),
        "ext::sh -c 'exec 3<>/dev/tcp/127.0.0.1/@PORT@'",
    ],
    "preload": [
        "env",
        "LD_PRELOAD=@ROOT@/evil.so",
        "bash",
        "-c",
        "echo x > /dev/tcp/127.0.0.1/@PORT@",
    ],
    "background": ["sh", "-c", "(sleep 0.2; echo x > /dev/tcp/127.0.0.1/@PORT@) &"],
    "double-fork": [
        *_PY,
        "import os, time, socket\nif os.fork(): "
        "os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
        "time.sleep(0.2)\nsocket.create_connection(('127.0.0.1', @PORT@)).send(b'x')",
    ],
    "inherited-descriptors": [
        *_PY,
        "import os\nfor fd in range(3, 1024):\n try: os.write(fd, b'x')\n except OSError: pass",
    ],
    "descriptors-of-others": [
        *_PY,
        "import os, glob\nfor p in glob.glob('/proc/[0-9]*/fd/*'):\n"
        " if p.split('/')[2] == str(os.getpid()): continue\n"
        " try: os.write(os.open(p, os.O_WRONLY | os.O_NONBLOCK), b'x')\n except OSError: pass",
    ],
    "pidfd-getfd": [
        *_PY,
        _RAW + "\nfd = call(434, @PID@, 0)\nfor n in range(64):\n"
        " got = call(438, fd, n, 0)\n"
        " if got >= 0: os.write(got, b'x')",
    ],
    "enter-the-network-namespace": [
        *_PY,
        _RAW + "\nfd = os.open('/proc/@PID@/ns/net', 0)\nlibc.setns(fd, 0)\n"
        "socket.create_connection(('127.0.0.1', @PORT@)).send(b'x')",
    ],
    "enter-by-pidfd": [
        *_PY,
        _RAW + "\nlibc.setns(call(434, @PID@, 0), 0x40000000)\n"
        "socket.create_connection(('127.0.0.1', @PORT@)).send(b'x')",
    ],
    "new-user-namespace": [
        "unshare",
        *("-Ur", "bash", "-c", "echo x > /dev/tcp/127.0.0.1/@PORT@"),
    ],
    "io-uring": [
        *_PY,
        _RAW + "\np = ctypes.create_string_buffer(120)\n"
        "fd = call(425, 4, ctypes.addressof(p))\n"
        "assert fd < 0, 'io_uring is there'",
    ],
    "int-0x80": [*_PY, _INT80],
    "x32": [
        *_PY,
        _RAW + "\nfd = call(0x40000000 | 41, 2, 1, 0)\ns = socket.socket(2, 1, 0, fileno=fd)\n"
        "s.connect(('127.0.0.1', @PORT@)); s.send(b'x')",
    ],
    "ptrace": [
        *_PY,
        _RAW + "\nassert call(101, 16, @PID@, 0, 0) < 0\nassert libc.ptrace(16, @PID@, 0, 0) < 0",
    ],
    "vsock": [*_PY, "import socket; socket.socket(40, 1).connect((2, @PORT@))"],
    "packet": [*_PY, "import socket; socket.socket(17, 3).send(b'x')"],
}

WRITES: dict[str, list[str]] = {
    "new-file": ["sh", "-c", "echo x > @OUTSIDE@/new"],
    "append": ["sh", "-c", "echo x >> @OUTSIDE@/file"],
    "by-dots": ["sh", "-c", "echo x > ../outside/new"],
    "through-a-link": ["sh", "-c", "ln -s @OUTSIDE@ link; echo x > link/new"],
    "hard-link": ["sh", "-c", "ln @OUTSIDE@/file hard && echo x >> hard"],
    "python-link-at": [
        *_PY,
        "import os; os.link('@OUTSIDE@/file', 'hard2'); open('hard2', 'a').write('x')",
    ],
    "rename-in": ["mv", "@OUTSIDE@/file", "mine"],
    "rename-out": ["sh", "-c", "echo x > mine2; mv mine2 @OUTSIDE@/mine2"],
    "exchange": [
        *_PY,
        _RAW + "\nopen('mine3', 'w').close()\ncall(316, -100, ctypes.addressof(a := "
        "ctypes.create_string_buffer(b'mine3')), -100, ctypes.addressof(b := "
        "ctypes.create_string_buffer(b'@OUTSIDE@/file')), 2)",
    ],
    "unlink": ["rm", "-f", "@OUTSIDE@/file"],
    "mkdir": ["mkdir", "@OUTSIDE@/folder"],
    "rmdir": ["rmdir", "@OUTSIDE@/empty"],
    "symlink": ["ln", "-s", "x", "@OUTSIDE@/link"],
    "fifo": ["mkfifo", "@OUTSIDE@/fifo"],
    "truncate": [*_PY, "import os; os.truncate('@OUTSIDE@/file', 0)"],
    "open-truncate": [*_PY, "import os; os.open('@OUTSIDE@/file', os.O_TRUNC)"],
    "chmod": ["chmod", "777", "@OUTSIDE@/file"],
    "chmod-folder": ["chmod", "700", "@OUTSIDE@"],
    "fchmod": [*_PY, "import os; os.fchmod(os.open('@OUTSIDE@/file', 0), 0o777)"],
    "chmod-by-descriptor": [
        *_PY,
        "import os; fd = os.open('@OUTSIDE@/file', os.O_PATH); "
        "os.chmod(f'/proc/self/fd/{fd}', 0o777)",
    ],
    "fchmodat2": [
        *_PY,
        _RAW + "\ncall(452, -100, ctypes.addressof(a := "
        "ctypes.create_string_buffer(b'@OUTSIDE@/file')), 0o777, 0)",
    ],
    "chown": [*_PY, "import os; os.chown('@OUTSIDE@/file', os.getuid(), 12345)"],
    "touch": ["touch", "-d", "2001-01-01", "@OUTSIDE@/file"],
    "futimens": [*_PY, "import os; os.utime(os.open('@OUTSIDE@/file', 0), (1, 1))"],
    "xattr": [*_PY, "import os; os.setxattr('@OUTSIDE@/file', 'user.x', b'1')"],
    "fxattr": [*_PY, "import os; os.setxattr(os.open('@OUTSIDE@/file', 0), 'user.x', b'1')"],
    "root-of-another": [
        *_PY,
        "import os, glob\nfor p in glob.glob('/proc/[0-9]*/root'):\n"
        " try: open(p + '@OUTSIDE@/new', 'w').write('x')\n except OSError: pass",
    ],
    "proc-1-root": ["sh", "-c", "echo x > /proc/1/root@OUTSIDE@/new"],
    "proc-1-cwd": ["sh", "-c", "echo x > /proc/1/cwd@OUTSIDE@/new"],
    "proc-host-root": ["sh", "-c", "echo x > /proc/@PID@/root@OUTSIDE@/new"],
    "dot-dot-after-chroot": ["chroot", "@OUTSIDE@", "/bin/sh", "-c", "echo x > /new"],
    "remount": ["mount", "-o", "remount,rw", "/"],
    "bind-mount": ["mount", "--bind", "@OUTSIDE@", "."],
    "umount": ["sh", "-c", "umount -l . ; umount -l / ; echo x > @OUTSIDE@/new"],
    "open-tree": [
        *_PY,
        _RAW + "\nfd = call(428, -100, ctypes.addressof(a := "
        "ctypes.create_string_buffer(b'@OUTSIDE@')), 0x8001)\n"
        "os.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=fd)",
    ],
    "file-handle": [
        *_PY,
        _RAW + "\nh = ctypes.create_string_buffer(struct.pack('=Ii', 128, 0), 136)\n"
        "m = ctypes.create_string_buffer(4)\n"
        "call(303, -100, ctypes.addressof(a := ctypes.create_string_buffer(b'@OUTSIDE@/file')), "
        "ctypes.addressof(h), ctypes.addressof(m), 0)\n"
        "fd = call(304, os.open('.', 0), ctypes.addressof(h), os.O_WRONLY)\n"
        "os.write(fd, b'x')",
    ],
    "new-user-namespace": ["unshare", "-Urm", "sh", "-c", "echo x > @OUTSIDE@/new"],
    "copy-file-range": ["cp", "/etc/passwd", "@OUTSIDE@/new"],
    "write-to-the-program": ["sh", "-c", "echo >> @PYTHON@"],
    "mmap": [
        *_PY,
        "import mmap\nf = open('@OUTSIDE@/file', 'r+b')\nmmap.mmap(f.fileno(), 1)[0] = 120",
    ],
    "background": ["sh", "-c", "(setsid sh -c 'sleep 0.2; echo x > @OUTSIDE@/new') &"],
}

PROCESSES: dict[str, list[str]] = {
    "kill": ["sh", "-c", "kill -9 @PID@"],
    "kill-by-pidfd": [*_PY, _RAW + "\ncall(424, call(434, @PID@, 0), 9, 0, 0)"],
    "kill-all": [*_PY, "import os; os.kill(-1, 9)"],
    "kill-parents": [*_PY, "import os\nfor p in (os.getppid(), -os.getppid()):\n os.kill(p, 9)"],
    "tgkill": [*_PY, _RAW + "\ncall(234, @PID@, @PID@, 9)"],
    "ptrace": [*_PY, _RAW + "\ncall(101, 16, @PID@, 0, 0); os.kill(@PID@, 9)"],
    "memory": [*_PY, "print(open('/proc/@PID@/mem', 'rb'))"],
    "environment": ["cat", "/proc/@PID@/environ"],
    "limits": ["prlimit", "--pid", "@PID@", "--cpu=1:1"],
}
