"""Says in a self-contained wheel what it consists of: a CycloneDX list of the libraries within it, where PEP 770 wants
it, and their licences in its metadata.

    python3 setup/portable/add_components.py WHEEL SOURCES PYBIND11 FOLDER

SOURCES has a line `package version SHA-256` for each source package that was built for the wheel; the other libraries
are those of Debian packages of this system, but for pybind11, whose version is PYBIND11. The wheel that says so is
written to FOLDER. Needs the package `wheel`.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

LICENCES = "Apache-2.0; it contains libraries under the LGPL, version 2.1 or later, and others (see NOTICE)"
HEADERS = ("libcli11-dev", "libexpected-dev", "libkissfft-dev", "libtomlplusplus-dev", "nlohmann-json3-dev")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def built(sources):
    """The components that were built from source packages."""
    for line in pathlib.Path(sources).read_text().splitlines():
        name, version, digest = line.split()
        yield {"type": "library", "name": name, "version": version,
               "purl": f"pkg:deb/debian/{name}@{version.replace(':', '%3A')}?arch=source&distro=bookworm",
               "hashes": [{"alg": "SHA-256", "content": digest}]}


def of_package(package):
    name, version, source = run("dpkg-query", "-W", "-f", "${Package} ${Version} ${source:Package}\n",
                                package).splitlines()[0].split()
    return {"type": "library", "name": source, "version": version,
            "purl": f"pkg:deb/debian/{name}@{version.replace(':', '%3A')}?distro=bookworm"}


def owner(library):
    """The Debian package of a library that auditwheel copied, adding a hash to its name; None if it was built."""
    original = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", library)
    for path in (f"{LIBRARIES}/{original}", f"{LIBRARIES.removeprefix('/usr')}/{original}"):
        found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    return None


def components(unpacked, sources, pybind11):
    from_sources = {component["name"]: component for component in built(sources)}
    from_sources["pybind11"] = {"type": "library", "name": "pybind11", "version": pybind11,
                                "purl": f"pkg:pypi/pybind11@{pybind11}"}
    copied = {owner(file.name) for file in unpacked.glob("isocost.libs/*.so*")} - {None}
    found = [of_package(package) for package in (*HEADERS, *copied)]
    others = {component["name"]: component for component in found if component["name"] not in from_sources}
    return [component for _, component in sorted({**others, **from_sources}.items())]


def main():
    wheel, sources, pybind11, folder = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        run(sys.executable, "-m", "wheel", "unpack", "-d", temporary, wheel)
        (unpacked,) = pathlib.Path(temporary).iterdir()
        (info,) = unpacked.glob("*.dist-info")
        metadata = info / "METADATA"
        text, replaced = re.subn(r"(?m)^License: .*$", f"License: {LICENCES}", metadata.read_text(), count=1)
        if not replaced:
            sys.exit(f"{wheel}: its metadata names no licence")
        metadata.write_text(text)
        version = re.search(r"(?m)^Version: (.*)$", text)[1]
        listed = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
                  "metadata": {"component": {"type": "library", "name": "isocost", "version": version}},
                  "components": components(unpacked, sources, pybind11)}
        (info / "sboms").mkdir(exist_ok=True)
        (info / "sboms/isocost.cdx.json").write_text(json.dumps(listed, indent=1) + "\n")
        run(sys.executable, "-m", "wheel", "pack", "-d", folder, str(unpacked))


if __name__ == "__main__":
    main()
