"""An installed Isocost is enough for trainers in other trees: both examples configure, build and train with only the
package that `cmake --install` leaves, and the installed program and Python package work."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import outside
from outside import SOURCE, TEXTS, TIMEOUT, run

BUILD = pathlib.Path(os.environ["ISOCOST_BUILD"])
# Not a temporary name: a compiler cache knows the files again.
DIRECTORY = BUILD / "install-test"
PREFIX = DIRECTORY / "prefix"


def owner(library):
    """The Debian package that a shared library is from."""
    file = pathlib.Path(library).resolve()
    # dpkg knows some libraries by the name that they had before /lib became a link.
    for path in (file, str(file).removeprefix("/usr")):
        found = subprocess.run(["dpkg", "-S", str(path)], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise AssertionError(f"no package owns {file}")


def build_outside(folder, name=None):
    """Copies the project `folder` away from this tree, and builds it against PREFIX. Returns its program."""
    return outside.build(folder, DIRECTORY / (name or folder.name), PREFIX)


class PkgConfig(unittest.TestCase):
    """isocost.pc names the folders into which libraries and headers are installed, below the prefix or not."""

    @staticmethod
    def folders(libdir, includedir, *options):
        """Returns the two folders, as pkg-config prints them, installed below /opt/isocost."""
        with tempfile.TemporaryDirectory() as directory:
            run("cmake", f"-DSOURCE={SOURCE}", f"-DINTO={directory}/isocost.pc", "-DPREFIX=/opt/isocost",
                "-DVERSION=1.2.3", f"-DLIBDIR={libdir}", f"-DINCLUDEDIR={includedir}",
                "-P", SOURCE / "cmake/WritePkgConfig.cmake")
            environment = {**os.environ, "PKG_CONFIG_PATH": directory}
            return [run("pkg-config", *options, f"--variable={name}", "isocost", env=environment).strip()
                    for name in ("libdir", "includedir")]

    def test_folders_below_the_prefix_move_with_it(self):
        self.assertEqual(self.folders("lib", "include"), ["/opt/isocost/lib", "/opt/isocost/include"])
        self.assertEqual(self.folders("lib/x86_64-linux-gnu", "include", "--define-variable=prefix=/moved"),
                         ["/moved/lib/x86_64-linux-gnu", "/moved/include"])

    def test_absolute_folders_stay_as_they_are(self):
        self.assertEqual(self.folders("/usr/lib64", "/usr/include"), ["/usr/lib64", "/usr/include"])
        self.assertEqual(self.folders("/usr/lib64", "include"), ["/usr/lib64", "/opt/isocost/include"])


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(DIRECTORY, ignore_errors=True)
        run("cmake", "--install", BUILD, "--prefix", PREFIX)
        cls.program = PREFIX / "bin/isocost"
        cls.shards = outside.make_shards(cls.program, DIRECTORY)

    def train(self, trainer, *arguments):
        """The output of `trainer`, which takes one epoch from the installed program."""
        return outside.train(self.program, self.shards, trainer, *arguments)

    def test_the_list_of_debian_packages_is_what_is_linked(self):
        package = PREFIX / "lib/python3/dist-packages/isocost"
        listed = {line for line in (package / "debian_packages.txt").read_text().split("\n")
                  if line and not line.startswith("#")}
        linked = set()
        for binary in (self.program, PREFIX / "bin/isocost-lab", *package.glob("_isocost*.so")):
            needed = re.findall(r"NEEDED.*\[(\S+)\]", run("readelf", "-d", binary))
            for name, path in re.findall(r"(\S+) => (\S+)", run("ldd", binary)):
                if name in needed:
                    linked.add(owner(path))
        self.assertEqual(linked - {"libc6"}, listed)

    def test_the_program_finds_the_python_package(self):
        # Without a PYTHONPATH, by the Python that runs this test.
        folder = DIRECTORY / "path"
        folder.mkdir()
        (folder / "python3").symlink_to(sys.executable)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment["PATH"] = f"{folder}:{environment['PATH']}"
        for program in (self.program, BUILD / "isocost"):
            refused = subprocess.run([str(program), "tokenize", "/nonexistent", "--model", str(DIRECTORY)],
                                     capture_output=True, text=True, timeout=TIMEOUT, env=environment, cwd="/")
            self.assertTrue(refused.stderr.startswith("isocost tokenize: "), refused.stderr)

    def test_the_examples_model_is_measured_in_a_build_tree(self):
        refused = subprocess.run([str(self.program), "model", "profile", "--example", "--output",
                                  str(DIRECTORY / "profile.json")], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("is not installed", refused.stderr)
        self.assertTrue((BUILD / "profile_example").exists())

    def test_a_client_without_libtorch(self):
        trainer = build_outside(SOURCE / "tests/install/text_client")
        tokens = sum(len(text) for text in TEXTS)
        self.assertRegex(self.train(trainer, "ENDPOINT"), rf"^{len(TEXTS)} samples, \d+ tokens\n$")
        self.assertGreater(int(self.train(trainer, "ENDPOINT").split()[2]), tokens)
        self.assertNotIn("torch", run("ldd", trainer))
        self.assertNotIn("tbb", run("ldd", trainer))

    def test_a_client_by_pkg_config(self):
        directory = DIRECTORY / "pkg_config"
        directory.mkdir()
        environment = {**os.environ, "PKG_CONFIG_PATH": str(PREFIX / "lib/pkgconfig")}
        self.assertEqual(run("pkg-config", "--modversion", "isocost", env=environment).strip(),
                         run(self.program, "--version").split()[-1])
        flags = run("pkg-config", "--cflags", "--libs", "isocost", env=environment).split()
        trainer = directory / "text_client"
        run("g++", "-std=c++20", SOURCE / "tests/install/text_client/main.cc", "-o", trainer, *flags)
        self.assertRegex(self.train(trainer, "ENDPOINT"), rf"^{len(TEXTS)} samples, \d+ tokens\n$")

    def test_a_trainer_reads_a_layout(self):
        reader = build_outside(SOURCE / "tests/install/layout_reader")
        layout = DIRECTORY / "layout.json"
        degrees = {"tensor": 2, "pipeline": 1, "data": 1}
        layout.write_text(json.dumps({"version": 1, "encoder_place": "llm", "encoder": degrees, "llm": degrees,
                                      "microbatches": 2, "chunks": 1, "schedule": "1f1b"}))
        fingerprint = run(self.program, "layout", "fingerprint", layout).strip()
        self.assertEqual(run(reader, layout, 1), f"{fingerprint} 0 1\n")
        self.assertEqual(run(self.program, "layout", "receiver", layout, 1), "0 1\n")

    def configure(self, name, find, *options):
        """Configures a project that says `find`. Returns its status, and what CMake printed, in one line."""
        directory = DIRECTORY / name
        directory.mkdir()
        (directory / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\n"
                                                  f"project({name} LANGUAGES CXX)\n{find}\n")
        done = subprocess.run(["cmake", "-S", directory, "-B", directory / "build", *options],
                              capture_output=True, text=True, timeout=TIMEOUT)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def test_find_package_says_which_components_there_are(self):
        where = f"-DCMAKE_PREFIX_PATH={PREFIX}"
        status, printed = self.configure("no_components", "find_package(Isocost REQUIRED)", where)
        self.assertEqual(status, 0, printed)
        self.assertIn("there are the components client, layout", printed)
        status, printed = self.configure("quiet", "find_package(Isocost REQUIRED QUIET)", where)
        self.assertNotIn("components", printed)
        status, printed = self.configure("unknown", "find_package(Isocost REQUIRED COMPONENTS trainer)", where)
        self.assertNotEqual(status, 0)
        self.assertIn("Isocost has no component trainer; there are: client, layout", printed)

    @unittest.skipIf(os.environ.get("ISOCOST_TORCH_ROOT"), "built with a wheel")
    def test_which_torch_is_taken_is_printed(self):
        status, printed = self.configure("torch", "find_package(Isocost REQUIRED COMPONENTS torch)",
                                         f"-DCMAKE_PREFIX_PATH={PREFIX}")
        self.assertEqual(status, 0, printed)
        self.assertRegex(printed, r"Isocost: torch [0-9.]+, /usr/lib/\S*/libtorch\.so")

    def test_a_wheels_torch_beside_debians_is_refused(self):
        wheel = importlib.util.find_spec("torch")
        folder = pathlib.Path(wheel.origin).parent if wheel else None
        if not folder or not (folder / "version.py").exists() or not (folder / "share/cmake").exists():
            self.skipTest("this Python has no wheel of torch")
        find = "find_package(Isocost REQUIRED COMPONENTS torch)"
        # The wheel is found first, or its library is found for the headers of the other.
        for name, before in (("wheel_first", "find_package(Torch REQUIRED)\n"), ("wheel_beside", "")):
            status, printed = self.configure(name, before + find, f"-DCMAKE_PREFIX_PATH={folder};{PREFIX}")
            self.assertNotEqual(status, 0, printed)
            self.assertIn("torch", printed)
            self.assertIn("ISOCOST_TORCH_ROOT", printed)

    def test_a_client_without_a_node_says_why(self):
        trainer = build_outside(SOURCE / "tests/install/text_client", "refused")
        refused = subprocess.run([trainer, "tcp://127.0.0.1:x"], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(refused.returncode, 1)
        self.assertTrue(refused.stderr.startswith("text_client: "), refused.stderr)

    def test_the_minimal_trainer_outside_the_tree(self):
        trainer = build_outside(SOURCE / "examples/minimal_trainer")
        output = self.train(trainer, "--endpoint", "ENDPOINT")
        self.assertEqual(len(output.splitlines()), len(TEXTS) // 8, output)

    def test_the_distributed_trainer_outside_the_tree(self):
        trainer = build_outside(SOURCE / "examples/distributed_trainer")
        output = self.train(trainer, "--endpoint", "ENDPOINT", "--rank", 0, "--world-size", 1, "--store",
                            DIRECTORY / "ranks", "--checkpoint", DIRECTORY / "checkpoint.pt")
        self.assertEqual(len(output.splitlines()), len(TEXTS) // 8, output)
        self.assertTrue((DIRECTORY / "checkpoint.pt").is_file())

    def test_the_public_headers_are_installed_and_no_others(self):
        include = PREFIX / "include"
        self.assertEqual([entry.name for entry in include.iterdir()], ["isocost"])
        installed = {str(file.relative_to(include)) for file in include.rglob("*.h")}
        listed = set(re.findall(r"^\| `(isocost/[a-z_/]+\.h)` \|", (SOURCE / "docs/compatibility.md").read_text(),
                                re.MULTILINE))
        self.assertEqual({name for name in installed if name.count("/") == 1}, listed)
        # A user's own base/log.h hides none of ours, since ours are included by their folder.
        for name in sorted(installed):
            text = (include / name).read_text()
            self.assertNotRegex(text, r'#include "', name)
            for other in re.findall(r"#include <(isocost/[^>]+)>", text):
                self.assertIn(other, installed, name)

    def test_the_public_headers_compile_alone_without_a_warning(self):
        for name in outside.HEADERS:
            with self.subTest(name=name):
                outside.compile_header(name, DIRECTORY, outside.Compiler("g++"), [f"-I{PREFIX / 'include'}"])

    def test_a_compiler_that_cannot_read_the_headers_is_told_once(self):
        file = DIRECTORY / "old.cc"
        file.write_text("#include <isocost/client.h>\nint main() { isocost::ClientOptions options; }\n")
        cases = [(["g++", "-std=c++17"], "compile with -std=c++20"), (["g++"], "compile with -std=c++20")]
        if shutil.which("clang++-14"):
            cases.append((["clang++-14", "-std=c++20"], "clang 16 or newer"))
        for compiler, says in cases:
            refused = subprocess.run([*compiler, "-fsyntax-only", f"-I{PREFIX / 'include'}", str(file)],
                                     capture_output=True, text=True, timeout=TIMEOUT)
            self.assertNotEqual(refused.returncode, 0, compiler)
            errors = [line for line in refused.stderr.splitlines() if "error:" in line]
            self.assertEqual(len(errors), 2, refused.stderr)  # the second ends the compilation
            self.assertIn(says, errors[0])

    def test_below_usr_local_the_python_package_is_where_debians_python_looks(self):
        staged = DIRECTORY / "staged"
        run("cmake", "--install", BUILD, "--prefix", "/usr/local", "--component", "python",
            env={**os.environ, "DESTDIR": str(staged)})
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        self.assertTrue((staged / f"usr/local/lib/python{version}/dist-packages/isocost/__init__.py").is_file())

    def test_the_python_package_has_the_programs_version(self):
        version = run(self.program, "--version").split()[-1]
        installed = PREFIX / "lib/python3/dist-packages"
        printed = run(sys.executable, "-c", "import isocost; print(isocost.__version__, isocost.__file__)",
                      env={**os.environ, "PYTHONPATH": str(installed)}, cwd="/")
        self.assertEqual(printed.split(), [version, str(installed / "isocost/__init__.py")])


if __name__ == "__main__":
    unittest.main()
