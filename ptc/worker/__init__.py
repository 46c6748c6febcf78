"""The worker side of the wire, which runs scripts: zygote, jail, runtime. Imports no host code."""
