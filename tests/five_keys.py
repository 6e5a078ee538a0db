"""The example by hand of chapters 03 and 31: one query, five keys, values in the plane."""

from attention_in_detail.exercises.compatibility import KEYS, QUERY, VALUES

__all__ = ["KEYS", "QUERY", "VALUES"]
