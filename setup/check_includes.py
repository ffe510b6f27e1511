"""Checks the arrows between rooms: who may include whom, that nobody includes another room's internal/, and that a
public header is one that another room includes. Likewise the imports between the rooms of the Python package."""

import ast
import graphlib
import pathlib
import re
import sys
from collections.abc import Container

# Room -> rooms whose public headers it may include, besides its own. Arrows run one way: a room names only rooms above
# it in this table. A path belongs to the longest room that it starts with.
TRANSPORT = {"transport/wire", "transport/protocol", "transport/shared_memory", "transport/zmq"}
BALANCER = {"balancer/partition", "balancer/pipeline", "balancer/layout"}
ROOMS = {
    "base": set(),
    "base/executor": {"base"},
    "costmodel": {"base"},
    "balancer/partition": {"base"},
    "balancer/pipeline": {"base", "costmodel", "balancer/partition"},
    "balancer/layout": {"base", "base/executor", "costmodel", "balancer/partition", "balancer/pipeline"},
    "decode/shape": {"base"},
    "decode/bytes": {"base", "decode/shape"},
    "decode/resize": {"base", "decode/shape"},
    "decode/image": {"base", "decode/shape", "decode/bytes", "decode/resize"},
    "decode/audio": {"base", "decode/shape", "decode/bytes"},
    "decode/video": {"base", "decode/shape", "decode/bytes", "decode/resize"},
    "decode/prepare": {"base", "decode/shape", "decode/bytes", "decode/resize", "decode/image", "decode/audio",
                       "decode/video"},
    "decode/recipes": {"base", "decode/shape", "decode/bytes", "decode/resize", "decode/audio", "decode/video",
                       "decode/prepare"},
    "decode": {"base", "decode/shape", "decode/bytes", "decode/image", "decode/audio", "decode/video", "decode/prepare",
               "decode/recipes"},
    "decode/isolation": {"base", "decode/shape", "decode"},
    "transport/wire": {"base"},
    "transport/protocol": {"base", "transport/wire"},
    "transport/shared_memory": {"base", "transport/wire"},
    "transport/zmq": {"base", "transport/wire", "transport/protocol", "transport/shared_memory"},
    "loader/dataset/stores/remote": {"base"},
    "loader/dataset/stores/cache": {"base", "loader/dataset/stores/remote"},
    "loader/dataset/stores/s3": {"base", "loader/dataset/stores/remote"},
    "loader/dataset/stores": {"base", "loader/dataset/stores/remote", "loader/dataset/stores/cache",
                              "loader/dataset/stores/s3"},
    "loader/dataset/formats": {"base", "decode/shape", "decode/bytes"},
    "loader/dataset/records": {"base", "decode/shape", "decode/bytes", "loader/dataset/stores",
                               "loader/dataset/formats"},
    "loader/dataset/names": {"base", "loader/dataset/stores", "loader/dataset/formats"},
    "loader/dataset/index": {"base", "decode/shape", "decode/bytes", "decode", "loader/dataset/stores",
                             "loader/dataset/formats", "loader/dataset/records"},
    "loader/dataset/tokens": {"base", "decode/shape", "decode", "loader/dataset/stores", "loader/dataset/index"},
    "loader/dataset/catalogue": {"base", "decode/shape", "decode", "loader/dataset/stores", "loader/dataset/formats",
                                 "loader/dataset/names", "loader/dataset/index", "loader/dataset/tokens"},
    "loader/dataset": {"base", "base/executor", "decode/shape", "decode/bytes", "decode", "decode/isolation",
                       "loader/dataset/stores", "loader/dataset/stores/remote", "loader/dataset/stores/cache",
                       "loader/dataset/formats", "loader/dataset/records", "loader/dataset/names",
                       "loader/dataset/index", "loader/dataset/tokens", "loader/dataset/catalogue"},
    "loader/dataset/shard_writing": {"base", "decode/shape", "decode/bytes", "decode", "loader/dataset/stores",
                                     "loader/dataset/formats", "loader/dataset/records", "loader/dataset/index",
                                     "loader/dataset/catalogue"},
    "loader/plan/mixture": {"base"},
    "loader/plan": {"base", "costmodel", "decode", "transport/wire", "loader/dataset", "loader/dataset/catalogue",
                    "loader/plan/mixture"}
                   | BALANCER,
    "loader/metrics": {"base", "costmodel", "transport/wire"},
    "loader/report": {"base", "costmodel", "decode/shape", "decode", "transport/wire", "loader/dataset",
                      "loader/plan/mixture", "loader/plan"}
                     | BALANCER,
    "loader/node/decoding": {"base", "base/executor", "decode", "transport/wire", "loader/dataset/stores",
                             "loader/dataset", "loader/plan"},
    "loader/node": {"base", "base/executor", "costmodel", "decode", "transport/wire", "transport/protocol",
                    "transport/zmq", "loader/dataset/names", "loader/dataset", "loader/plan/mixture", "loader/plan",
                    "loader/metrics", "loader/report", "loader/node/decoding"}
                   | BALANCER,
    "loader/config": {"base", "balancer/layout", "loader/dataset/names", "loader/dataset", "loader/plan/mixture",
                      "loader/plan", "loader/node"},
    "trainer_adapter": {"base"} | TRANSPORT,
    "trainer_adapter/torch": {"base", "costmodel", "transport/wire", "trainer_adapter"},
}
INSIDE_DECODE = {room for room in ROOMS if room.startswith("decode/")} - {"decode/shape", "decode/isolation"}
LOADER = {room for room in ROOMS if room.startswith("loader/")}
EXTENSION = "trainer_adapter/python/extension"
ROOMS[EXTENSION] = {"base", "costmodel", "decode", "decode/shape", "trainer_adapter"} | BALANCER | LOADER
LIBRARIES = set(ROOMS) - {EXTENSION, "trainer_adapter/torch"} - INSIDE_DECODE
ROOMS["cli/common"] = LIBRARIES
ROOMS["cli/trace"] = LIBRARIES | {"cli/common"}
ROOMS["cli/data"] = LIBRARIES | {"cli/common"}
ROOMS["cli/model"] = LIBRARIES | {"cli/common"}
ROOMS["cli/plan"] = LIBRARIES | {"cli/common", "cli/trace"}
ROOMS["cli/service"] = LIBRARIES | {"cli/common"}
ROOMS["cli"] = {"cli/common", "cli/data", "cli/model", "cli/plan", "cli/service"}
ROOMS["cli/lab"] = LIBRARIES | {"cli/common", "cli/trace"}
# These may include any room, and nobody includes them but those after them.
LEAVES = ["examples", "tests", "bench"]
# Only their own tests include the programs and the Python module.
PROGRAMS = {room for room in ROOMS if room.startswith("cli")} | {EXTENSION}
# Libraries for trainers: their users are outside of this repository.
FOR_USERS = {"trainer_adapter/client.h", "trainer_adapter/own_work.h", "trainer_adapter/replicas.h",
             "trainer_adapter/state.h",
             "trainer_adapter/torch/pixel_normaliser.h",
             "trainer_adapter/torch/torch_loader.h", "trainer_adapter/torch/profiler.h"}

