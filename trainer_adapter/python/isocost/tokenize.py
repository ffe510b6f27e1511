"""The command `python3 -m isocost.tokenize DATA --model DIR`, which isocost/tokens/token_pass.py holds."""

import sys

from isocost.tokens.token_pass import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
