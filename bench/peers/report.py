"""From records to the table, as text and as Markdown, and the numbers behind it."""

import statistics

from contenders import CONTENDERS

OURS = "isocost"
COLUMNS = (("samples/s", 11), ("(least to most)", 20), ("Isocost is", 12), ("CPU ms/sample", 15), ("a core, it is", 15),
           ("peak MB", 9), ("PSS MB", 8), ("differs, most", 16))


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def summary(contender):
    """Rates and costs of a contender over its runs."""
    runs = contender["runs"]
    return {"samples_per_s": spread([run["samples"] / run["seconds"] for run in runs]),
            "cpu_ms_per_sample": spread([1e3 * run["cpu_s"] / run["samples"] for run in runs]),
            "peak_mb": max(run["peak_bytes"] for run in runs) / 1e6,
            "shared_mb": max(run["shared_bytes"] for run in runs) / 1e6}


def ratios(contender, ours):
    """How many times as fast Isocost is, by the clock and by CPU time: medians over the rounds, which both met."""
    pairs = list(zip(contender["runs"], ours["runs"]))
    return (statistics.median([theirs["seconds"] / mine["seconds"] for theirs, mine in pairs]),
            statistics.median([theirs["cpu_s"] / mine["cpu_s"] for theirs, mine in pairs]))


def others(work, cores):
    """The share of the machine that other programs took while the clock ran: the mean, and the most of a run."""
    shares = [run["others_cpu_s"] / run["seconds"] / cores for each in work["contenders"] for run in each["runs"]]
    return (statistics.mean(shares), max(shares)) if shares else (0.0, 0.0)


def server_ms(contender):
    """CPU time of the server for a sample: the median of the runs; 0 where there is no server."""
    return statistics.median([1e3 * run.get("server_cpu_s", 0) / run["samples"] for run in contender["runs"]])


def rows(work):
    """(contender, summary, ratios or None) of a work, the fastest first."""
    ours = next((each for each in work["contenders"] if each["name"] == work.get("ours", OURS)), None)
    made = [(each, summary(each), ratios(each, ours) if ours and each is not ours else None)
            for each in work["contenders"] if each["runs"]]
    return sorted(made, key=lambda row: -row[1]["samples_per_s"]["median"])


def number(value):
    """Three significant digits, without an exponent."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f}"


def cells(contender, values, ratio):
    rate = values["samples_per_s"]
    wall, cpu = ("-", "-") if ratio is None else (f"{each:.2f}×" for each in ratio)
    gap = contender["difference"]
    return (number(rate["median"]), f"({number(rate['least'])} to {number(rate['most'])})", wall,
            number(values["cpu_ms_per_sample"]["median"]), cpu, f"{values['peak_mb']:.0f}",
            f"{values['shared_mb']:.0f}", f"{gap['mean']:.2f}, {gap['largest']:.0f}")


def table(record):
    """The text of all works."""
    machine = record["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in record["versions"].items() if version)
    lines = [f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_before']:.2f} before and "
             f"{machine['load_after']:.2f} after; {record['date']}; {record['rounds']} rounds; medians",
             f"Python {record['python']}, {packages}"]
    for work in record["works"]:
        head = "".join(f"{name:>{width}}" for name, width in COLUMNS)
        mean, most = others(work, machine["cores"])
        lines += ["", f"{work['title']} ({work['samples']} files; differences {work['unit']}, from "
                      f"{CONTENDERS[work['reference']].title}; other programs took {mean:.0%} of the machine, at most "
                      f"{most:.0%} during a run)", f"{'':32}{head}"]
        for contender, values, ratio in rows(work):
            lines.append(f"{contender['title']:32}" + "".join(
                f"{text:>{width}}" for text, (_, width) in zip(cells(contender, values, ratio), COLUMNS)))
        served = [f"{contender['title']} {server_ms(contender):.2f}" for contender, _, _ in rows(work)
                  if server_ms(contender)]
        lines += [f"the server's CPU ms/sample, in no other figure: {', '.join(served)}"] if served else []
        lines += [f"{name}: {each['lines_of_code']} lines of code, {each['libtorch']}"
                  for name, each in work.get("programs", {}).items()]
        lines += [f"{CONTENDERS[name].title:32}{'failed':>11}  {why}" for name, why in work["failed"].items()]
        lines += [f"{CONTENDERS[name].title:32}{'-':>11}  {why}" for name, why in work["cannot"].items()]
    return "\n".join(lines) + "\n"


def factors(work, ours, which):
    """How many times as fast this form of Isocost is, or how many times as little CPU time it takes, for each other
    loader."""
    rest = [contender for contender, _, _ in rows(work) if not contender["name"].startswith(OURS)]
    return "; ".join(f"{contender['title']} {ratios(contender, ours)[which]:.2f}" for contender in rest)


def markdown(record):
    """The table of docs/benchmarks.md: a row for each work, and for each form of Isocost that does it."""
    lines = ["| | samples/s | times as fast as | CPU time a sample, times as little as |", "|---|---|---|---|"]
    for work in record["works"]:
        for ours in work["contenders"]:
            if ours["name"].startswith(OURS) and ours["runs"]:
                rate = summary(ours)["samples_per_s"]
                lines.append(f"| {work['title']}{ours['title'].removeprefix('Isocost')} | {number(rate['median'])} "
                             f"({number(rate['least'])} to {number(rate['most'])}) | {factors(work, ours, 0)} | "
                             f"{factors(work, ours, 1)} |")
    return "\n".join(lines) + "\n"
