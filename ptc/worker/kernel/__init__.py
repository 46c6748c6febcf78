"""Interfaces of Linux used by the jail: libc system calls, seccomp, Landlock and namespaces.

This package knows numbers and structures of the kernel. It knows neither scripts nor frames nor
policies, which belong to `ptc.worker._jail` and `ptc.worker.command._jail`.
"""
