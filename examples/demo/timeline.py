"""Draws ranks × microbatches over a few steps of every policy, on one time scale, as an SVG."""

import html

import report

STEPS = 6
WIDTH, LEFT, RIGHT = 1200, 96, 40
ROW, ROW_GAP = 40, 8
PANEL_TOP, PANEL_GAP = 150, 84
NAMES = {"in-order": "In order", "tokens": "Tokens", "cost": "Cost"}
TEXTS = {"in-order": "samples dealt in order", "tokens": "every rank gets equal numbers of tokens (LPT)",
         "cost": "every rank gets equal cost"}

LIGHT = {"paper": "#ffffff", "ink": "#1c2330", "faint": "#667085", "line": "#d5dae3", "lane": "#f3f5f8",
         "vision": "#3b76c4", "audio": "#8e5bb5", "llm": "#2a9d83", "idle": "#e4572e", "wait": "#e0a100"}
DARK = {"paper": "#12161d", "ink": "#e8ecf3", "faint": "#98a2b3", "line": "#343c49", "lane": "#1b212b",
        "vision": "#5e9bec", "audio": "#b583dd", "llm": "#3fbf9f", "idle": "#ff7a52", "wait": "#f2bd3a"}


def colours(palette):
    """CSS rules in plain colours: librsvg and Inkscape do not know CSS variables."""
    fill = {"paper": "paper", "lane": "lane", "text": "ink", "faint": "faint", "small": "faint", "good": "llm",
            "bad": "idle", "vision": "vision", "audio": "audio", "llm": "llm", "wait": "wait", "hatched": "idle"}
    stroke = {"idle": "idle", "hatch": "idle", "rule": "line", "edge": "ink", "saved": "ink"}
    rules = [("text" if name == "text" else "." + name, "fill", colour) for name, colour in fill.items()]
    rules += [("." + name, "stroke", colour) for name, colour in stroke.items()]
    return " ".join(f"{name} {{ {what}: {palette[colour]}; }}" for name, what, colour in rules)


STYLE = f"""
  svg {{ font-family: system-ui, "DejaVu Sans", sans-serif; }}
  {colours(LIGHT)}
  @media (prefers-color-scheme: dark) {{ {colours(DARK)} }}
  text {{ font-size: 13px; }} .title {{ font-size: 21px; font-weight: 650; }}
  .name {{ font-size: 16px; font-weight: 650; }} .big {{ font-size: 30px; font-weight: 700; }}
  .small {{ font-size: 11.5px; }} .idle {{ fill: url(#hatch); stroke-width: 1; }} .hatch {{ stroke-width: 2.4; }}
  .hatched {{ opacity: .13; }} .rule {{ stroke-width: 1; }} .edge {{ stroke-width: 1.5; }}
  .saved {{ stroke-width: 1.5; stroke-dasharray: 4 3; }}
"""


def choose_window(run, steps):
    """Returns the first of the consecutive steps whose idle fraction is closest to that of the whole run."""
    warm = run.warm()
    steps = min(steps, len(warm))
    wanted = report.idle_fraction(warm)
    starts = range(len(warm) - steps + 1)
    return min(starts, key=lambda i: abs(report.idle_fraction(warm[i:i + steps]) - wanted))


class Picture:
    def __init__(self):
        self.parts = []

    def rect(self, kind, x, y, width, height, tip=None):
        title = f"<title>{html.escape(tip)}</title>" if tip else ""
        end = f">{title}</rect>" if tip else "/>"
        self.parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
                          f'height="{height:.1f}"{end}')

    def text(self, kind, x, y, text, anchor="start"):
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" '
                          f'text-anchor="{anchor}">{html.escape(text)}</text>')

    def line(self, kind, x1, y1, x2, y2):
        self.parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" '
                          f'x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def svg(self, height, title):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
                f'width="{WIDTH}" height="{height}" role="img" aria-label="{html.escape(title)}">'
                f"<style>{STYLE}</style>"
                '<defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" '
                'patternTransform="rotate(45)"><rect class="hatched" width="7" height="7"/>'
                '<line class="hatch" x1="0" y1="0" x2="0" y2="7"/></pattern></defs>'
                + "\n".join(self.parts) + "</svg>\n")


