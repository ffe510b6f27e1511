"""Draws the result as an SVG: predicted against measured seconds, and the ranks in one global batch."""

import html
import math

import plans
import report

WIDTH, MARGIN = 1200, 60
PANEL, PANEL_TOP = 500, 132  # height of a model's panel; of what is above the first
PLOT = 310  # side of the predicted-against-measured square
LANES_LEFT = 640
LANE, LANE_GAP = 15, 4
MOST_LANES = 8
KINDS = {"vision": "encoder", "llm": "decoder"}

LIGHT = {"paper": "#ffffff", "ink": "#1c2330", "faint": "#667085", "line": "#d5dae3", "lane": "#f3f5f8",
         "vision": "#3b76c4", "llm": "#2a9d83", "idle": "#e4572e"}
DARK = {"paper": "#12161d", "ink": "#e8ecf3", "faint": "#98a2b3", "line": "#343c49", "lane": "#1b212b",
        "vision": "#5e9bec", "llm": "#3fbf9f", "idle": "#ff7a52"}


def colours(palette):
    """CSS rules in plain colours: librsvg and Inkscape do not know CSS variables."""
    fill = {".paper": "paper", ".lane": "lane", "text": "ink", ".faint": "faint", ".small": "faint", ".good": "llm",
            ".vision": "vision", ".llm": "llm", ".hatched": "idle"}
    stroke = {".idle": "idle", ".hatch": "idle", ".rule": "line", ".edge": "ink", ".equal": "faint"}
    return " ".join([*(f"{name} {{ fill: {palette[colour]}; }}" for name, colour in fill.items()),
                     *(f"{name} {{ stroke: {palette[colour]}; }}" for name, colour in stroke.items())])


STYLE = f"""
  svg {{ font-family: system-ui, "DejaVu Sans", sans-serif; }}
  {colours(LIGHT)}
  @media (prefers-color-scheme: dark) {{ {colours(DARK)} }}
  text {{ font-size: 13px; }} .title {{ font-size: 21px; font-weight: 650; }}
  .name {{ font-size: 16px; font-weight: 650; }} .small {{ font-size: 11.5px; }} .dot {{ fill-opacity: .45; }}
  .idle {{ fill: url(#hatch); stroke-width: 1; }} .hatch {{ stroke-width: 2.4; }} .hatched {{ opacity: .13; }}
  .rule {{ stroke-width: 1; }} .edge {{ stroke-width: 1.5; }} .equal {{ stroke-width: 1; stroke-dasharray: 4 3; }}
"""
HATCH = ('<defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
         '<rect class="hatched" width="7" height="7"/><line class="hatch" x1="0" y1="0" x2="0" y2="7"/></pattern>'
         '</defs>')


class Picture:
    def __init__(self):
        self.parts = []

    def rect(self, kind, x, y, width, height):
        self.parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
                          f'height="{height:.1f}"/>')

    def dot(self, kind, x, y):
        self.parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>')

    def text(self, kind, x, y, text, anchor="start"):
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
                          f"{html.escape(text)}</text>")

    def line(self, kind, x1, y1, x2, y2):
        self.parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def svg(self, height):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
                f'height="{height}" role="img"><style>{STYLE}</style>{HATCH}' + "\n".join(self.parts) + "</svg>\n")


def seconds_text(seconds):
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


KINDS_OF_MICROBATCHES = {"held_out": "of 1-4 samples", "filled": "filled", "replayed": "in plans"}


def comparisons_of(model):
    """[(module, measured, predicted)] of all microbatches that were not profiled."""
    return [(module, own["measured_s"], own["predicted_s"]) for key in model["comparisons"]
            for module in KINDS for own in model["comparisons"][key][module]]


def draw_errors(picture, model, top):
    """Every microbatch as a dot, logarithmic both ways."""
    dots = [dot for dot in comparisons_of(model) if min(dot[1:]) > 0]
    low = math.floor(math.log10(min(min(dot[1:]) for dot in dots)))
    high = math.ceil(math.log10(max(max(dot[1:]) for dot in dots)))
    left, bottom, scale = MARGIN + 50, top + PLOT, PLOT / max(1, high - low)
    picture.rect("lane", left, top, PLOT, PLOT)
    for power in range(low, high + 1):
        at = (power - low) * scale
        picture.line("rule", left + at, top, left + at, bottom)
        picture.line("rule", left, bottom - at, left + PLOT, bottom - at)
        picture.text("small", left + at, bottom + 17, seconds_text(10.0**power), "middle")
        picture.text("small", left - 8, bottom - at + 4, seconds_text(10.0**power), "end")
    picture.line("equal", left, bottom, left + PLOT, top)
    for module, measured, predicted in dots:
        x, y = (scale * (math.log10(seconds) - low) for seconds in (measured, predicted))
        picture.dot(f"{module} dot", left + x, bottom - y)
    picture.text("faint", left, top - 12, "predicted (up) against measured (right); a dot is a microbatch")
    for i, (module, title) in enumerate(KINDS.items()):
        mape = {key: model[key][module] for key in KINDS_OF_MICROBATCHES if key in model}
        ours = ", ".join(f"{100 * own['prediction']['mape']:.1f} % {KINDS_OF_MICROBATCHES[key]}"
                         for key, own in mape.items())
        theirs = ", ".join(f"{100 * own['one_throughput']['mape']:.0f}" for own in mape.values())
        picture.text("small", MARGIN, bottom + 40 + 17 * i, f"{title}: MAPE {ours}; one throughput {theirs} %")