# The Python package: room -> rooms whose modules it may import, besides its own. A module of the package's root that is
# not a row of its own belongs to the row "isocost". Imports in functions and under TYPE_CHECKING count.
PACKAGE = pathlib.Path("trainer_adapter/python/isocost")
COMMON = {"isocost._isocost", "isocost.errors", "isocost.base"}
PYTHON_ROOMS = {
    "isocost._isocost": set(),
    "isocost.errors": {"isocost._isocost"},
    "isocost.base": {"isocost._isocost", "isocost.errors"},
    "isocost.rendezvous": COMMON,
    "isocost.microbatches": COMMON,
    "isocost.connection": COMMON | {"isocost.microbatches", "isocost.rendezvous"},
    "isocost.timing": COMMON | {"isocost.microbatches"},
    "isocost.profiling": COMMON | {"isocost.microbatches", "isocost.rendezvous"},
    "isocost.layout": COMMON | {"isocost.rendezvous"},
    "isocost.options": COMMON | {"isocost.rendezvous", "isocost.layout"},
    "isocost.tokens": COMMON | {"isocost.options"},
    "isocost.parquet": COMMON,
    "isocost.loop": COMMON | {"isocost.microbatches", "isocost.rendezvous", "isocost.connection",
                             "isocost.timing"},
}
PYTHON_ROOMS["isocost"] = set(PYTHON_ROOMS)
PYTHON_ROOMS["isocost.integrations"] = set(PYTHON_ROOMS)  # which nothing else imports

INCLUDE = re.compile(r'^\s*#include\s+"([^"]+)"', re.MULTILINE)


def room_of(path: str) -> str:
    """The room of a path; its first folder if it is in none."""
    parents = [str(parent) for parent in pathlib.PurePosixPath(path).parents]
    return next((parent for parent in parents if parent in ROOMS), path.split("/")[0])


