"""`python -m whenmask` is the command line."""

from whenmask.cli import main

if __name__ == "__main__":
    main()
