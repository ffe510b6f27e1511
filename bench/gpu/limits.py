"""The limits that results of bench/gpu/all.sh are held to. A result beyond one is kept, and says so."""

from typing import NamedTuple

COST_OF_MEASURING = 0.005
ERROR_OF_SECONDS = 0.03
BLOCKED = 0.01
FIRST_S = 5
MAPE = 0.05
MEMORY = 0.1


class Limit(NamedTuple):
    """A measured value, and the range in which it should be; both ends belong to the range."""

    name: str
    value: float
    most: float
    least: float = 0.0

    @property
    def holds(self):
        return self.least <= self.value <= self.most

    def document(self):
        return {**self._asdict(), "holds": self.holds}

    def __str__(self):
        return f"{'holds' if self.holds else 'MISSES'}: {self.name} {self.value:.4g}, {self.least:g} to {self.most:g}"


def of_own_work(result):
    for way, own in result["checks"]["seconds"].items():
        if isinstance(own, dict):
            yield Limit(f"{way}, error of measured seconds", own["error"], ERROR_OF_SECONDS, -ERROR_OF_SECONDS)
            yield Limit(f"{way}, cost of measuring", own["cost_of_measuring"], COST_OF_MEASURING, -1)


def of_waiting(result):
    own = result["ways"]["isocost"]
    if "failed" in own:
        return
    yield Limit("share of the time that the loop is blocked for data", own["blocked_share"], BLOCKED)
    yield Limit("seconds to the first microbatch", own["first_microbatch_s"], FIRST_S)


def of_memory(result):
    error = result["memory"].get("error_of_limited_bytes")
    if error:  # A CPU has no peak.
        yield Limit("what max_memory counts over the measured peak, least", error["least"], MEMORY)
        yield Limit("what max_memory counts over the measured peak, most", error["most"], MEMORY)


def of_profile(result):
    for name, model in result["models"].items():  # without results, where a model was left out
        for kind in ("held_out", "filled"):
            for module, own in model.get(kind, {}).items():
                yield Limit(f"{name}, {module}, {kind}: MAPE", own["prediction"]["mape"], MAPE)


OF_ITEM = {"own_work": of_own_work, "waiting": of_waiting, "memory": of_memory, "profile": of_profile,
           "documents": of_profile}


def of(item, result):
    return list(OF_ITEM[item](result)) if item in OF_ITEM else []
