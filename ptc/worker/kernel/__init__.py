"""What the jail asks of Linux: system calls of libc, seccomp, Landlock and namespaces.

It knows numbers and structures of the kernel, and neither scripts nor frames nor what is allowed
to whom: that is `_jail` and `_command_jail`.
"""
