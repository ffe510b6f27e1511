"""Checks the arrows between rooms: who may include whom, that nobody includes another room's internal/, and that a
public header is one that another room includes."""

import pathlib
import re
import sys

# Room -> rooms whose public headers it may include, besides its own. Arrows run one way: a room names only rooms above
# it in this table. A path belongs to the longest room that it starts with.
BALANCER = {"balancer/partition", "balancer/pipeline", "balancer/layout"}
ROOMS = {
    "base": set(),
    "costmodel": {"base"},
    "balancer/partition": {"base"},
    "balancer/pipeline": {"base", "costmodel", "balancer/partition"},
    "balancer/layout": {"base", "costmodel", "balancer/partition", "balancer/pipeline"},
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
    "transport": {"base"},
    "loader/dataset": {"base", "decode/shape", "decode/bytes", "decode", "decode/isolation"},
    "loader/plan": {"base", "costmodel", "decode", "transport", "loader/dataset"} | BALANCER,
    "loader/metrics": {"base", "costmodel", "transport"},
    "loader/report": {"base", "costmodel", "decode/shape", "decode", "transport", "loader/dataset", "loader/plan"}
                     | BALANCER,
    "loader/node": {"base", "costmodel", "decode", "transport", "loader/dataset", "loader/plan", "loader/metrics",
                    "loader/report"} | BALANCER,
    "loader/config": {"base", "loader/dataset", "loader/plan", "loader/node"},
    "trainer_adapter": {"base", "transport"},
    "trainer_adapter/torch": {"base", "costmodel", "transport", "trainer_adapter"},
}
INSIDE_DECODE = {room for room in ROOMS if room.startswith("decode/")} - {"decode/shape", "decode/isolation"}
LOADER = {room for room in ROOMS if room.startswith("loader/")}
EXTENSION = "trainer_adapter/python/extension"
ROOMS[EXTENSION] = {"base", "costmodel", "decode", "transport", "trainer_adapter"} | BALANCER | LOADER
ROOMS["cli"] = set(ROOMS) - {EXTENSION, "trainer_adapter/torch"} - INSIDE_DECODE
ROOMS["cli/lab"] = ROOMS["cli"] | {"cli"}
# These may include any room, and nobody includes them but those after them.
LEAVES = ["examples", "tests", "bench"]
# Nobody includes the programs and the Python module but their own tests.
PROGRAMS = {"cli", "cli/lab", EXTENSION}
# Libraries for trainers: their users are outside of this repository.
FOR_USERS = {"trainer_adapter/client.h", "trainer_adapter/own_work.h", "trainer_adapter/replicas.h",
             "trainer_adapter/torch/loader.h", "trainer_adapter/torch/profiler.h"}
INCLUDE = re.compile(r'^\s*#include\s+"([^"]+)"', re.MULTILINE)


def room_of(path: str) -> str:
    """The room of a path; its first folder where it is in none."""
    parents = [str(parent) for parent in pathlib.PurePosixPath(path).parents]
    return next((parent for parent in parents if parent in ROOMS), path.split("/")[0])


def arrow_problem(path: str, include: str) -> str | None:
    """What is wrong with this include, if anything."""
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


def main() -> int:
    upward = [f"{room} names {', '.join(sorted(later))}, which stands below it" for i, room in enumerate(ROOMS)
              if (later := set(ROOMS[room]) & set(list(ROOMS)[i:]))]
    if upward:
        print("check_includes: the table: " + "; ".join(upward), file=sys.stderr)
        return 1
    folders = {room.split("/")[0] for room in ROOMS}.union(LEAVES)
    paths = [p for f in sorted(folders) for p in pathlib.Path(f).rglob("*") if p.suffix in (".h", ".cc")]
    if not paths:
        print("check_includes: no sources here; run it from the repository root", file=sys.stderr)
        return 1
    includes = {p.as_posix(): INCLUDE.findall(p.read_text(encoding="utf-8")) for p in paths}
    found = [f"{path}: {include}: {problem}" for path, names in includes.items() for include in names
             if (problem := arrow_problem(path, include)) is not None]
    found += private_headers(includes)
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


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
