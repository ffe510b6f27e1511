"""Says in a self-contained wheel what it consists of: a CycloneDX list of the libraries within it, where PEP 770 wants
it, and their licences in its metadata.

    python3 setup/portable/add_components.py WHEEL PREFIX PYBIND11 FOLDER

PREFIX is what build_libraries.sh prints: its file `sources` has a line `package version SHA-256` for each source
package that was built for the wheel, and its folder `copyright` their licences. The other libraries are those of Debian
packages of this system, except for pybind11, whose version is PYBIND11. The wheel that says so is written to FOLDER,
with the licences of all of them. Needs the package `wheel`.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LICENCES = "Apache-2.0; it contains libraries under the LGPL, version 2.1 or later, and others (see NOTICE)"
# The licence of each component, as SPDX writes it and its own files say. A component that is not here ends the build:
# under the GPL it would put the whole wheel under it.
LICENCE_OF = {
    **dict.fromkeys("dlpack highway onetbb openssl".split(), "Apache-2.0"),
    **dict.fromkeys("dav1d libarchive libavif libspng xxhash".split(), "BSD-2-Clause"),
    **dict.fromkeys("cli11 flac kissfft libogg libvorbis libwebp libyuv libzstd opus pybind11".split(), "BSD-3-Clause"),
    "tl-expected": "CC0-1.0",
    "libjpeg-turbo": "IJG AND BSD-3-Clause AND Zlib",
    "libsodium": "ISC",
    "lame": "LGPL-2.0-or-later",
    **dict.fromkeys("libseccomp mpg123".split(), "LGPL-2.1-only"),
    **dict.fromkeys("ffmpeg libmicrohttpd libsndfile".split(), "LGPL-2.1-or-later"),
    **dict.fromkeys("libde265 libheif".split(), "LGPL-3.0-or-later"),
    "zeromq3": "LGPL-3.0-or-later WITH LGPL-3.0-linking-exception",
    **dict.fromkeys("cppzmq expat fmtlib libdeflate nlohmann-json3 prometheus-cpp spdlog tomlplusplus utf8proc "
                    "yaml-cpp".split(), "MIT"),
    "bzip2": "bzip2-1.0.6",
    "curl": "curl",
    "tiff": "libtiff",
}
# Packages of header-only libraries, which are compiled in.
HEADERS = ("cppzmq-dev", "libcli11-dev", "libdlpack-dev", "libexpected-dev", "libkissfft-dev", "libtomlplusplus-dev",
           "libxxhash-dev", "nlohmann-json3-dev")
# The texts that Debian's files with licences name.
COMMON_LICENCES = [pathlib.Path("/usr/share/common-licenses", name) for name in
                   ("Apache-2.0", "GPL-3", "LGPL-2", "LGPL-2.1", "LGPL-3")]
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


def outdated(packages):
    """A line for each package that apt would upgrade: what a wheel holds of it stays as it is, with its old faults."""
    policy = subprocess.run(["apt-cache", "policy", *packages], capture_output=True, text=True, check=True,
                            env={**os.environ, "LC_ALL": "C"}).stdout
    for name, installed, candidate in re.findall(r"(?m)^(\S+):\n  Installed: (\S+)\n  Candidate: (\S+)$", policy):
        if installed != candidate:
            yield f"the wheel holds {name} {installed}, and Debian's archive has {candidate}"


def components(unpacked, prefix, pybind11):
    """Returns the components by name, and of each that is a package of Debian the file with its licences."""
    found = {component["name"]: component for component in built(prefix / "sources")}
    licences = {name: prefix / "copyright" / name for name in found}
    found["pybind11"] = {"type": "library", "name": "pybind11", "version": pybind11,
                         "purl": f"pkg:pypi/pybind11@{pybind11}"}
    licences["pybind11"] = pathlib.Path("/usr/share/doc/pybind11-dev/copyright")
    copied = {owner(file.name) for file in unpacked.glob("isocost.libs/*.so*")} - {None}
    for line in outdated(sorted(copied)):
        print(f"warning: {line}: upgrade the packages, and build again", file=sys.stderr)
    for package in (*HEADERS, *sorted(copied)):
        component = of_package(package)
        if component["name"] not in found:
            found[component["name"]] = component
            licences[component["name"]] = pathlib.Path(f"/usr/share/doc/{package}/copyright")
    for name, component in found.items():
        if name not in LICENCE_OF:
            sys.exit(f"{component['purl']}: the wheel holds it, and LICENCE_OF does not say what it is under")
        component["licenses"] = [{"expression": LICENCE_OF[name]}]
    return dict(sorted(found.items())), licences


def commit():
    """The commit of the checkout, with "-dirty" after it where files differ; "unknown" outside of git."""
    if not shutil.which("git"):
        return "unknown"
    done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() or "unknown"


def main():
    wheel, prefix, pybind11, folder = sys.argv[1:]
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
        found, licences = components(unpacked, pathlib.Path(prefix), pybind11)
        (info / "licenses").mkdir(exist_ok=True)
        for name, file in licences.items():
            shutil.copyfile(file, info / "licenses" / f"{name}.txt")
        for file in COMMON_LICENCES:
            shutil.copyfile(file, info / "licenses" / f"{file.name}.txt")
        listed = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
                  "metadata": {"component": {"type": "library", "name": "isocost", "version": version,
                                             "properties": [{"name": "isocost:commit", "value": commit()}]}},
                  "components": list(found.values())}
        (info / "sboms").mkdir(exist_ok=True)
        (info / "sboms/isocost.cdx.json").write_text(json.dumps(listed, indent=1) + "\n")
        run(sys.executable, "-m", "wheel", "pack", "-d", folder, str(unpacked))


if __name__ == "__main__":
    main()