class Panel:
    """One policy's lanes, its time starting at 0."""

    def __init__(self, picture, run, steps, top, scale):
        self.picture, self.steps, self.top, self.scale = picture, steps, top, scale
        self.origin = min(line["start_s"] for line in steps[0])
        self.ranks = len(steps[0])
        self.bottom = top + self.ranks * (ROW + ROW_GAP) - ROW_GAP
        keys = {(s[0]["epoch"], s[0]["step"]) for s in steps}
        self.microbatches = [line for line in run.microbatches if (line["epoch"], line["step"]) in keys]

    def x(self, seconds):
        return LEFT + (seconds - self.origin) * self.scale

    def row(self, rank):
        return self.top + rank * (ROW + ROW_GAP)

    def end(self):
        return max(line["end_s"] for line in self.steps[-1])

    def draw(self):
        for rank in range(self.ranks):
            y = self.row(rank)
            self.picture.text("faint", LEFT - 14, y + ROW / 2 + 4.5, f"rank {rank}", "end")
            self.picture.rect("lane", LEFT, y, self.x(self.end()) - LEFT, ROW)
        for line in self.microbatches:
            self.draw_microbatch(line)
        for step in self.steps:
            for line in step:
                self.draw_idle(line)
            right = self.x(max(line["end_s"] for line in step))
            left = self.x(min(line["start_s"] for line in step))
            self.picture.line("edge", right, self.top - 6, right, self.bottom + 6)
            self.picture.text("small", (left + right) / 2, self.bottom + 18,
                              f"step {step[0]['step'] + 1}", "middle")

    def draw_microbatch(self, line):
        y, x = self.row(line["rank"]), self.x(line["start_s"])
        wait = line["data_wait_s"] * self.scale
        if wait >= 0.5:
            self.picture.rect("wait", x - wait, y, wait, ROW,
                              f"waits for data, {line['data_wait_s']:.3f} s")
        for module in report.MODULES:
            seconds = line["seconds"].get(module, 0)
            width = seconds * self.scale
            if width > 0:
                self.picture.rect(module, x, y, width - 0.3, ROW,
                                  f"microbatch {line['microbatch']}, {module}: {seconds:.3f} s, "
                                  + report.counted(len(line["samples"]), "sample"))
            x += width
        self.picture.rect("paper", x - 1.2, y, 1.2, ROW)

    def draw_idle(self, line):
        seconds = line["wait_for_peers_s"]
        ready = line["end_s"] - line["reduce_s"] - seconds
        width = seconds * self.scale
        if width >= 1.5:
            self.picture.rect("idle", self.x(ready) + 0.5, self.row(line["rank"]) + 0.5, width - 1,
                              ROW - 1, f"rank {line['rank']} idle, {seconds:.3f} s")


def draw_headline(picture, result, steps):
    picture.rect("paper", 0, 0, WIDTH, 2000)
    policy = report.BEST
    idle = " → ".join(f"{100 * result['policies'][p]['idle_fraction']:.2g} %" for p in (report.BASELINE, policy))
    speedup = result["speedup"][policy]["steps"]
    picture.text("title", LEFT, 44, f"The same {steps} global batches under each policy")
    picture.text("faint", LEFT, 68, "Every block is a microbatch; a step ends when its slowest rank "
                 "is done. Time runs to the right, on one scale.")
    x = LEFT
    for kind, name in (("vision", "vision encoder"), ("audio", "audio encoder"),
                       ("llm", "language model"), ("idle", "idle: waits for the slowest rank"),
                       ("wait", "waits for data")):
        picture.rect(kind, x, 88, 22, 14)
        picture.text("faint", x + 29, 99.5, name)
        x += 29 + 6.5 * len(name) + 30
    right = WIDTH - RIGHT
    picture.text("big good", right, 52, f"{NAMES[policy]}: {speedup:.2f}× as fast", "end")
    picture.text("faint", right, 76, f"idle {idle}, whole run", "end")


def draw_scale(picture, y, seconds, scale):
    tick = next(t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 1e9) if seconds / t <= 14)
    picture.line("rule", LEFT, y, LEFT + seconds * scale, y)
    for i in range(int(seconds / tick) + 1):
        x = LEFT + i * tick * scale
        picture.line("rule", x, y, x, y + 5)
        picture.text("small", x, y + 19, f"{i * tick:g} s", "middle")


def draw_saved(picture, panel, limit, saved):
    """Marks what the policy saved: from its end to `limit`, where the baseline ended."""
    end, middle = panel.x(panel.end()), (panel.top + panel.bottom) / 2
    picture.line("saved", end + 6, middle, limit, middle)
    picture.line("edge", limit, middle - 7, limit, middle + 7)
    picture.text("name good", (end + limit) / 2, middle - 10, f"{saved:.2f} s saved", "middle")


def draw(runs, result, steps=STEPS):
    """Returns the picture as text: the first pass of each policy, in the order of report.POLICIES. `runs` as for
    report.compare. The baseline's pass decides which steps are shown."""
    runs = {policy: report.by_policy(runs)[policy][0] for policy in report.POLICIES}
    first = choose_window(runs[report.BASELINE], steps)
    windows = {policy: run.warm()[first:first + steps] for policy, run in runs.items()}
    shown = len(windows[report.BASELINE])
    spans = {p: max(line["end_s"] for line in w[-1]) - min(line["start_s"] for line in w[0])
             for p, w in windows.items()}
    longest = max(spans.values())
    scale = (WIDTH - LEFT - RIGHT) / longest
    picture = Picture()
    draw_headline(picture, result, shown)
    top, panels = PANEL_TOP + 30, {}
    for policy in runs:
        panel = panels[policy] = Panel(picture, runs[policy], windows[policy], top, scale)
        idle = 100 * report.idle_fraction(windows[policy])
        picture.text("name", LEFT, top - 16, NAMES[policy])
        offset = LEFT + 10 * len(NAMES[policy]) + 16
        picture.text("faint", offset, top - 16, f"{TEXTS[policy]} — {spans[policy]:.2f} s, "
                     f"ranks idle {idle:.0f} % of it")
        panel.draw()
        top = panel.bottom + PANEL_GAP
    for policy, panel in panels.items():
        saved = spans[report.BASELINE] - spans[policy]
        if saved * scale > 60:
            draw_saved(picture, panel, LEFT + spans[report.BASELINE] * scale, saved)
    bottom = top - PANEL_GAP
    draw_scale(picture, bottom + 38, longest, scale)
    return picture.svg(int(bottom + 80), "Timeline of ranks and microbatches")
