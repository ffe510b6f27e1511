"""Shows that a self-contained wheel says truly what it consists of.

    python3 setup/portable/check_wheel.py WHEEL PROGRAM

Its list of components (CycloneDX) has to name every shared library within it, and each version that PROGRAM, the
installed `isocost`, reports with --version --components. None may be under the GPL, and the text of each licence has to
be there; its metadata has to state them. Of the system it may need those libraries alone that every container with a
Python has. Needs the Debian packages whose libraries the wheel holds, and readelf.
"""

import json
import re
import subprocess
import sys
import tempfile
import zipfile

from add_components import LICENCES, of_package, owner

# Debian's source packages of components that call themselves otherwise.
SOURCES = {"libtiff": "tiff", "oneTBB": "onetbb", "ZeroMQ": "zeromq3", "zstd": "libzstd"}
# auditwheel leaves others to the system, too, such as libexpat.so.1 and libglib-2.0.so.0.
SYSTEM = {"ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1", "libm.so.6", "libstdc++.so.6", "libz.so.1"}


def needed(wheel):
    """The shared libraries that files of the wheel name."""
    names = set()
    with tempfile.TemporaryDirectory() as folder:
        for name in wheel.namelist():
            with wheel.open(name) as file:
                if file.read(4) != b"\x7fELF":
                    continue
            dynamic = subprocess.run(["readelf", "--dynamic", "--wide", wheel.extract(name, folder)],
                                     capture_output=True, text=True, check=True, env={"LC_ALL": "C"}).stdout
            names.update(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", dynamic))
    return names


def upstream(version):
    """The version that a library reports, of a Debian version: 1:1.2.13.dfsg-1 is 1.2.13."""
    return re.match(r"(?:\d+:)?([\d.]*\d)", version)[1]


def faults(wheel, program):
    (info,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    listed = json.loads(wheel.read(f"{info}/sboms/isocost.cdx.json"))
    if (listed["bomFormat"], listed["specVersion"]) != ("CycloneDX", "1.6"):
        yield "its list of components is no CycloneDX 1.6"
    versions = {component["name"]: component["version"] for component in listed["components"]}
    if len(versions) != len(listed["components"]):
        yield "a component is listed twice"
    for component in listed["components"]:
        name, licences = component["name"], [each["expression"] for each in component.get("licenses", [])]
        if not component["purl"].startswith("pkg:"):
            yield f"{name} has no package URL"
        if not licences or re.search(r"(?<!L)GPL", " ".join(licences)):
            yield f"{name} is under {licences or 'no licence'}"
        if f"{info}/licenses/{name}.txt" not in wheel.namelist():
            yield f"it holds {name}, and no text of its licence"
    (avutil,) = (name for name in wheel.namelist() if "/libavutil" in name)
    if b"LGPL version 2.1 or later" not in wheel.read(avutil):
        yield "its FFmpeg is not under the LGPL"
    libraries = [name.split("/")[1] for name in wheel.namelist() if re.match(r"isocost\.libs/.*\.so", name)]
    if not libraries:
        yield "it holds no library"
    for library in sorted(needed(wheel) - SYSTEM - set(libraries)):
        yield f"it needs {library}, which it does not hold and a container may not have"
    for library in libraries:
        package = owner(library)
        # A library of another version than Debian's was built, from a source package of its name.
        source = of_package(package)["name"] if package else library.split("-")[0]
        if source not in versions:
            yield f"{library} (source package {source}) is no component"
    output = subprocess.run([program, "--version", "--components"], capture_output=True, text=True, check=True).stdout
    for name, version in (line.split() for line in output.splitlines()[1:]):
        if name == "zlib":
            continue  # Every manylinux system has it.
        stated = versions.get(SOURCES.get(name, name.lower()))
        if stated is None or not f"{upstream(stated)}.".startswith(f"{upstream(version)}."):
            yield f"its program has {name} {version}, its list of components {stated}"
    metadata = wheel.read(f"{info}/METADATA").decode()
    if f"\nLicense: {LICENCES}\n" not in metadata:
        yield "its metadata does not state the licences of what it holds"
    for name in ("LICENSE", "NOTICE"):
        if not any(file.startswith(f"{info}/") and file.endswith(f"/{name}") for file in wheel.namelist()):
            yield f"it holds no {name}"


def main():
    file, program = sys.argv[1:]
    with zipfile.ZipFile(file) as wheel:
        found = list(faults(wheel, program))
    for fault in found:
        print(f"{file}: {fault}", file=sys.stderr)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
