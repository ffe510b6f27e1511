"""The modules of a model that the cost model tells apart."""

MODULES = ("vision", "audio", "llm")