DRAWN = (plans.BASELINE, "cost")


def draw_lanes(picture, step, policy, top, scale):
    """Draws each rank's work and idle time. Returns the lower edge of the lanes."""
    outcome = step[policy]
    ranks = outcome["ranks"][:MOST_LANES]
    shown = "" if len(ranks) == len(outcome["ranks"]) else f", {len(ranks)} of {len(outcome['ranks'])} ranks shown"
    picture.text("name", LANES_LEFT, top - 10, plans.POLICIES[policy])
    picture.text("faint", LANES_LEFT + 100, top - 10, f"{seconds_text(outcome['step_s'])}, ranks idle "
                 f"{100 * outcome['idle_fraction']:.1f} %{shown}")
    for i, rank in enumerate(ranks):
        y, x = top + i * (LANE + LANE_GAP), LANES_LEFT
        for module in KINDS:
            width = rank[f"{module}_s"] * scale
            picture.rect(module, x, y, width, LANE)
            x += width
        rest = LANES_LEFT + outcome["step_s"] * scale - x
        if rest > 1.5:
            picture.rect("idle", x + 0.5, y + 0.5, rest - 1, LANE - 1)
        picture.text("small", LANES_LEFT - 8, y + LANE - 3.5, f"rank {i}", "end")
    bottom = top + len(ranks) * (LANE + LANE_GAP) - LANE_GAP
    end = LANES_LEFT + outcome["step_s"] * scale
    picture.line("edge", end, top - 4, end, bottom + 4)
    return bottom


def draw_model(picture, name, model, result, top):
    picture.text("name", MARGIN, top, name)
    if "skipped" in model:
        picture.text("faint", MARGIN, top + 24, f"left out: {model['skipped']}")
        return
    policy, speedup = list(model["summary"]["speedup"].items())[-1]
    picture.text("faint", MARGIN + 140, top, f"{report.batches(model)}, "
                 f"{result['ranks']} virtual ranks × {result['microbatches']} microbatches")
    picture.text("name good" if speedup["median"] > 1 else "name", WIDTH - MARGIN, top,
                 f"{plans.POLICIES[policy]} {speedup['median']:.2f}× as fast ({speedup['least']:.2f} to "
                 f"{speedup['most']:.2f})", "end")
    draw_errors(picture, model, top + 46)
    step = model["steps"][0]
    scale = (WIDTH - MARGIN - LANES_LEFT) / max(step[policy]["step_s"] for policy in DRAWN)
    bottom = top + 14
    for policy in DRAWN:
        bottom = draw_lanes(picture, step, policy, bottom + 46, scale)


def draw(result):
    """Returns the picture as text. result: as profile_mllm.py writes it."""
    height = PANEL_TOP + PANEL * len(result["models"])
    picture = Picture()
    picture.rect("paper", 0, 0, WIDTH, height)
    picture.text("title", MARGIN, 44, f"Predicted and measured on {result['hardware']}" +
                 (" (tiny shapes: a test of the path)" if result["tiny"] else ""))
    picture.text("faint", MARGIN, 68, f"{result['dtype']}, torch {result['versions'].get('torch')}, {result['date']}. "
                 f"Predicted by {result['pricing']}, balanced by {result['balancing']}. Right: the first global batch.")
    x = MARGIN
    for kind, name in (("vision", "encoder"), ("llm", "decoder"), ("idle", "idle: waits for the slowest rank")):
        picture.rect(kind, x, 82, 22, 14)
        picture.text("faint", x + 29, 93.5, name)
        x += 29 + 6.5 * len(name) + 30
    for i, (name, model) in enumerate(result["models"].items()):
        draw_model(picture, name, model, result, PANEL_TOP + 8 + PANEL * i)
    return picture.svg(height)
