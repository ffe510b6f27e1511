"""Measured seconds of microbatches, from hooks and stopwatches to reports."""
