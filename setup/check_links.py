"""Checks the Markdown pages: that relative links and their headings exist, that every page of docs/ can be reached from
docs/README.md, that its list of decisions has each file of docs/decisions/ by its title, and that README.md has at most
10,000 bytes."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST_BYTES = 10_000
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)


def prose(page: pathlib.Path) -> str:
    """The page without code, in which brackets are no links and # begins no heading."""
    return re.sub(r"`[^`\n]*`\]", "]", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: pathlib.Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    names = set()
    for title in re.findall(r"^#+ +(.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title.strip().lower())
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return names


def links(page: pathlib.Path) -> list[tuple[str, pathlib.Path, str]]:
    """(link, file, heading) of each relative link."""
    found = [first or second for first, second in LINK.findall(prose(page))]
    return [(link, (page.parent / file).resolve() if file else page, heading)
            for link in found if "://" not in link and not link.startswith("mailto:")
            for file, _, heading in [link.partition("#")]]


def problem(file: pathlib.Path, heading: str) -> str | None:
    if not file.exists():
        return "no such file"
    if heading and (file.suffix != ".md" or heading not in anchors(file)):
        return "no such heading"
    return None


def wrong_decisions(listing: str, files: dict[str, str]) -> list[str]:
    """Returns the faults of the list of decisions on a page, given the text of each file by its name."""
    found, rows = [], []
    for name, text in sorted(files.items()):
        number = name[:4]
        title = re.match(rf"# {int(number)}\. (\S.*)\n", text)
        if title is None:
            found.append(f"docs/decisions/{name}: begins with '{text.splitlines()[0]}', "
                         f"not with '# {int(number)}. TITLE'")
        else:
            rows.append(f"| [{number}](decisions/{name}) | {title[1]} |")
    listed = re.findall(r"^\| \[\d+\]\(decisions/.*$", listing, re.MULTILINE)
    found += [f"docs/README.md: the list of decisions lacks '{row}'" for row in rows if row not in listed]
    if not found and listed != rows:
        found.append("docs/README.md: the list of decisions is not\n" + "\n".join(rows))
    return found


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split("\n")
    pages = [page for name in listed if name and (page := ROOT / name).exists()]
    found = [f"{page.relative_to(ROOT)}: {link}: {why}" for page in pages for link, file, heading in links(page)
             if (why := problem(file, heading))]
    reached: set[pathlib.Path] = set()
    pending = [ROOT / "docs/README.md"]
    while pending:
        if (page := pending.pop()) not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            # A page that only a decision or a component's README names is not found.
            if page.parent in (ROOT / "docs", ROOT / "docs/models"):
                pending += [file for _, file, _ in links(page)]
    found += [f"{page.relative_to(ROOT)}: no link from docs/README.md leads here" for page in pages
              if ROOT / "docs" in page.parents and page not in reached]
    found += wrong_decisions((ROOT / "docs/README.md").read_text(encoding="utf-8"),
                             {file.name: file.read_text(encoding="utf-8")
                              for file in (ROOT / "docs/decisions").glob("*.md")})
    if (size := (ROOT / "README.md").stat().st_size) > MOST_BYTES:
        found.append(f"README.md: {size} bytes, more than {MOST_BYTES}")
    print("".join(f"check_links: {line}\n" for line in found), file=sys.stderr, end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
