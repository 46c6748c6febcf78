"""The process that runs scripts: zygote, jail, runtime. It imports nothing of the host."""
