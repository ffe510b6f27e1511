"""Pictures of the page, as SVG: lines over a logarithmic axis, and groups of bars."""

import html
import math
import typing

WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 230, 70, 56
COLOURS = 6
STYLE = """
  svg { font-family: system-ui, "DejaVu Sans", sans-serif; }
  .paper { fill: #ffffff; } text { fill: #1c2330; font-size: 12.5px; } .title { font-size: 17px; font-weight: 650; }
  .faint { fill: #667085; } .grid { stroke: #dde2ea; } .axis { stroke: #667085; } path { fill: none; stroke-width: 2; }
  .c0 { --c: #2a9d83; } .c1 { --c: #d1662e; } .c2 { --c: #3b6fb6; } .c3 { --c: #9a5fb5; } .c4 { --c: #8b95a7; }
  .c5 { --c: #b59a2a; } path.line { stroke: var(--c); } .mark, .bar { fill: var(--c); }
  .dashed { stroke-dasharray: 5 4; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #12161d; } text { fill: #e8ecf3; } .faint { fill: #98a2b3; } .grid { stroke: #2a313d; }
    .axis { stroke: #98a2b3; } .c0 { --c: #3fbf9f; } .c1 { --c: #ec8a55; } .c2 { --c: #6f9fe0; } .c3 { --c: #bf8bd8; }
  }
"""

Points = typing.List[typing.Tuple[float, float]]


class Line(typing.NamedTuple):
    """A line of a picture. `colour` is an index; `dashed` lines are bounds."""

    name: str
    points: Points
    colour: int
    dashed: bool = False


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def document(title, caption, parts, height=HEIGHT):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{html.escape(title)}"><style>{STYLE}</style>',
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>', text(20, 28, title, "title"),
        text(20, 48, caption, "faint"), *parts, "</svg>", ""])


def nice_step(most, steps=5):
    """A step of 1, 2 or 5 times a power of ten, of which about `steps` reach `most`."""
    power = 10 ** math.floor(math.log10(most / steps))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * steps >= most)


class Axes:
    """A plot's area. `xs` are the values on the logarithmic x axis that have a label."""

    def __init__(self, xs, most, labels=None):
        self.low, self.high = math.log2(min(xs)), math.log2(max(xs))
        step = nice_step(most)
        self.step, self.top = step, step * math.ceil(most / step)
        self.xs, self.labels = xs, labels or [f"{x:g}" for x in xs]

    def x(self, value):
        part = (math.log2(value) - self.low) / (self.high - self.low)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)

    def parts(self, x_title, unit):
        parts = []
        value = 0.0
        while value <= self.top * 1.0001:
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(value):.1f}" y2="{self.y(value):.1f}" '
                         f'class="grid"/>')
            parts.append(text(LEFT - 8, self.y(value) + 4, f"{value:g}{unit}", "faint", "end"))
            value += self.step
        parts += [text(self.x(x), HEIGHT - BOTTOM + 18, label, "faint", "middle")
                  for x, label in zip(self.xs, self.labels)]
        parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 40, x_title, "faint", "middle"))
        return parts


def apart(ys, least=15.0):
    """Heights of labels, moved down so that they do not overlap, in the order of `ys`."""
    order = sorted(range(len(ys)), key=lambda i: ys[i])
    moved = list(ys)
    for before, after in zip(order, order[1:]):
        moved[after] = max(moved[after], moved[before] + least)
    return moved


def lines(title, caption, x_title, unit, drawn: "list[Line]", xs, labels=None):
    axes = Axes(xs, max(y for line in drawn for _, y in line.points), labels)
    parts = axes.parts(x_title, unit)
    ends = apart([axes.y(line.points[-1][1]) for line in drawn])
    for line, end in zip(drawn, ends):
        spots = [(axes.x(x), axes.y(y)) for x, y in line.points]
        path = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(spots))
        dashed = " dashed" if line.dashed else ""
        parts.append(f'<g class="c{line.colour}"><path class="line{dashed}" d="{path}"/>')
        parts += [f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>' for x, y in spots if not line.dashed]
        parts.append(f'<circle class="mark" cx="{WIDTH - RIGHT + 16}" cy="{end:.1f}" r="4"/></g>')
        parts.append(text(WIDTH - RIGHT + 26, end + 4, line.name))
    return document(title, caption, parts)


def bars(title, caption, unit, groups: "list[tuple[str, list[tuple[str, float, int]]]]"):
    """Groups of horizontal bars: of each, its name, and its bars' names, values and colours."""
    left, row, gap = 270, 18, 30
    most = max(value for _, rows in groups for _, value, _ in rows)
    scale = (WIDTH - left - 110) / most
    parts, y = [], 76
    for name, rows in groups:
        parts.append(text(20, y + 2, name))
        y += row
        for label, value, colour in rows:
            parts.append(text(left - 8, y + 2, label, "faint", "end"))
            parts.append(f'<g class="c{colour}"><rect class="bar" x="{left}" y="{y - 9}" width="{value * scale:.1f}" '
                         f'height="13"/></g>')
            parts.append(text(left + value * scale + 6, y + 2, f"{value:.2f}{unit}", "faint"))
            y += row
        y += gap - row
    return document(title, caption, parts, y)


def grid(title, caption, columns, rows, cells, x_title, y_title):
    """A grid of cells, each with its words, a value from -1 to 1 that colours it, and whether it is struck out."""
    left, top, width, height = 120, 96, 118, 52
    parts = [text(left + len(columns) * width / 2, top - 24, x_title, "faint", "middle"),
             text(20, top - 8, y_title, "faint")]
    parts += [text(left + (i + 0.5) * width, top - 8, name, "faint", "middle") for i, name in enumerate(columns)]
    for j, name in enumerate(rows):
        y = top + j * height
        parts.append(text(left - 10, y + height / 2 + 4, name, "faint", "end"))
        for i in range(len(columns)):
            words, value, struck = cells[j][i]
            x = left + i * width
            strong = 0.12 + 0.7 * min(1, abs(value))
            parts.append(f'<g class="c{0 if value >= 0 else 1}"><rect class="bar" x="{x + 2}" y="{y + 2}" '
                         f'width="{width - 4}" height="{height - 4}" fill-opacity="{strong:.2f}"/></g>')
            parts.append(text(x + width / 2, y + height / 2 - 2, words, "", "middle"))
            if struck:
                parts.append(text(x + width / 2, y + height / 2 + 15, "gate closed", "faint", "middle"))
    return document(title, caption, parts, top + len(rows) * height + 24)
