"""Checks the arrows between folders: who may include whom, and that nobody includes another's internal/."""

import pathlib
import re
import sys

ALLOWED = {
    "base": set(),
    "costmodel": {"base"},
    "balancer": {"base", "costmodel"},
    "decode": {"base"},
    "transport": {"base"},
    "loader": {"base", "costmodel", "balancer", "decode", "transport"},
    "trainer_adapter": {"base", "transport"},
}
COMPONENTS = set(ALLOWED)
# Parts of a component that compose more: the Python package embeds a node, libtorch's profiler writes profiles, the
# program emulates trainers.
MORE = {"trainer_adapter/python": {"balancer", "loader"}, "trainer_adapter/torch": {"costmodel"}, "cli": {"trainer_adapter"}}
# These may include any component, and nobody includes them.
LEAVES = {"tests", "bench", "examples"}
# What a component's own tests and benchmarks may reach into.
INCLUDE = re.compile(r'^\s*#include\s+"([^"]+)"', re.MULTILINE)


def problems(path: pathlib.Path) -> list[str]:
    folder = path.parts[0]
    allowed = ALLOWED.get(folder, set()) | MORE.get("/".join(path.parts[:2]), set())
    found = []
    for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
        target = include.split("/")[0]
        if target in COMPONENTS:
            if folder in COMPONENTS and target != folder and target not in allowed:
                found.append(f"{path}: {folder}/ may not include {target}/ ({include})")
            own_test = folder in LEAVES and len(path.parts) > 2 and path.parts[1] == target
            if "/internal/" in include and target != folder and not own_test:
                found.append(f"{path}: {include} is private to {target}/")
        elif target in LEAVES:
            if folder in COMPONENTS:
                found.append(f"{path}: nobody includes {target}/ ({include})")
        else:
            found.append(f"{path}: include from the repository root ({include})")
    return found


def main() -> int:
    folders = COMPONENTS | LEAVES
    paths = [p for f in sorted(folders) for p in pathlib.Path(f).rglob("*") if p.suffix in (".h", ".cc")]
    if not paths:
        print("check_includes: no sources here; run it from the repository root", file=sys.stderr)
        return 1
    found = [problem for path in paths for problem in problems(path)]
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
