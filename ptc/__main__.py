"""``python -m ptc``: the command line."""

from ptc._cli import main

if __name__ == "__main__":
    main()
