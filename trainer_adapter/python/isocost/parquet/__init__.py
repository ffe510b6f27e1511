"""Rows of Parquet files as JSON records, for `isocost make-shards`."""
