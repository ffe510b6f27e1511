"""An SVG of bars: samples a second of each contender, relative to the fastest of its work."""

import html

from report import OURS, number, rows

WIDTH, LEFT, RIGHT = 960, 270, 120
ROW, GAP, TOP = 20, 34, 78
STYLE = """
  svg { font-family: system-ui, "DejaVu Sans", sans-serif; }
  .paper { fill: #ffffff; } text { fill: #1c2330; font-size: 12.5px; } .title { font-size: 18px; font-weight: 650; }
  .work { font-size: 14px; font-weight: 650; } .faint { fill: #667085; }
  .ours { fill: #2a9d83; } .theirs { fill: #9aa8bd; } .range { stroke: #1c2330; stroke-width: 1.2; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #12161d; } text { fill: #e8ecf3; } .faint { fill: #98a2b3; }
    .ours { fill: #3fbf9f; } .theirs { fill: #55617a; } .range { stroke: #e8ecf3; }
  }
"""


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def bar(contender, values, most, y):
    """A bar with its name to the left, its rate to the right, and a line from the least to the most."""
    rate = values["samples_per_s"]
    scale = (WIDTH - LEFT - RIGHT) / most
    kind = "ours" if contender["name"].startswith(OURS) else "theirs"
    middle = y + ROW / 2
    return [text(LEFT - 8, middle + 4, contender["title"], "", "end"),
            f'<rect x="{LEFT}" y="{y + 3}" width="{rate["median"] * scale:.1f}" height="{ROW - 6}" class="{kind}"/>',
            f'<line x1="{LEFT + rate["least"] * scale:.1f}" x2="{LEFT + rate["most"] * scale:.1f}" y1="{middle}" '
            f'y2="{middle}" class="range"/>',
            text(LEFT + rate["most"] * scale + 8, middle + 4, number(rate["median"]), "faint")]


def svg(record):
    parts, y = [], TOP
    for work in record["works"]:
        made = rows(work)
        if not made:
            continue
        most = max(values["samples_per_s"]["most"] for _, values, _ in made)
        parts.append(text(20, y + 2, work["title"], "work"))
        y += 10
        for contender, values, _ in made:
            parts += bar(contender, values, most, y)
            y += ROW
        y += GAP
    machine = record["machine"]
    about = (f"two workers each, on {machine['cores']} cores ({machine['cpu']}), {record['date']}; medians of "
             f"{record['rounds']} rounds, lines from the least to the most")
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img" '
        f'aria-label="Samples a second of Isocost and its peers"><style>{STYLE}</style>',
        f'<rect class="paper" width="{WIDTH}" height="{y}"/>', text(20, 30, "Samples a second", "title"),
        text(20, 48, about, "faint"), *parts, "</svg>", ""])
