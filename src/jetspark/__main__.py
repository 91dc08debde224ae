"""`python -m jetspark`: the command line."""

import sys

from jetspark.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
