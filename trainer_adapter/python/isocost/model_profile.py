"""Measures a model profile of the model in a directory: python3 -m isocost.model_profile DIR. Its implementation is
isocost/profiling/profile_directory.py."""

import sys

from isocost.profiling.profile_directory import Outcome, Settings, main, profile_directory

__all__ = ["Outcome", "Settings", "main", "profile_directory"]

if __name__ == "__main__":
    sys.exit(main())
