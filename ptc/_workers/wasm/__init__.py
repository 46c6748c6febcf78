"""Workers inside WebAssembly: a guest for each run, in a thread of this process."""