def arrow_problem(path: str, include: str) -> str | None:
    """Returns the fault of this include, or None."""
    folder, room, target = path.split("/")[0], room_of(path), room_of(include)
    if (leaf := include.split("/")[0]) in LEAVES:
        fits = folder in LEAVES and LEAVES.index(leaf) <= LEAVES.index(folder)
        return None if fits else f"{folder}/ may not include {leaf}/"
    if target not in ROOMS:
        return "include from the repository root"
    if folder in LEAVES:
        # The tests of a room, and benchmarks of its component, may reach into its internal/.
        inside = path.removeprefix(folder + "/").startswith((target + "/", target.split("/")[0] + "/"))
        return None if "/internal/" not in include or inside else f"it is private to {target}/"
    if target == room:
        return None
    if "/internal/" in include:
        return f"it is private to {target}/"
    return None if target in ROOMS[room] else f"{room}/ may not include {target}/"


def upward_arrows(rooms: dict[str, set[str]]) -> list[str]:
    """Rooms that name one which stands below them in the table."""
    return [f"{room} names {', '.join(sorted(later))}, which stands below it" for i, room in enumerate(rooms)
            if (later := rooms[room] & set(list(rooms)[i:]))]


def main() -> int:
    if upward := upward_arrows(ROOMS) + upward_arrows(PYTHON_ROOMS):
        print("check_includes: the table: " + "; ".join(upward), file=sys.stderr)
        return 1
    folders = {room.split("/")[0] for room in ROOMS}.union(LEAVES)
    paths = [p for f in sorted(folders) for p in pathlib.Path(f).rglob("*") if p.suffix in (".h", ".cc")]
    modules = {module_of(p): p for p in sorted(PACKAGE.rglob("*.py*")) if p.suffix in (".py", ".pyi")}
    if not paths or not modules:
        print("check_includes: no sources here; run it from the repository root", file=sys.stderr)
        return 1
    includes = {p.as_posix(): INCLUDE.findall(p.read_text(encoding="utf-8")) for p in paths}
    found = [f"{path}: {include}: {problem}" for path, names in includes.items() for include in names
             if (problem := arrow_problem(path, include)) is not None]
    found += private_headers(includes) + import_problems(modules)
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


def module_of(path: pathlib.Path) -> str:
    """The name by which a file of the package is imported."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def parent_of(name: str, known: Container[str]) -> str:
    """The longest of the known names that a dotted name is or lies in."""
    while name not in known:
        name = name.rpartition(".")[0]
    return name


def imported(module: str, path: pathlib.Path) -> set[str]:
    """Returns the modules of the package that a module of it imports, wherever the imports stand."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[:len(package) + 1 - node.level] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            names.update(f"{source}.{alias.name}" for alias in node.names)
    return {name for name in names if name.split(".")[0] == PACKAGE.name}


def import_problems(modules: dict[str, pathlib.Path]) -> list[str]:
    """Returns the faults of the imports between the package's modules: arrows that the table lacks, and circles."""
    found = []
    graph = {}
    for module, path in modules.items():
        graph[module] = {parent_of(name, modules) for name in imported(module, path)}
        room = parent_of(module, PYTHON_ROOMS)
        for target in sorted(graph[module]):
            other = parent_of(target, PYTHON_ROOMS)
            if other != room and other not in PYTHON_ROOMS[room]:
                found.append(f"{path}: {target}: {room} may not import {other}")
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as circle:
        found.append(f"{PACKAGE}: a circle: {' imports '.join(reversed(circle.args[1]))}")
    return found


def private_headers(includes: dict[str, list[str]]) -> list[str]:
    """Headers at a room's root that no other room reads, itself or through another public header."""
    public = {path for path in includes if path.endswith(".h") and "/internal/" not in path
              and room_of(path) in ROOMS and room_of(path) not in PROGRAMS | {"base"}}
    needed = set(FOR_USERS)
    for path, names in includes.items():
        if path.split("/")[0] not in LEAVES[1:]:
            needed.update(name for name in names if room_of(name) != room_of(path))
    reached: set[str] = set()
    while needed != reached:
        reached = needed
        needed = reached | {name for path in reached for name in includes.get(path, ())
                            if room_of(name) == room_of(path)}
    return [f"{path}: no other room includes it: move it to {room_of(path)}/internal/"
            for path in sorted(public - needed)]


if __name__ == "__main__":
    sys.exit(main())
