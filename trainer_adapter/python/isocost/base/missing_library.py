"""Messages for missing shared libraries of the extension module."""

import pathlib
import re


def debian_packages() -> "list[str]":
    """Returns the Debian packages that hold the shared libraries which this package and the program `isocost` load."""
    lines = (pathlib.Path(__file__).parents[1] / "debian_packages.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def explained(error: ImportError) -> ImportError:
    """Returns `error`, or, if it says that a shared library is missing, an error that says what to install."""
    missing = re.search(r"(lib\S+\.so\S*): cannot open shared object file", str(error))
    if not missing:
        return error
    return ImportError(
        f"isocost needs the shared library {missing[1]}, which is not installed. On Debian 12, as root: "
        f"apt-get install --no-install-recommends -y {' '.join(debian_packages())}. The self-contained wheel "
        "(`./run package --portable`) needs none of them.", name=error.name, path=error.path)
